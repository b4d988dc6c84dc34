"""The adapters of a run: by name, as functions of a Python program or ready made; which of them stay in the run."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from adapters.base import AdapterError
from pipeline.config.options import TABLES, Settings
from pipeline.run.folder import Run
from pipeline.run.record import RunError

if TYPE_CHECKING:
    from adapters.base import Adapter

    # A name, a function of an image's bytes, or whatever fulfils the adapters' contract.
    Classifier = str | Callable[[bytes], object] | Adapter


def adapter_names(classifiers: "Sequence[Classifier]") -> list[str]:
    """The names of classifiers in a run's record.

    Raises:
        AdapterError: a function's source is not to be had.
    """
    return [one if isinstance(one, str) else _as_adapter(one).name for one in classifiers]


def make_adapters(settings: Settings, out: Path, classifiers: "Sequence[Classifier] | None" = None) -> "list[Adapter]":
    """The adapters of a run, made before anything else, so that a misspelt name is not found out after an hour of work.

    Args:
        settings: hold the options of adapters by name.
        out: the run's folder, for adapters that read it.
        classifiers: by name, as functions or ready made; those that ``settings`` name unless given.

    Raises:
        AdapterError: one cannot be made, or has another's name.
        ConfigError: one is named twice, or has options without being named.
    """
    settings.query.check_adapters()
    given: Sequence[Classifier] = settings.query.adapters if classifiers is None else classifiers
    made = [make_adapter(one, settings, out) if isinstance(one, str) else _as_adapter(one) for one in given]
    names = [adapter.name for adapter in made]
    for name in names:
        if names.count(name) > 1:
            raise AdapterError(f"two classifiers are called {name!r}: give each function a name of its own")
    return made


def make_adapter(spec: str, settings: Settings, out: Path) -> "Adapter":
    """One adapter by its name, such as ``opencv`` or ``python:mine:classify``; see ``make_adapters``.

    Raises:
        AdapterError: there is no such adapter, or an option does not fit.
    """
    from adapters.registry import create, option_names

    options = dict(settings.query.options.get(spec, {}))
    if "run" in option_names(spec):
        options.setdefault("run", out)
    return create(spec, options)


def kept_adapters(run: Run, adapters: "Sequence[Adapter]", *, only: bool, drop: Sequence[str]) -> list[str]:
    """The names of a run's classifiers that stay in it next to ``adapters``; none if ``only``, none of ``drop``.

    Raises:
        RunError: the run has none of a name to drop, or would have none left.
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
    """The settings with the classifiers that stay in a run, and with its options for them."""
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
