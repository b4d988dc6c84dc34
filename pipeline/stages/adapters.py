"""The adapters of a run, made from names, Python functions or adapter objects; which adapters stay in a run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from adapters.base import AdapterError
from pipeline.config.options import TABLES, Settings
from pipeline.run.folder import Run
from pipeline.run.record import RunError

if TYPE_CHECKING:
    from adapters.base import Adapter

    # A name, a function of an image's bytes, or an object that implements the adapter interface.
    Classifier = str | Callable[[bytes], object] | Adapter


def adapter_names(classifiers: "Sequence[Classifier]") -> list[str]:
    """Return the names of classifiers in a run's record.

    Raises:
        AdapterError: the source of a function is not available.
    """
    return [spec if isinstance(spec, str) else _as_adapter(spec).name for spec in classifiers]


def make_adapters(settings: Settings, out: Path, classifiers: "Sequence[Classifier] | None" = None) -> "list[Adapter]":
    """Make the adapters of a run before anything else, so that a misspelt name is reported before the work.

    Args:
        settings: contain the options of adapters by name.
        out: the run's folder, for adapters that read it.
        classifiers: names, functions or adapter objects. Default: the names in ``settings``.

    Raises:
        AdapterError: an adapter cannot be made, or two have the same name.
        ConfigError: an adapter is named twice, or has options without being named.
    """
    settings.query.check_adapters()
    given: Sequence[Classifier] = settings.query.adapters if classifiers is None else classifiers
    made = [make_adapter(spec, settings, out) if isinstance(spec, str) else _as_adapter(spec) for spec in given]
    names = [adapter.name for adapter in made]
    for name in names:
        if names.count(name) > 1:
            raise AdapterError(f"two classifiers are called {name!r}: give each function its own name")
    return made


def make_adapter(spec: str, settings: Settings, out: Path) -> "Adapter":
    """Make an adapter by its name, such as ``opencv`` or ``python:mine:classify``; see ``make_adapters``.

    Raises:
        AdapterError: there is no such adapter, or an option is invalid.
    """
    from adapters.registry import create, option_names

    options = dict(settings.query.options.get(spec, {}))
    if "run" in option_names(spec):
        options.setdefault("run", out)
    return create(spec, options)


def kept_adapters(run: Run, adapters: "Sequence[Adapter]", *, only: bool, drop: Sequence[str]) -> list[str]:
    """Return the names of a run's other classifiers that stay in it, without ``drop``; none with ``only``.

    Raises:
        RunError: a name to drop is not in the run, or no classifier would be left.
    """
    for name in drop:
        if name not in run.record.query:
            known = ", ".join(run.record.query) or "none"
            raise RunError(f"{run.folder} has no adapter {name} to drop; it has {known}")
    named = {adapter.name for adapter in adapters}
    keep = [] if only else [name for name in run.record.query if name not in (*named, *drop)]
    if not adapters and not keep:
        raise RunError(f"{run.folder} would have no adapter left: name another with --adapter")
    return keep


def with_kept(settings: Settings, run: Run, *, keep: Sequence[str], named: Sequence[str] = ()) -> Settings:
    """Return the settings with the classifiers that stay in a run and their options in its record."""
    changes: dict[str, Any] = {"adapters": (*keep, *named)}
    if run.record.settings is not None:
        for table in ("options", *TABLES):
            before: Mapping[str, Any] = getattr(run.record.settings.query, table)
            changes[table] = {n: v for n, v in before.items() if n in keep} | getattr(settings.query, table)
    return settings.model_copy(update={"query": settings.query.model_copy(update=changes)})


def _as_adapter(classifier: "Callable[[bytes], object] | Adapter") -> "Adapter":
    from adapters.python import PythonFunction

    if hasattr(classifier, "send"):
        return cast("Adapter", classifier)
    if not callable(classifier):
        raise AdapterError(f"{classifier!r} is no classifier: give a name, or a function that takes an image's bytes")
    return PythonFunction.of(classifier)
