"""Classifiers as a Python program has them: by name, as a function, or ready made."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from adapters.base import AdapterError
from pipeline.config.options import Settings
from pipeline.stages.audit import make_adapter

if TYPE_CHECKING:
    from adapters.base import Adapter

    # A name, a function of an image's bytes, or whatever fulfils the adapters' contract.
    Classifier = str | Callable[[bytes], object] | Adapter


def adapter_names(classifiers: "Sequence[Classifier]") -> list[str]:
    """What a run's record calls them.

    Raises:
        AdapterError: a function whose source is not to be had.
    """
    return [one if isinstance(one, str) else _as_adapter(one).name for one in classifiers]


def made_adapters(classifiers: "Sequence[Classifier]", settings: Settings, out: Path) -> "list[Adapter]":
    """Each as an adapter.

    Args:
        classifiers: those given.
        settings: for the options of those that are given by name.
        out: the run's folder, for those that want to know it.

    Raises:
        AdapterError: one is not there, cannot be used, or has another's name.
        ConfigError: something is said of a classifier that is not asked.
    """
    made = [make_adapter(one, settings, out) if isinstance(one, str) else _as_adapter(one) for one in classifiers]
    names = [adapter.name for adapter in made]
    for name in names:
        if names.count(name) > 1:
            raise AdapterError(f"two classifiers are called {name!r}: give each function a name of its own")
    settings.query.check_adapters()
    return made


def _as_adapter(classifier: "Callable[[bytes], object] | Adapter") -> "Adapter":
    from adapters.python import PythonFunction

    if hasattr(classifier, "send"):
        return cast("Adapter", classifier)
    if not callable(classifier):
        raise AdapterError(f"{classifier!r} is no classifier: give a name, or a function that takes an image's bytes")
    return PythonFunction.of(classifier)
