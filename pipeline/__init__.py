"""The pipeline of an audit, and the names of its Python API, which are imported when first used."""
# ruff: noqa: F401
# mypy: implicit-reexport

from typing import TYPE_CHECKING

from pipeline.config.lazy import lazy_names

if TYPE_CHECKING:
    from adapters.base import AdapterError
    from pipeline.analyses.inputs import InputError
    from pipeline.api import analyse, audit, generate, open_run
    from pipeline.config.options import ConfigError
    from pipeline.photos.listing import NoUsablePhotos
    from pipeline.querying.plan import PlanError
    from pipeline.run.record import RunError
    from pipeline.stages.run_view import RunView

__getattr__, __dir__, __all__ = lazy_names(__name__, __file__)
