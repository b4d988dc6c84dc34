"""The pipeline of an audit, and the names of its Python API, which are imported when first used."""

from importlib import import_module
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
_MODULES = {
    "AdapterError": "adapters.base",
    "ConfigError": "pipeline.config.options",
    "InputError": "pipeline.analyses.inputs",
    "NoUsablePhotos": "pipeline.photos.listing",
    "PlanError": "pipeline.querying.plan",
    "RunError": "pipeline.run.record",
    "RunView": "pipeline.stages.run_view",
    "analyse": "pipeline.api",
    "audit": "pipeline.api",
    "generate": "pipeline.api",
    "open_run": "pipeline.api",
}
__all__ = [*_MODULES]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
