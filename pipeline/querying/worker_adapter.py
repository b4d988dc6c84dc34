"""Querying a local classifier in worker processes, each of which has a copy of it."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from adapters.base import Adapter, AdapterError, FaceClassifier, Label, Landmarks, NoAnswer, RawAnswer
from pipeline.querying.runner import AdapterCalls
from pipeline.run.engine import IN_PROCESS, Engine, Step


@dataclass(frozen=True)
class SendImages:
    """An engine's job: send images to a pickled classifier."""

    adapter: bytes
    images: tuple[bytes, ...]
    faces: tuple[Landmarks | None, ...] | None = None  # for a `FaceClassifier`

    def __call__(self, step: Step) -> Sequence[RawAnswer | NoAnswer]:
        """Return the outcomes; see ``Adapter.send``."""
        adapter = _copy_of(self.adapter)
        if self.faces is not None and isinstance(adapter, FaceClassifier):
            return adapter.send_faces(self.images, self.faces)
        return adapter.send(self.images)


class WorkerAdapter:
    """A classifier whose calls run as jobs of an engine, one at a time in each worker.

    Args:
        adapter: the classifier; only its copies are called.
        engine: runs the jobs.
        processes: maximum concurrent jobs; default: the engine's size.

    Raises:
        AdapterError: the classifier cannot be copied to other processes.
    """

    def __init__(self, adapter: Adapter, engine: Engine, *, processes: int | None = None) -> None:
        self.name, self.model, self.parameters = adapter.name, adapter.model, adapter.parameters
        self.capabilities = replace(adapter.capabilities, concurrency=min(processes or engine.size, engine.size))
        self._adapter, self._engine = adapter, engine
        try:
            self._pickled = pickle.dumps(adapter)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise AdapterError(
                f"{adapter.name} cannot be queried in several processes ({error}): leave it out of --workers-for"
            ) from error

    def send(self, images: Sequence[bytes]) -> Sequence[RawAnswer | NoAnswer]:
        """See ``Adapter.send``."""
        return self._engine.call(SendImages(self._pickled, tuple(images)))

    def send_faces(self, images: Sequence[bytes], faces: Sequence[Landmarks | None]) -> Sequence[RawAnswer | NoAnswer]:
        """See ``FaceClassifier``."""
        return self._engine.call(SendImages(self._pickled, tuple(images), tuple(faces)))

    def parse(self, answer: RawAnswer) -> list[Label]:
        """See ``Adapter.parse``."""
        return self._adapter.parse(answer)


def in_workers(calls: AdapterCalls, engine: Engine, *, processes: int | None = None) -> AdapterCalls:
    """Redirect calls to an engine's workers if the classifier declares ``processes`` or the user asks for several.

    With ``processes=1`` the jobs run in this process, on one thread, so that answers are identical to those of workers.
    """
    adapter = calls.adapter
    if adapter.capabilities.remote or not (adapter.capabilities.processes or (processes or 1) > 1):
        return calls
    return replace(calls, adapter=WorkerAdapter(adapter, IN_PROCESS if processes == 1 else engine, processes=processes))


@lru_cache(maxsize=16)
def _copy_of(pickled: bytes) -> Adapter:
    adapter: Adapter = pickle.loads(pickled)  # noqa: S301 - pickled by this program
    return adapter
