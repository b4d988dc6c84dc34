"""A classifier on this machine that is queried in worker processes: each has a copy of it."""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from adapters.base import Adapter, AdapterError, FaceClassifier, Label, Landmarks, NoAnswer, RawAnswer
from pipeline.querying.runner import AdapterCalls
from pipeline.run.engine import IN_PROCESS, Engine, Step


@dataclass(frozen=True)
class SendImages:
    """The job of sending images to a classifier, which is given as `pickle` writes it."""

    adapter: bytes
    images: tuple[bytes, ...]
    faces: tuple[Landmarks | None, ...] | None = None  # for a classifier that takes them

    def __call__(self, step: Step) -> Sequence[RawAnswer | NoAnswer]:
        """The outcomes; see ``Adapter.send``."""
        adapter = _copy_of(self.adapter)
        if self.faces is not None and isinstance(adapter, FaceClassifier):
            return adapter.send_faces(self.images, self.faces)
        return adapter.send(self.images)


class WorkerAdapter:
    """A classifier whose calls are jobs of an engine; one call at a time for each of its workers.

    Args:
        adapter: the classifier; it is not called itself.
        engine: does the jobs.
        processes: how many jobs it does for this classifier at once, at most; as many as it can unless given.

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
    """The same calls, made by an engine's workers where the classifier, or whoever asks for ``processes``, allows it.

    One that has a single process is queried in this one; its answers have the same bits, for it computes on one thread.
    """
    adapter = calls.adapter
    if adapter.capabilities.remote or not (adapter.capabilities.processes or (processes or 1) > 1):
        return calls
    return replace(calls, adapter=WorkerAdapter(adapter, IN_PROCESS if processes == 1 else engine, processes=processes))


@lru_cache(maxsize=16)
def _copy_of(pickled: bytes) -> Adapter:
    adapter: Adapter = pickle.loads(pickled)  # noqa: S301 - of this program's own making
    return adapter
