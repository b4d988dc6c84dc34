"""``responses.sqlite``: every raw answer as it came, and every intent to ask, written before asking.

What an answer means is not known here; whom to ask is not decided here.
"""

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from adapters.base import RawAnswer
from pipeline.querying.keys import canonical_json

# Named steps, in order; released ones are never changed, only followed by others. Their number is the schema version.
MIGRATIONS = (
    (
        "first tables",
        """
        CREATE TABLE classifiers (
            id INTEGER PRIMARY KEY,
            adapter TEXT NOT NULL,
            model TEXT NOT NULL,
            parameters TEXT NOT NULL,  -- canonical JSON
            UNIQUE (adapter, model, parameters)
        );
        CREATE TABLE intents (
            key TEXT NOT NULL,
            attempt INTEGER NOT NULL,
            classifier INTEGER NOT NULL REFERENCES classifiers (id),
            image TEXT NOT NULL,  -- sha256 of the bytes
            time TEXT NOT NULL,  -- UTC, when it was about to be asked
            state TEXT NOT NULL CHECK (state IN ('open', 'answered', 'failed', 'unsent')),
            error TEXT,
            PRIMARY KEY (key, attempt)
        ) WITHOUT ROWID;
        CREATE TABLE responses (
            key TEXT PRIMARY KEY,
            classifier INTEGER NOT NULL REFERENCES classifiers (id),
            image TEXT NOT NULL,
            body BLOB NOT NULL,
            status INTEGER,  -- HTTP
            headers TEXT NOT NULL,  -- JSON
            time TEXT NOT NULL  -- UTC, when it came
        );
        CREATE INDEX intents_by_state ON intents (state);
        """,
    ),
)

_CHUNK = 20_000  # keys per look-up
_REASON_LENGTH = 500


class StoreError(Exception):
    """The file is not a store that this version can use; the message says why and what to do."""


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


class Store:
    """The answers of a run. Safe to use from several threads; every method is one durable transaction.

    Args:
        path: the file; made where it is missing.

    Raises:
        StoreError: the file is something else, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._migrate()
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise StoreError(f"{path} is not a file of answers ({error}): move it away and run again") from error
        except StoreError:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def outlive_power_loss(self, wanted: bool) -> None:
        """Whether each transaction waits for the disk.

        A killed process loses nothing either way; answers that cost money must also outlive the machine.
        """
        with self._lock:
            self._connection.execute(f"PRAGMA synchronous = {'FULL' if wanted else 'NORMAL'}")

    def classifier(self, *, adapter: str, model: str, parameters: Mapping[str, Any]) -> int:
        """The number that stands for a classifier asked in one way."""
        row = (adapter, model, canonical_json(dict(parameters)))
        with self._transaction() as connection:
            connection.execute("INSERT OR IGNORE INTO classifiers (adapter, model, parameters) VALUES (?, ?, ?)", row)
            found = connection.execute(
                "SELECT id FROM classifiers WHERE adapter = ? AND model = ? AND parameters = ?", row
            ).fetchone()
        return int(found[0])

    def begin(self, questions: Sequence[Question], *, classifier: int) -> list[Intent]:
        """Write down that these are about to be asked."""
        with self._transaction() as connection:
            return [self._intend(connection, question, classifier, "open", None) for question in questions]

    def refuse(self, question: Question, *, classifier: int, error: str) -> None:
        """Write down that this could not even be asked."""
        with self._transaction() as connection:
            self._intend(connection, question, classifier, "unsent", error)

    def finish(self, answered: Iterable[tuple[Intent, RawAnswer]], *, classifier: int) -> None:
        """Keep answers. Should one key ever get two, the first stays."""
        with self._transaction() as connection:
            for intent, answer in answered:
                headers = json.dumps(dict(answer.headers), sort_keys=True)
                connection.execute(
                    "INSERT OR IGNORE INTO responses VALUES (?, ?, ?, ?, ?, ?, ?)",
                    (
                        intent.question.key,
                        classifier,
                        intent.question.image_sha256,
                        answer.body,
                        answer.status,
                        headers,
                        _now(),
                    ),
                )
                self._close_intent(connection, intent, "answered", None)

    def fail(self, intents: Iterable[Intent], *, error: str) -> None:
        """Write down that these were asked in vain; they will be asked again."""
        with self._transaction() as connection:
            for intent in intents:
                self._close_intent(connection, intent, "failed", error)

    def answered(self, keys: Collection[str]) -> set[str]:
        """Those of the keys that have an answer."""
        return {key for (key,) in self._among(keys, "SELECT key FROM responses WHERE key IN {keys}")}

    def answers(self, keys: Collection[str]) -> Iterator[tuple[str, RawAnswer]]:
        """Each key that has an answer, with it."""
        rows = self._among(keys, "SELECT key, body, status, headers FROM responses WHERE key IN {keys}")
        for key, body, status, headers in rows:
            yield key, RawAnswer(body=bytes(body), status=status, headers=json.loads(headers))

    def failures(self, keys: Collection[str]) -> dict[str, str]:
        """The last error of each key that ever failed, whether or not it has an answer by now."""
        rows = self._among(
            keys, "SELECT key, error FROM intents WHERE key IN {keys} AND error IS NOT NULL ORDER BY key, attempt"
        )
        return dict(rows)

    def unresolved(self, *, classifier: int) -> int:
        """How many intents have no outcome: asked, perhaps answered and billed, but the process ended before."""
        query = "SELECT count(*) FROM intents WHERE state = 'open' AND classifier = ?"
        with self._lock:
            return int(self._connection.execute(query, (classifier,)).fetchone()[0])

    def _among(self, keys: Collection[str], query: str) -> Iterator[tuple[Any, ...]]:
        listed = list(keys)
        for start in range(0, len(listed), _CHUNK):
            chunk = json.dumps(listed[start : start + _CHUNK])
            with self._lock:
                rows = self._connection.execute(
                    query.format(keys="(SELECT value FROM json_each(?))"), (chunk,)
                ).fetchall()
            yield from rows

    def _intend(
        self,
        connection: sqlite3.Connection,
        question: Question,
        classifier: int,
        state: Literal["open", "unsent"],
        error: str | None,
    ) -> Intent:
        (attempt,) = connection.execute(
            "SELECT coalesce(max(attempt), 0) + 1 FROM intents WHERE key = ?", (question.key,)
        ).fetchone()
        connection.execute(
            "INSERT INTO intents VALUES (?, ?, ?, ?, ?, ?, ?)",
            (question.key, attempt, classifier, question.image_sha256, _now(), state, _shortened(error)),
        )
        return Intent(question, attempt)

    def _close_intent(
        self, connection: sqlite3.Connection, intent: Intent, state: Literal["answered", "failed"], error: str | None
    ) -> None:
        connection.execute(
            "UPDATE intents SET state = ?, error = ? WHERE key = ? AND attempt = ?",
            (state, _shortened(error), intent.question.key, intent.attempt),
        )

    def _migrate(self) -> None:
        (done,) = self._connection.execute("PRAGMA user_version").fetchone()
        if done > len(MIGRATIONS):
            raise StoreError(
                f"{self._path} was written by a newer version (schema {done}, known up to {len(MIGRATIONS)}): "
                "update counterslope"
            )
        for number, (_, script) in enumerate(MIGRATIONS[done:], start=done + 1):
            self._connection.executescript(f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._connection.execute("COMMIT")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _shortened(text: str | None) -> str | None:
    return text[:_REASON_LENGTH] if text is not None else None
