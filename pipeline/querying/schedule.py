"""When requests are due: turns evenly spaced over all threads, and a queue in which what failed waits for its time."""

import heapq
import threading
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Generic, TypeVar

Job = TypeVar("Job")

# Of the allowed rate: a service that counts any second's requests meets one too many where two were shaken together.
MARGIN = 0.975
LATE = 0.02  # seconds; a request that comes later than this takes a new turn, so that stalls do not become bursts
SLOWER = 0.7
RECOVERY = 0.05  # of the allowed rate, per second without refusal
CAREFUL_RECOVERY = 0.005  # near the rate that was refused last
LONGEST_PAUSE = 5.0  # seconds for all; an image that is to wait longer waits by itself
_TURNS = 5
_LOOK = 0.1  # seconds; how often a waiting thread looks whether the work was stopped


class RateLimiter:
    """Gives out turns at up to ``rate`` requests per second; slower after a refusal, faster again with time.

    Ready-made limiters count requests in windows: they let a window's worth go at once, which a service that counts in
    shorter windows refuses, and their rate is fixed. Here no burst makes up for lost time, and the rate is a number.

    Args:
        rate: the allowed requests per second; None: no limit.
    """

    def __init__(self, rate: float | None) -> None:
        self._allowed = None if rate is None else rate * MARGIN
        self._rate = self._allowed or 0.0
        self._refused = float("inf")
        self._next = 0.0
        self._paused_until = 0.0
        self._slowed = 0.0
        self._lock = threading.Lock()

    @property
    def rate(self) -> float | None:
        """Requests per second at the moment; None: no limit."""
        return None if self._allowed is None else self._rate

    def wait_turn(self, stopped: threading.Event) -> bool:
        """Wait until a request may be sent; False: stopped meanwhile."""
        for _ in range(_TURNS):
            slot = self._slot()
            left = slot - monotonic()
            if left > 0 and stopped.wait(left):
                return False
            now = monotonic()
            if self._allowed is None or (now - slot <= LATE and now >= self._paused_until):
                break
        return True

    def refused(self, *, sent: float, wait: float | None) -> None:
        """A request that was sent at ``sent`` (monotonic seconds) came too soon; all are to ``wait`` seconds."""
        with self._lock:
            now = monotonic()
            if wait is not None:
                self._paused_until = max(self._paused_until, now + min(wait, LONGEST_PAUSE))
            if self._allowed is None or sent <= self._slowed:
                return  # one of many that were on their way together: they are one refusal
            self._slowed = now
            self._refused = self._rate
            self._rate = max(self._allowed / 100, self._rate * SLOWER)

    def accepted(self) -> None:
        """A request was answered."""
        with self._lock:
            if self._allowed is None or self._rate >= self._allowed:
                return
            step = RECOVERY if self._rate < 0.9 * self._refused else CAREFUL_RECOVERY
            self._rate = min(self._allowed, self._rate + step * self._allowed / self._rate)

    def _slot(self) -> float:
        with self._lock:
            now = monotonic()
            if self._allowed is None:
                return max(now, self._paused_until)
            slot = max(self._next, now - LATE / 2, self._paused_until)
            self._next = slot + 1 / self._rate
            return slot


class DelayQueue(Generic[Job]):
    """Hands out jobs to threads until there are none and none is at work, or the work is stopped.

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
        """The jobs that no thread took."""
        with self._changed:
            return [*self._new, *(job for _, _, job in self._later)]
