"""The stages of an audit, in the order in which data flows through them: photos, faces, counterfactuals, answers,
statistics, report. Importing the package loads none of them; the names of its Python API are loaded when first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapters.base import AdapterError
    from pipeline.api import audit, open_run
    from pipeline.config import ConfigError
    from pipeline.metrics.predictions import InputError
    from pipeline.opened import Results
    from pipeline.photos import NoUsablePhotos
    from pipeline.querying.plan import PlanError
    from pipeline.run import RunError

__all__ = [
    "AdapterError",
    "ConfigError",
    "InputError",
    "NoUsablePhotos",
    "PlanError",
    "Results",
    "RunError",
    "audit",
    "open_run",
]
_PLACES = {
    "AdapterError": "adapters.base",
    "ConfigError": "pipeline.config",
    "InputError": "pipeline.metrics.predictions",
    "NoUsablePhotos": "pipeline.photos",
    "PlanError": "pipeline.querying.plan",
    "Results": "pipeline.opened",
    "RunError": "pipeline.run",
    "audit": "pipeline.api",
    "open_run": "pipeline.api",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
