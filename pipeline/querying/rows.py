"""How intents, outcomes and replies are written into rows of ``responses.sqlite``. Nothing is committed here."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from adapters.base import NoAnswer, RawAnswer

_REASON_LENGTH = 500
_KEPT_OF_A_FAILURE = 65_536  # bytes of the reply


@dataclass(frozen=True)
class Question:
    """One image for one classifier; ``key`` is made of both."""

    key: str
    image_sha256: str


@dataclass(frozen=True)
class Intent:
    """A question that is about to be asked for the ``attempt``-th time."""

    question: Question
    attempt: int


class Replies:
    """The replies of one call, each kept once however many images it answers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows: dict[tuple[bytes, int | None, str], int] = {}

    def row(self, answer: RawAnswer) -> int:
        """The row of a reply, which is written where it is the first of its kind."""
        reply = (answer.body, answer.status, json.dumps(dict(answer.headers), sort_keys=True))
        if reply not in self._rows:
            query = "INSERT INTO replies (body, status, headers, time) VALUES (?, ?, ?, ?)"
            self._rows[reply] = self._connection.execute(query, (*reply, now())).lastrowid or 0
        return self._rows[reply]

    def of_failure(self, failure: NoAnswer) -> int | None:
        """The row of what came instead of an answer, cut to a length that is worth keeping."""
        reply = failure.reply
        if reply is None:
            return None
        return self.row(RawAnswer(reply.body[:_KEPT_OF_A_FAILURE], reply.status, reply.headers))


def intend(
    connection: sqlite3.Connection,
    question: Question,
    classifier: int,
    state: Literal["open", "unsent"],
    error: str | None,
) -> Intent:
    """Write down that something is about to be asked, or could not be, as its next attempt."""
    (attempt,) = connection.execute(
        "SELECT coalesce(max(attempt), 0) + 1 FROM intents WHERE key = ?", (question.key,)
    ).fetchone()
    connection.execute(
        "INSERT INTO intents (key, attempt, classifier, image, time, state, error) VALUES (?, ?, ?, ?, ?, ?, ?)",
        (question.key, attempt, classifier, question.image_sha256, now(), state, shortened(error)),
    )
    return Intent(question, attempt)


def settle(
    connection: sqlite3.Connection,
    intent: Intent,
    state: Literal["answered", "failed", "unsent"],
    why: NoAnswer | None = None,
    *,
    reply: int | None = None,
) -> None:
    """Write down what became of an intent."""
    error, billed = (why.reason, why.billed) if why is not None else (None, False)
    connection.execute(
        "UPDATE intents SET state = ?, error = ?, billed = ?, reply = ? WHERE key = ? AND attempt = ?",
        (state, shortened(error), billed, reply, intent.question.key, intent.attempt),
    )


def raw_answer(reply: Sequence[Any]) -> RawAnswer:
    """The answer of a row: body, status, headers, position."""
    body, status, headers, position = reply
    return RawAnswer(body=bytes(body), status=status, headers=json.loads(headers), position=position)


def now() -> str:
    """The time in UTC, as it is kept."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def shortened(text: str | None) -> str | None:
    """A reason, as long as it is worth keeping."""
    return text[:_REASON_LENGTH] if text is not None else None
