"""Outcomes: what an adapter returned for the images of one call, and what that says of the call as a whole. Pure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import replace

from adapters.base import Adapter, NoAnswer, RawAnswer
from pipeline.querying.limits import CallResult

PARTIAL = frozenset({204, 205, 206})  # statuses of success without a whole reply
_ESCAPE_CODE = re.compile(r"\x1b(\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)?|.?)")

Outcome = RawAnswer | NoAnswer


class Unreadable(NoAnswer):
    """An answer came and was charged for, but no labels can be read from it; another try may give a good one."""


def contract_checked(outcomes: Sequence[Outcome], *, expected: int) -> list[Outcome]:
    """The outcomes of a call with so many images; ValueError or TypeError where the adapter breaks its contract."""
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
    """The result of a call as a whole, and the reason where nothing was answered."""
    failures = [outcome for outcome in outcomes if isinstance(outcome, NoAnswer)]
    whole = len(failures) == len(outcomes)
    kinds: tuple[CallResult, ...] = ("slower", "later", "never")
    for kind in kinds:
        of_kind = [failure for failure in failures if failure.retry == kind]
        if of_kind and (kind == "slower" or whole):
            # Each unreadable answer is charged for: after many in a row, nothing is gained by more of them.
            return "never" if isinstance(of_kind[0], Unreadable) else kind, of_kind[0].reason
    return "answer", ""


def readable(outcome: Outcome, adapter: Adapter, *, clean: Callable[[str], str]) -> Outcome:
    """An outcome as it is to be dealt with: one without labels is a failure that may pass; reasons are cleaned."""
    if isinstance(outcome, NoAnswer):
        return replace(outcome, reason=clean(outcome.reason))
    why = unreadable(outcome, adapter)
    if not why:
        return outcome
    remote = adapter.capabilities.remote
    reason = clean(f"an answer without labels: {why}")
    return Unreadable(reason, retry="later" if remote else "never", billed=remote, reply=outcome)


def unreadable(answer: RawAnswer, adapter: Adapter) -> str:
    """Why no labels can be read from an answer; "" where they can."""
    if answer.status in PARTIAL:
        return f"HTTP {answer.status} instead of a whole reply"
    try:
        adapter.parse(answer)
    except Exception as error:  # a parser of someone else's must not take the run with it
        return str(error) or type(error).__name__
    return ""


def printable(text: str) -> str:
    """A text on one line, without what a terminal would obey."""
    plain = _ESCAPE_CODE.sub("", text)
    return " ".join("".join(sign if sign.isprintable() else " " for sign in plain).split())


def refused_for_free(outcome: Outcome) -> bool:
    """The service refused it, and sending the same again is no use."""
    return isinstance(outcome, NoAnswer) and outcome.retry == "never" and not outcome.billed
