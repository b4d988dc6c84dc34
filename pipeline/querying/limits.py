"""What bounds the calls to a classifier: when one is repeated, when a service is given up, what may be spent."""

import random
import threading
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from adapters.base import Adapter, NoAnswer
from pipeline.querying.requests import ImageRef

CallResult = Literal["answer", "never", "later", "slower"]

_LOOK = 0.2  # seconds; how often a waiting thread looks whether anything changed
_ROUNDING = 1e-9  # US$; sums of many small prices are not exact


@dataclass(frozen=True)
class RetryPolicy:
    """How long an image is tried.

    A retry is a value; no thread sleeps for it: libraries that repeat a call wait in its thread, but here the decision
    is about some images of a call, and an image that waits must not keep a thread.

    Attributes:
        attempts: requests for one image at most, not counting those made while the service was down.
        unreadable: requests for one image at most whose answers hold no labels; each is charged for.
        seconds: after the first, no further request is begun.
        first: the upper end of the first random wait in seconds; it doubles with each attempt.
        longest: of any wait, also of one that the service demanded.
    """

    attempts: int = 6
    unreadable: int = 3
    seconds: float = 600.0
    first: float = 0.5
    longest: float = 60.0


def next_try(
    failure: NoAnswer, *, attempts: int, elapsed: float, policy: RetryPolicy, chance: random.Random
) -> float | None:
    """Seconds until an image without an answer is sent again; None: it is not.

    Exponential back-off with full jitter: uniform in 0 to ``first`` times 2^(attempts - 1), after whatever wait the
    service demanded.

    Args:
        failure: of the last attempt.
        attempts: made so far.
        elapsed: seconds since the first one.
        policy: the bounds.
        chance: the source of the jitter.

    Source: Brooker, "Exponential Backoff and Jitter", AWS Architecture Blog, 2015.
    """
    if failure.retry == "never" or attempts >= policy.attempts:
        return None
    jitter = chance.uniform(0, min(policy.longest, policy.first * 2 ** (attempts - 1)))
    delay = min(policy.longest, failure.wait or 0.0) + jitter
    return delay if elapsed + delay <= policy.seconds else None


@dataclass(frozen=True)
class BreakerPolicy:
    """When a service counts as failing, and for how long it is waited for.

    Attributes:
        in_a_row: passing failures, one after the other, from which only one request a pause is made.
        throttled: seconds without any answer until that holds for refusals for speed, too.
        never_in_a_row: failures that cannot pass, one after the other, from which the service is given up.
        patience: seconds without any answer after which a failing service is given up.
        pause: seconds before the first single request to a failing service; it doubles with each.
        longest_pause: the upper end of these pauses in seconds.
    """

    in_a_row: int = 10
    throttled: float = 30.0
    never_in_a_row: int = 100
    patience: float = 600.0
    pause: float = 1.0
    longest_pause: float = 30.0


class CircuitBreaker:
    """Lets requests through while a service answers; while it fails, one a pause; once patience ends, none."""

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._failures = self._hopeless = 0
        self._pause = policy.pause
        self._due: float | None = None  # while the service fails: when the next request may be made
        self._answered = monotonic()
        self._reason: str | None = None

    @property
    def gave_up(self) -> str | None:
        """Why no further request is made; None while they are."""
        return self._reason

    @property
    def failing(self) -> bool:
        """Whether the service is considered down at the moment."""
        return self._due is not None

    def admit(self, stopped: threading.Event) -> bool:
        """Wait until a request may be made; False: no more requests."""
        while True:
            with self._lock:
                now = monotonic()
                if self._reason is not None:
                    return False
                if self._due is None:
                    return True
                if now >= self._due:
                    self._due = now + self._pause
                    self._pause = min(self._policy.longest_pause, 2 * self._pause)
                    return True
                left = self._due - now
            if stopped.wait(min(_LOOK, left)):
                return False

    def record(self, result: CallResult, *, reason: str = "") -> None:
        """Take note of the result of a call."""
        with self._lock:
            now = monotonic()
            if result in ("answer", "never"):  # the service is there
                self._failures, self._pause, self._due, self._answered = 0, self._policy.pause, None, now
                self._hopeless = 0 if result == "answer" else self._hopeless + 1
                if self._hopeless >= self._policy.never_in_a_row:
                    self._reason = f"{self._hopeless} requests in a row came to nothing, the last with: {reason}"
                return
            self._failures += 1
            silent = now - self._answered
            if self._failures < self._policy.in_a_row or (result == "slower" and silent < self._policy.throttled):
                return
            if silent >= self._policy.patience:
                self._reason = (
                    f"it failed {self._failures} times in a row over {silent:.0f} s (--patience), "
                    f"the last time with: {reason}"
                )
            elif self._due is None:
                self._due = now + self._pause


