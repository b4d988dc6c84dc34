"""Scheduling of requests: a rate limiter for many threads, and a queue with delayed retries."""

import heapq
import threading
from collections import deque
from collections.abc import Iterable
from time import monotonic
from typing import Generic, TypeVar

Job = TypeVar("Job")

# Share of the allowed rate: jitter may bring two requests together, which a service that counts by second would refuse.
MARGIN = 0.975
LATE = 0.02  # seconds; a request that is later than this takes a new turn, so that stalls do not become bursts
SLOWER = 0.7  # factor of the rate after a refusal
RECOVERY = 0.05  # share of the allowed rate that is regained per second without refusal
CAREFUL_RECOVERY = 0.005  # the same near the rate that was refused last
LONGEST_PAUSE = 5.0  # seconds for all requests; an image that has to wait longer is delayed on its own
_TURNS = 5
_POLL = 0.1  # seconds between checks of a waiting thread


class RateLimiter:
    """Spaces requests evenly at up to ``rate`` per second, slows down after refusals and recovers gradually.

    Existing libraries have a fixed rate and count requests in windows, so they admit bursts that a service with shorter
    windows refuses. This limiter never makes up for lost time.

    Args:
        rate: the allowed requests per second; None: unlimited.
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
        """Present requests per second; None: unlimited."""
        return None if self._allowed is None else self._rate

    def wait_turn(self, stopped: threading.Event) -> bool:
        """Wait until a request may be sent; False: ``stopped`` was set meanwhile."""
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
        """Slow down because a request was refused.

        Args:
            sent: when it was sent, in monotonic seconds.
            wait: seconds for which the service wants no requests; None: it did not say.
        """
        with self._lock:
            now = monotonic()
            if wait is not None:
                self._paused_until = max(self._paused_until, now + min(wait, LONGEST_PAUSE))
            if self._allowed is None or sent <= self._slowed:
                return  # sent before the last slow-down: the refusals of concurrent requests count once
            self._slowed = now
            self._refused = self._rate
            self._rate = max(self._allowed / 100, self._rate * SLOWER)

    def accepted(self) -> None:
        """Recover because a request was answered."""
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
    """Hands out jobs to threads until none is left or being worked on, or ``stopped`` is set.

    Retries that are due come before new jobs.

    Args:
        jobs: new jobs, due at once, in order.
        stopped: ends the queue when set.
    """

    def __init__(self, jobs: Iterable[Job], *, stopped: threading.Event) -> None:
        self._new = deque(jobs)
        self._later: list[tuple[float, int, Job]] = []
        self._numbered = 0
        self._at_work = 0
        self._stopped = stopped
        self._changed = threading.Condition()

    def put(self, job: Job, *, delay: float = 0.0) -> None:
        """Add a job that is due after ``delay`` seconds."""
        with self._changed:
            self._numbered += 1
            heapq.heappush(self._later, (monotonic() + delay, self._numbered, job))
            self._changed.notify()

    def take(self) -> Job | None:
        """Wait for the next job that is due; None: there are no more. Call `done` after each job."""
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
                self._changed.wait(min(_POLL, self._later[0][0] - now) if self._later else _POLL)
            return None

    def done(self) -> None:
        """Report that a job is finished; its retries must have been `put` before."""
        with self._changed:
            self._at_work -= 1
            self._changed.notify_all()

    def left(self) -> list[Job]:
        """Return the jobs that were not taken."""
        with self._changed:
            return [*self._new, *(job for _, _, job in self._later)]
