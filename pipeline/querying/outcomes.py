"""Validation and interpretation of the outcomes that an adapter returns for the images of one call."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from adapters.answers import one_line
from adapters.base import Adapter, NoAnswer, RawAnswer
from pipeline.querying.limits import CallResult

PARTIAL = frozenset({204, 205, 206})  # statuses of success with no or a partial body
_ESCAPE_CODE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.?)")

Outcome = RawAnswer | NoAnswer


class Unreadable(NoAnswer):
    """The service sent, and charged for, an answer from which no labels can be read; a retry may succeed."""


def contract_checked(outcomes: Sequence[Outcome], *, expected: int) -> list[Outcome]:
    """Return the outcomes of a call; ValueError or TypeError if the adapter violates its contract."""
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


def call_result(outcomes: Sequence[Outcome]) -> tuple[CallResult, str]:
    """Return the result of a call as a whole, and the reason if it failed."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, NoAnswer)]
    whole = len(failures) == len(outcomes)
    kinds: tuple[CallResult, ...] = ("slower", "later", "never")
    for kind in kinds:
        of_kind = [failure for failure in failures if failure.retry == kind]
        if of_kind and (kind == "slower" or whole):
            # Unreadable answers are charged, so a series of them must stop the client like permanent failures.
            return "never" if isinstance(of_kind[0], Unreadable) else kind, of_kind[0].reason
    return "answer", ""


def readable(outcome: Outcome, adapter: Adapter, *, clean: Callable[[str], str]) -> Outcome:
    """Turn an answer without labels into a failure that may be retried, and clean the reasons of failures."""
    if isinstance(outcome, NoAnswer):
        return replace(outcome, reason=clean(outcome.reason))
    why = unreadable(outcome, adapter)
    if not why:
        return outcome
    remote = adapter.capabilities.remote
    reason = clean(f"an answer without labels: {why}")
    return Unreadable(reason, retry="later" if remote else "never", billed=remote, reply=outcome)


def unreadable(answer: RawAnswer, adapter: Adapter) -> str:
    """Return why no labels can be read from an answer; "" if they can."""
    if answer.status in PARTIAL:
        return f"HTTP {answer.status} instead of a complete reply"
    try:
        adapter.parse(answer)
    except Exception as error:  # a faulty third-party parser must not end the run
        return str(error) or type(error).__name__
    return ""


def printable(text: str) -> str:
    """Put a text on one line, without control characters and terminal escape codes."""
    return one_line(_ESCAPE_CODE.sub("", text), most=len(text))


def refused_for_free(outcome: Outcome) -> bool:
    """Tell whether the service refused an image permanently and without charge."""
    return isinstance(outcome, NoAnswer) and outcome.retry == "never" and not outcome.billed
