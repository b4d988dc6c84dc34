"""Work that waits for several threads: to be done now, or not before some moment. What it is, is not known here."""

import heapq
import threading
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Generic, TypeVar

Job = TypeVar("Job")

_LOOK = 0.1  # seconds; how often a waiting thread looks whether the work was stopped


class DelayQueue(Generic[Job]):
    """Hands out jobs to threads until there are none, none is being done, or the work is stopped.

    What is due to be tried again comes before what is new.

    Args:
        jobs: due at once, in their order.
        stopped: when set, nothing more is handed out.
    """

    def __init__(self, jobs: Iterable[Job], *, stopped: threading.Event) -> None:
        self._new = deque(jobs)
        self._later: list[tuple[float, int, Job]] = []
        self._numbered = 0
        self._at_work = 0
        self._stopped = stopped
        self._changed = threading.Condition()

    def put(self, job: Job, *, delay: float = 0.0) -> None:
        """Add a job that is not due before ``delay`` seconds have passed."""
        with self._changed:
            self._numbered += 1
            heapq.heappush(self._later, (monotonic() + delay, self._numbered, job))
            self._changed.notify()

    def take(self) -> Job | None:
        """The next job, waiting until one is due; None: there is nothing more to do. After it, call `done`."""
        with self._changed:
            while not self._stopped.is_set():
                now = monotonic()
                if self._later and self._later[0][0] <= now:
                    self._at_work += 1
                    return heapq.heappop(self._later)[2]
                if self._new:
                    self._at_work += 1
                    return self._new.popleft()
                if not self._later and not self._at_work:
                    break
                self._changed.wait(min(_LOOK, self._later[0][0] - now) if self._later else _LOOK)
            return None

    def done(self) -> None:
        """A job that was taken has been dealt with (its successors, if any, were put before this)."""
        with self._changed:
            self._at_work -= 1
            self._changed.notify_all()

    def left(self) -> list[Job]:
        """What nobody took."""
        with self._changed:
            return [*self._new, *(job for _, _, job in self._later)]
