"""Limits of the calls to a classifier: retry policy, circuit breaker and budget."""

import random
import threading
from dataclasses import dataclass, field
from time import monotonic
from typing import Literal

from adapters.base import Adapter, NoAnswer
from pipeline.querying.requests import ImageRef

CallResult = Literal["answer", "never", "later", "slower"]

_POLL = 0.2  # seconds between checks of a waiting thread
_ROUNDING = 1e-9  # US$; rounding error of sums of many small prices


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how long an image is retried.

    Retry libraries sleep in the calling thread. Here a retry concerns some images of a call and must not block a
    thread, so the decision is a value (see `next_try`).

    Attributes:
        attempts: maximum requests for one image, not counting those made while the service was down.
        unreadable: maximum requests for one image whose answers have no labels; each is charged.
        seconds: maximum time from the first request to the last.
        first: upper bound of the first random wait in seconds; it doubles with each attempt.
        longest: maximum wait in seconds, also of waits that the service demands.
    """

    attempts: int = 6
    unreadable: int = 3
    seconds: float = 600.0
    first: float = 0.5
    longest: float = 60.0


def next_try(
    failure: NoAnswer, *, attempts: int, elapsed: float, policy: RetryPolicy, chance: random.Random
) -> float | None:
    """Return the seconds until an image without an answer is retried; None: it is not.

    Exponential back-off with full jitter: the wait that the service demanded, plus a random wait, uniform in 0 to
    ``first`` times 2^(attempts - 1).

    Args:
        failure: the outcome of the last attempt.
        attempts: number of attempts so far.
        elapsed: seconds since the first attempt.
        policy: the limits.
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
    """When a service counts as failing, and when it is given up.

    Attributes:
        in_a_row: consecutive temporary failures after which the service counts as failing.
        throttled: seconds without an answer after which "too many requests" counts as a failure, too.
        never_in_a_row: consecutive permanent failures after which the service is given up.
        patience: seconds without an answer after which a failing service is given up.
        pause: seconds before the first single request to a failing service; the pause doubles with each request.
        longest_pause: maximum of these pauses in seconds.
    """

    in_a_row: int = 10
    throttled: float = 30.0
    never_in_a_row: int = 100
    patience: float = 600.0
    pause: float = 1.0
    longest_pause: float = 30.0


class CircuitBreaker:
    """Admits all requests while a service answers, single requests with pauses while it fails, and then none."""

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._lock = threading.Lock()
        self._failures = self._permanent = 0
        self._pause = policy.pause
        self._due: float | None = None  # time of the next single request to a failing service
        self._answered = monotonic()
        self._reason: str | None = None

    @property
    def gave_up(self) -> str | None:
        """Why the service was given up; None if it was not."""
        return self._reason

    @property
    def failing(self) -> bool:
        """Whether the service counts as failing at present."""
        return self._due is not None

    def admit(self, stopped: threading.Event) -> bool:
        """Wait until a request may be sent; False: no further requests."""
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
            if stopped.wait(min(_POLL, left)):
                return False

    def record(self, result: CallResult, *, reason: str = "") -> None:
        """Record the result of a call."""
        with self._lock:
            now = monotonic()
            if result in ("answer", "never"):  # the service responds
                self._failures, self._pause, self._due, self._answered = 0, self._policy.pause, None, now
                self._permanent = 0 if result == "answer" else self._permanent + 1
                if self._permanent >= self._policy.never_in_a_row:
                    self._reason = f"{self._permanent} requests in a row failed, the last with: {reason}"
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
    """Enforces the limits of calls and costs during a run, in addition to the checks of the plan. Thread-safe.

    Args:
        calls: maximum number of calls; None: unlimited.
        usd: maximum cost of the run in US$; None: unlimited.
        spent: US$ that the run has cost before.
    """

    def __init__(self, calls: int | None = None, usd: float | None = None, *, spent: float = 0.0) -> None:
        self._calls, self._usd = calls, usd
        self._made, self._spent, self._held = 0, spent, 0.0
        self._changed = threading.Condition()

    def take(self, usd: float = 0.0, *, stopped: threading.Event | None = None) -> bool:
        """Reserve one call of ``usd``; False: it would exceed a limit. Call `settle` after the call.

        If it would fit once running calls turn out to be free, wait for them.
        """
        with self._changed:
            while self._calls is None or self._made < self._calls:
                if self._usd is None or self._spent + self._held + usd <= self._usd + _ROUNDING:
                    self._made, self._held = self._made + 1, self._held + usd
                    return True
                exceeded = self._spent + usd > self._usd + _ROUNDING or self._held < _ROUNDING
                if exceeded or (stopped is not None and stopped.is_set()):
                    break
                self._changed.wait(_POLL)
            return False

    def settle(self, usd: float, *, charged: float) -> None:
        """Replace the ``usd`` reserved for a call by the amount charged."""
        with self._changed:
            self._held, self._spent = self._held - usd, self._spent + charged
            self._changed.notify_all()

    @property
    def exhausted(self) -> str:
        """Why no further request is sent."""
        if self._calls is not None and self._made >= self._calls:
            limit = f"the {self._calls:,} calls that are allowed have been made (--max-calls)"
        else:
            limit = f"the US$ {self._usd:,.4f} that the run may cost are spent, including lost answers (--max-cost)"
        return f"{limit}; the same command with a higher limit continues"


@dataclass(frozen=True)
class CallPolicy:
    """How the calls to a classifier are made.

    Attributes:
        rate: maximum requests per second; None: the service's declared rate, unlimited on this machine.
        concurrency: maximum concurrent calls; None: the classifier's declared concurrency.
        retry: how often and how long an image is retried.
        breaker: when a service counts as failing.
        sentinels: images sent at the start, in the middle and at the end.
        usd: the expected cost of one image.
        budget: the remaining budget, shared by all classifiers of the run.
    """

    rate: float | None = None
    concurrency: int | None = None
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)
    sentinels: tuple[ImageRef, ...] = ()
    usd: float = 0.0
    budget: Budget = field(default_factory=Budget)

    def rate_for(self, adapter: Adapter) -> float | None:
        """Return the maximum requests per second for a classifier; None: unlimited."""
        service = adapter.capabilities.service
        return self.rate if self.rate is not None or service is None else service.rate

    def concurrency_for(self, adapter: Adapter) -> int:
        """Return the maximum concurrent calls for a classifier.

        A rate above the service's declared one needs as many as the rate, assuming that a call takes a second.
        """
        declared, service = adapter.capabilities.concurrency, adapter.capabilities.service
        if self.concurrency is not None:
            return self.concurrency
        if service is None or self.rate is None or self.rate <= service.rate:
            return declared
        return max(declared, round(self.rate))