class Budget:
    """Counts the calls of a command and what the run costs: the last line of defence, after the plan.

    Args:
        calls: that may be made at most; None: any number.
        usd: that may be charged at most for the run; None: any amount.
        spent: US$ that the run was charged before.
    """

    def __init__(self, calls: int | None = None, usd: float | None = None, *, spent: float = 0.0) -> None:
        self._calls, self._usd = calls, usd
        self._made, self._spent, self._held = 0, spent, 0.0
        self._changed = threading.Condition()

    def take(self, usd: float = 0.0, *, stopped: threading.Event | None = None) -> bool:
        """Take one call that may be charged ``usd``; False: it would pass a limit. After it, call `settle`.

        Where it fits only if calls on their way turn out to be free, it waits for them.
        """
        with self._changed:
            while self._calls is None or self._made < self._calls:
                if self._usd is None or self._spent + self._held + usd <= self._usd + _ROUNDING:
                    self._made, self._held = self._made + 1, self._held + usd
                    return True
                hopeless = self._spent + usd > self._usd + _ROUNDING or self._held < _ROUNDING
                if hopeless or (stopped is not None and stopped.is_set()):
                    break
                self._changed.wait(_LOOK)
            return False

    def settle(self, usd: float, *, charged: float) -> None:
        """Of the ``usd`` that a call took, so much was charged."""
        with self._changed:
            self._held, self._spent = self._held - usd, self._spent + charged
            self._changed.notify_all()

    @property
    def exhausted(self) -> str:
        """Why no further request is made."""
        if self._calls is not None and self._made >= self._calls:
            limit = f"the {self._calls:,} calls that were allowed are made (--max-calls)"
        else:
            limit = f"the US$ {self._usd:,.4f} that the run may cost are spent, lost answers included (--max-cost)"
        return f"{limit}; the same command with more continues"


@dataclass(frozen=True)
class CallPolicy:
    """How the calls to a classifier are made.

    Attributes:
        rate: requests per second; None: what the service declares, without limit on this machine.
        concurrency: calls at once; None: what the classifier allows.
        retry: how long an image is tried.
        breaker: when a service counts as failing.
        sentinels: images that are sent at the start, in the middle and at the end.
        usd: the expected cost of one image.
        budget: what may be spent, shared with the other classifiers of the run.
    """

    rate: float | None = None
    concurrency: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    sentinels: tuple[ImageRef, ...] = ()
    usd: float = 0.0
    budget: Budget = field(default_factory=Budget)

    def rate_for(self, adapter: Adapter) -> float | None:
        """Requests per second for this classifier; None: no limit."""
        service = adapter.capabilities.service
        return self.rate if self.rate is not None or service is None else service.rate

    def concurrency_for(self, adapter: Adapter) -> int:
        """Calls at once for this classifier.

        Where the user knows a faster rate than the service declares, as many as it takes if a call lasts a second.
        """
        declared = adapter.capabilities.concurrency
        if self.concurrency is not None:
            return self.concurrency
        service = adapter.capabilities.service
        if service is None or self.rate is None or self.rate <= service.rate:
            return declared
        return max(declared, round(self.rate))
