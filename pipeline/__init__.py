"""The stages of an audit, in the order in which data flows through them: photos, faces, counterfactuals, answers,
statistics, report. Importing the package loads none of them; the names of its Python API are loaded when first used.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from adapters.base import AdapterError
    from pipeline.analyses.inputs import InputError
    from pipeline.api import analyse, audit, generate, open_run
    from pipeline.config.options import ConfigError
    from pipeline.photos.listing import NoUsablePhotos
    from pipeline.querying.plan import PlanError
    from pipeline.run.record import RunError
    from pipeline.stages.run_view import RunView

__all__ = [
    "AdapterError",
    "ConfigError",
    "InputError",
    "NoUsablePhotos",
    "PlanError",
    "RunError",
    "RunView",
    "analyse",
    "audit",
    "generate",
    "open_run",
]
_PLACES = {
    "AdapterError": "adapters.base",
    "ConfigError": "pipeline.config.options",
    "InputError": "pipeline.analyses.inputs",
    "NoUsablePhotos": "pipeline.photos.listing",
    "PlanError": "pipeline.querying.plan",
    "RunView": "pipeline.stages.run_view",
    "RunError": "pipeline.run.record",
    "analyse": "pipeline.api",
    "audit": "pipeline.api",
    "generate": "pipeline.api",
    "open_run": "pipeline.api",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
