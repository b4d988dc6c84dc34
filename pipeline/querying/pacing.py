"""When the next request may be sent: evenly spaced over all threads, slower after a refusal, faster again with time.

Ready-made limiters count requests in windows: they let a window's worth go at once, which a service that counts in
shorter windows refuses, and their rate is fixed. Here no burst is ever made up for lost time, and the rate is a number.
"""

import threading
from math import ceil
from time import monotonic

# Of the allowed rate: a service that counts any second's requests meets one too many where two were shaken together.
MARGIN = 0.975
LATE = 0.02  # seconds; a request that comes later than this takes a new turn, so that stalls do not become bursts
AHEAD = 0.1  # seconds; about so far ahead of its turn a request is made ready
SLOWER = 0.7
RECOVERY = 0.05  # of the allowed rate, per second without refusal
CAREFUL_RECOVERY = 0.005  # near the rate that was refused last
LONGEST_PAUSE = 5.0  # seconds for all; an image that is to wait longer waits by itself
_TURNS = 5


class RateLimiter:
    """Gives out turns at up to ``rate`` requests per second.

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
        # Few requests are made ready (their intents written) long before they are sent.
        self.entrance = threading.BoundedSemaphore(10_000 if rate is None else max(2, ceil(rate * AHEAD) + 1))

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
