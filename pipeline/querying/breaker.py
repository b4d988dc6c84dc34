"""Giving up on a service that fails again and again, after a few pauses and probes. What a failure is, is told it."""

import threading
from dataclasses import dataclass
from time import monotonic
from typing import Literal

Outcome = Literal["answer", "never", "later", "slower"]
Admission = Literal["request", "probe"]


@dataclass(frozen=True)
class BreakerPolicy:
    """When a service counts as failing.

    Attributes:
        in_a_row: failures that may pass, one after the other, until it is left alone for a while.
        throttled: seconds without any answer until that holds for refusals for speed, too.
        never_in_a_row: failures that cannot pass, one after the other, until it is given up.
        pauses: seconds to leave it alone before each probe; after the last one in vain it is given up.
    """

    in_a_row: int = 10
    throttled: float = 30.0
    never_in_a_row: int = 100
    pauses: tuple[float, ...] = (5.0, 10.0, 20.0)


class Breaker:
    """Lets requests through while a service answers; then a probe at a time; then none."""

    def __init__(self, tolerance: BreakerPolicy) -> None:
        self._tolerance = tolerance
        self._changed = threading.Condition()
        self._failures = 0
        self._hopeless = 0
        self._probes = 0
        self._open_until: float | None = None
        self._probing = False
        self._answered = monotonic()
        self._reason: str | None = None

    @property
    def gave_up(self) -> str | None:
        """Why nothing more is asked; None while it is."""
        return self._reason

    def admit(self, stopped: threading.Event) -> Admission | None:
        """Wait until a request may be made, and say whether it is a probe; None: no more requests."""
        with self._changed:
            while self._reason is None:
                if self._open_until is None:
                    return "request"
                if stopped.is_set():
                    break
                left = self._open_until - monotonic()
                if left <= 0 and not self._probing:
                    self._probing = True
                    return "probe"
                self._changed.wait(min(0.2, max(0.01, left)))
            return None

    def told(self, outcome: Outcome, *, admitted: Admission, reason: str = "") -> None:
        """What became of a request that was admitted."""
        with self._changed:
            if outcome == "answer":
                self._failures = self._hopeless = self._probes = 0
                self._open_until, self._answered, self._probing = None, monotonic(), False
            elif outcome == "never":
                # The service is there and says no: only many in a row tell that it says so to everything.
                self._hopeless += 1
                self._failures = 0
                if admitted == "probe":
                    self._open_until, self._probing, self._probes = None, False, 0
                if self._hopeless >= self._tolerance.never_in_a_row:
                    self._reason = f"{self._hopeless} requests in a row came to nothing, the last with: {reason}"
            else:
                self._failures += 1
                self._told_of_failure(outcome, admitted, reason)
            self._changed.notify_all()

    def cancelled(self, *, admitted: Admission) -> None:
        """A request that was admitted says nothing about the service, or was not made after all."""
        with self._changed:
            if admitted == "probe":
                self._probing = False
            self._changed.notify_all()

    def _told_of_failure(self, outcome: Outcome, admitted: Admission, reason: str) -> None:
        if self._open_until is not None and admitted == "request":
            return  # was on its way when the breaker opened
        silent = monotonic() - self._answered
        if admitted == "request" and (
            self._failures < self._tolerance.in_a_row or (outcome == "slower" and silent < self._tolerance.throttled)
        ):
            return
        self._probing = False
        if self._probes == len(self._tolerance.pauses):
            self._reason = f"it failed {self._failures} times in a row, the last with: {reason}"
            return
        self._open_until = monotonic() + self._tolerance.pauses[self._probes]
        self._probes += 1
