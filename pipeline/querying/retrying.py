"""Whether an image is asked about again, and when: one pure decision. Nobody else in the program repeats a request.

Libraries for repeating wrap a call and sleep in its thread; here the decision is about some images of a call, and a
waiting image must not keep a thread.
"""

import random
from dataclasses import dataclass

from adapters.base import NoAnswer


@dataclass(frozen=True)
class RetryPolicy:
    """How long an image is tried.

    Attributes:
        attempts: requests for one image at most.
        seconds: after the first, no further request is begun.
        first: the upper end of the first random wait in seconds; it doubles with each attempt.
        longest: of any wait, also of one that the service asked for.
    """

    attempts: int = 6
    seconds: float = 600.0
    first: float = 0.5
    longest: float = 60.0


def next_try(
    failure: NoAnswer, *, attempts: int, elapsed: float, patience: RetryPolicy, chance: random.Random
) -> float | None:
    """Seconds until an image that got no answer is asked about again; None: it is not.

    Exponential back-off with full jitter (Brooker, AWS Architecture Blog, 2015): uniform in 0 to ``first`` times
    2^(attempts - 1), after whatever the service asked to wait.

    Args:
        failure: of the last attempt.
        attempts: made so far.
        elapsed: seconds since the first one.
        patience: the bounds.
        chance: where the jitter comes from.
    """
    if failure.retry == "never" or attempts >= patience.attempts:
        return None
    jitter = chance.uniform(0, min(patience.longest, patience.first * 2 ** (attempts - 1)))
    delay = min(patience.longest, failure.wait or 0.0) + jitter
    return delay if elapsed + delay <= patience.seconds else None
