"""The errors that whoever asked for something can mend: the message of each says what is wrong and how."""

from adapters.base import AdapterError
from models.errors import WeightsError
from pipeline.analyses.inputs import InputError
from pipeline.config.options import ConfigError
from pipeline.photos.listing import NoUsablePhotos
from pipeline.querying.plan import PlanError
from pipeline.querying.store import StoreError
from pipeline.run.record import RunError

USER_ERRORS: tuple[type[Exception], ...] = (
    AdapterError,
    ConfigError,
    InputError,
    NoUsablePhotos,
    PlanError,
    RunError,
    StoreError,
    WeightsError,
)
