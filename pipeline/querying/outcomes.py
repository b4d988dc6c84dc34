"""What an adapter gave for the images of one call: whether it keeps the contract, and what it says as a whole. Pure."""

from collections.abc import Sequence

from adapters.base import Adapter, NoAnswer, RawAnswer
from pipeline.querying.breaker import Outcome


def checked(outcomes: Sequence[RawAnswer | NoAnswer], *, expected: int) -> list[RawAnswer | NoAnswer]:
    """What an adapter gave for so many images, if it keeps the contract.

    Raises:
        ValueError, TypeError: it does not.
    """
    if len(outcomes) != expected:
        raise ValueError(f"the adapter gave {len(outcomes)} answers for {expected} images")
    for outcome in outcomes:
        reply = outcome.reply if isinstance(outcome, NoAnswer) else outcome
        if reply is None:
            continue
        if not isinstance(reply, RawAnswer) or not isinstance(reply.body, bytes):
            raise TypeError(f"the adapter gave {type(reply).__name__} instead of a RawAnswer with bytes")
        if not all(isinstance(part, str) for header in reply.headers.items() for part in header):
            raise TypeError("the adapter gave headers that are not text")
    return list(outcomes)


def kind_of(outcomes: Sequence[RawAnswer | NoAnswer]) -> tuple[Outcome, str]:
    """What a call was, as a whole, and why."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, NoAnswer)]
    kinds: tuple[Outcome, ...] = ("slower", "later", "never")
    for kind in kinds:
        of_kind = [failure.reason for failure in failures if failure.retry == kind]
        if of_kind and (kind == "slower" or len(failures) == len(outcomes)):
            return kind, of_kind[0]
    return "answer", ""


def unreadable(outcomes: Sequence[RawAnswer | NoAnswer], adapter: Adapter) -> str:
    """Why labels can be read from none of the answers of a call; "" where they can be read from one."""
    why = ""
    for outcome in outcomes:
        if isinstance(outcome, RawAnswer):
            try:
                adapter.parse(outcome)
            except Exception as error:  # a parser of someone else's must not take the run with it
                why = f"an answer without labels: {error}"
            else:
                return ""
    return why


def refused_for_free(outcome: RawAnswer | NoAnswer) -> bool:
    """The service said no, and asking the same again is no use."""
    return isinstance(outcome, NoAnswer) and outcome.retry == "never" and not outcome.billed
