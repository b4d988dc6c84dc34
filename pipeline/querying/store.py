"""``responses.sqlite``: every raw answer as it came, and every intent to ask, written before asking.

What an answer means is not known here; whom to ask is not decided here. Read by others: the view ``responses`` has one
row an answered image (key, classifier, image, body, status, headers, time, position).
"""

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from adapters.base import NoAnswer, RawAnswer
from pipeline.querying.committing import GroupCommit, Result, Write
from pipeline.querying.keys import canonical_json
from pipeline.querying.migrations import MIGRATIONS, NewerSchemaError, migrate
from pipeline.querying.rows import Intent, Question, Replies, intend, now, raw_answer, settle, shortened

__all__ = ["MIGRATIONS", "Intent", "Moment", "Question", "Sentinel", "Store", "StoreError"]

_CHUNK = 20_000  # keys per look-up

Moment = Literal["start", "middle", "end"]


class StoreError(Exception):
    """The file is not a store that this version can use; the message says why and what to do."""


@dataclass(frozen=True)
class Sentinel:
    """An image of the panel as it was asked at one moment; ``outcome`` is None where the process ended before."""

    row: int
    round: int
    moment: Moment
    image_sha256: str
    outcome: RawAnswer | str | None = None


class Store:
    """The answers of a run. Safe to use from several threads; every write has been committed when it returns.

    Args:
        path: the file; made where it is missing.

    Raises:
        StoreError: the file is something else, or was written by a newer version.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        except (OSError, sqlite3.OperationalError) as error:
            raise self._unwritable(error) from error
        self._commit = GroupCommit(self._connection, self._lock)
        try:
            self._connection.execute("PRAGMA journal_mode = WAL")
            self._connection.execute("PRAGMA synchronous = NORMAL")
            migrate(self._connection)
        except sqlite3.OperationalError as error:
            self._connection.close()
            raise self._unwritable(error) from error
        except sqlite3.DatabaseError as error:
            self._connection.close()
            raise StoreError(f"{path} is not a file of answers ({error}): move it away and run again") from error
        except NewerSchemaError as error:
            self._connection.close()
            raise StoreError(f"{path} was written by a newer version ({error}): update counterslope") from error

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

    def outlive_power_loss(self) -> None:
        """Let each transaction wait for the disk from now on.

        A killed process loses nothing either way; answers that cost money must also outlive the machine.
        """
        with self._lock:
            self._connection.execute("PRAGMA synchronous = FULL")

    def classifier(self, *, adapter: str, model: str, parameters: Mapping[str, Any]) -> int:
        """The number that stands for a classifier asked in one way."""
        row = (adapter, model, canonical_json(dict(parameters)))

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("INSERT OR IGNORE INTO classifiers (adapter, model, parameters) VALUES (?, ?, ?)", row)
            found = connection.execute(
                "SELECT id FROM classifiers WHERE adapter = ? AND model = ? AND parameters = ?", row
            ).fetchone()
            return int(found[0])

        return self._write(write)

    def begin(self, questions: Sequence[Question], *, classifier: int) -> list[Intent]:
        """Write down that these are about to be asked."""
        return self._write(
            lambda connection: [intend(connection, question, classifier, "open", None) for question in questions]
        )

    def refuse(self, question: Question, *, classifier: int, error: str) -> None:
        """Write down that this could not even be asked."""
        self._write(lambda connection: intend(connection, question, classifier, "unsent", error))

    def finish(self, outcomes: Iterable[tuple[Intent, RawAnswer | NoAnswer]], *, classifier: int) -> None:
        """Keep what came of one call: answers, and why there are none. Should one key ever get two, the first stays."""
        rows = list(outcomes)

        def write(connection: sqlite3.Connection) -> None:
            replies = Replies(connection)
            for intent, outcome in rows:
                question = intent.question
                if isinstance(outcome, NoAnswer):
                    settle(connection, intent, "failed", outcome, reply=replies.of_failure(outcome))
                    continue
                connection.execute(
                    "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)",
                    (question.key, classifier, question.image_sha256, replies.row(outcome), outcome.position),
                )
                settle(connection, intent, "answered")

        self._write(write)

    def fail(self, intents: Iterable[Intent], *, error: str, billed: bool = False) -> None:
        """Write down that these were asked in vain; they will be asked again."""
        why = NoAnswer(error, billed=billed)
        rows = list(intents)

        def write(connection: sqlite3.Connection) -> None:
            for intent in rows:
                settle(connection, intent, "failed", why)

        self._write(write)

    def withdraw(self, intents: Iterable[Intent]) -> None:
        """Write down that these were not asked after all."""
        rows = list(intents)

        def write(connection: sqlite3.Connection) -> None:
            for intent in rows:
                settle(connection, intent, "unsent")

        self._write(write)

    def answered(self, keys: Collection[str]) -> set[str]:
        """Those of the keys that have an answer."""
        return {key for (key,) in self._among(keys, "SELECT key FROM answers WHERE key IN {keys}")}

    def answers(self, keys: Collection[str]) -> Iterator[tuple[str, RawAnswer]]:
        """Each key that has an answer, with it."""
        rows = list(self._among(keys, "SELECT key, reply, position FROM answers WHERE key IN {keys}"))
        # One reply may answer a hundred images: its body is held once.
        of_replies = "SELECT id, body, status, headers FROM replies WHERE id IN {keys}"
        replies = {number: reply for number, *reply in self._among({number for _, number, _ in rows}, of_replies)}
        for key, number, position in rows:
            yield key, raw_answer([*replies[number], position])

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

    def possibly_billed(self, *, classifier: int) -> list[str]:
        """The images (sha256) of the intents that may have been charged for in vain, one for each intent.

        The process ended before the outcome was kept, or the answer was lost on its way.
        """
        tables = ("intents", "sentinels")
        query = " UNION ALL ".join(
            f"SELECT image FROM {table} WHERE classifier = ? AND (state = 'open' OR billed)"  # noqa: S608 - our names
            for table in tables
        )
        with self._lock:
            return [image for (image,) in self._connection.execute(query, (classifier,) * len(tables)).fetchall()]

    def begin_sentinels(self, images: Sequence[str], *, classifier: int, number: int, moment: Moment) -> list[Sentinel]:
        """Write down that these of the panel are about to be asked in the round of this ``number``."""

        def write(connection: sqlite3.Connection) -> list[Sentinel]:
            columns = "classifier, round, moment, image, time, state"
            query = f"INSERT INTO sentinels ({columns}) VALUES (?, ?, ?, ?, ?, 'open')"  # noqa: S608 - our names
            rows = [connection.execute(query, (classifier, number, moment, image, now())) for image in images]
            return [
                Sentinel(row.lastrowid or 0, number, moment, image) for row, image in zip(rows, images, strict=True)
            ]

        return self._write(write)

    def finish_sentinels(self, outcomes: Iterable[tuple[Sentinel, RawAnswer | NoAnswer | None]]) -> None:
        """Keep what came of asking the panel; None: it was not asked after all."""
        rows = list(outcomes)

        def write(connection: sqlite3.Connection) -> None:
            replies = Replies(connection)
            query = "UPDATE sentinels SET state = ?, error = ?, billed = ?, reply = ?, position = ? WHERE id = ?"
            for asked, outcome in rows:
                if outcome is None:
                    values: tuple[Any, ...] = ("unsent", None, False, None, 0)
                elif isinstance(outcome, NoAnswer):
                    reply = replies.of_failure(outcome)
                    values = ("failed", shortened(outcome.reason), outcome.billed, reply, 0)
                else:
                    values = ("answered", None, False, replies.row(outcome), outcome.position)
                connection.execute(query, (*values, asked.row))

        self._write(write)

    def sentinels(self, *, classifier: int) -> list[Sentinel]:
        """The panel as it was asked so far, in order."""
        query = """
            SELECT sentinels.id, round, moment, image, error, body, replies.status, headers, position
            FROM sentinels LEFT JOIN replies ON replies.id = reply
            WHERE classifier = ? AND state != 'unsent' ORDER BY sentinels.id
        """
        with self._lock:
            rows = self._connection.execute(query, (classifier,)).fetchall()
        return [
            Sentinel(row, number, moment, image, raw_answer(reply) if error is None and reply[0] is not None else error)
            for row, number, moment, image, error, *reply in rows
        ]

    def _write(self, write: Write[Result]) -> Result:
        try:
            return self._commit(write)
        except sqlite3.OperationalError as error:  # a full disk, a folder that became read-only
            raise self._unwritable(error) from error

    def _unwritable(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self._path} cannot be written ({error}): see to the disk's space and the folder's permissions. "
            "What was answered before is kept; the same command continues"
        )

    def _among(self, keys: Collection[str | int], query: str) -> Iterator[tuple[Any, ...]]:
        listed = list(keys)
        for start in range(0, len(listed), _CHUNK):
            chunk = json.dumps(listed[start : start + _CHUNK])
            with self._lock:
                rows = self._connection.execute(
                    query.format(keys="(SELECT value FROM json_each(?))"), (chunk,)
                ).fetchall()
            yield from rows
