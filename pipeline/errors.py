"""The errors that whoever asked for something can mend: the message of each says what is wrong and how."""

from adapters.base import AdapterError
from models.errors import WeightsError
from pipeline.config import ConfigError
from pipeline.metrics.predictions import InputError
from pipeline.photos import NoUsablePhotos
from pipeline.querying.plan import PlanError
from pipeline.querying.store import StoreError
from pipeline.run import RunError

MENDABLE: tuple[type[Exception], ...] = (
    AdapterError,
    ConfigError,
    InputError,
    NoUsablePhotos,
    PlanError,
    RunError,
    StoreError,
    WeightsError,
)
