"""The store of a run (``responses.sqlite``): raw answers, and intents, which are recorded before an image is sent.

For other programs, the view ``responses`` has one row per answered image (key, classifier, image, body, status,
headers, time, position).
"""

import json
import sqlite3
import threading
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self
from uuid import uuid4

from adapters.base import Adapter, NoAnswer, RawAnswer
from pipeline.querying.group_commit import GroupCommit, Result, Write
from pipeline.querying.migrations import MIGRATIONS, NewerSchemaError, migrate
from pipeline.querying.requests import Request, canonical_json

__all__ = ["MIGRATIONS", "Intent", "Job", "Moment", "Request", "Sentinel", "Store", "StoreError"]

_CHUNK = 20_000  # keys per query
_MAX_REASON = 500  # characters
_MAX_FAILED_REPLY = 65_536  # bytes stored of a reply that is not an answer

_LOST = "state = 'open' AND (key, attempt) NOT IN (SELECT key, attempt FROM waiting)"
_OUTCOME = "state = ?, error = ?, billed = ?, reply = ?"
_NUMBER = "SELECT id FROM classifiers WHERE adapter = ? AND model = ? AND parameters = ?"
Moment = Literal["start", "middle", "end"]


class StoreError(Exception):
    """The file cannot be used as a store; the message says why and what to do."""


@dataclass(frozen=True)
class Intent:
    """A request that is about to be sent for the ``attempt``-th time; ``row`` identifies a sentinel."""

    request: Request
    attempt: int
    row: int | None = None


@dataclass(frozen=True)
class Job:
    """Images that are sent together and answered later; ``service_id`` is None until the service's reply is stored."""

    name: str
    intents: tuple[Intent, ...]
    service_id: str | None = None


@dataclass(frozen=True)
class Sentinel:
    """A sentinel image sent at one moment; ``outcome`` is None if the process ended before there was one."""

    row: int
    round: int
    moment: Moment
    image_sha256: str
    outcome: RawAnswer | str | None = None


class Store:
    """The answers of a run. Thread-safe; every write has been committed when its call returns.

    Args:
        path: the file, which is created if missing.

    Raises:
        StoreError: the file is not a store, or was written by a newer version.
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
            raise self._damaged(error) from error
        except NewerSchemaError as error:
            self._connection.close()
            raise StoreError(f"{path} was written by a newer version ({error}): update counterslope") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError):
            raise self._damaged(error) from error

    def check(self) -> None:
        """Raise StoreError if SQLite finds the file damaged, because its answers would be paid for again."""
        with self._lock:
            try:
                (found,) = self._connection.execute("PRAGMA quick_check(1)").fetchone()
            except sqlite3.DatabaseError as error:
                raise self._damaged(error) from error
        if found != "ok":
            raise self._damaged(found)

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._connection.close()

    def outlive_power_loss(self) -> None:
        """Make transactions durable against power loss, for answers that cost money; they survive a kill anyway."""
        with self._lock:
            self._connection.execute("PRAGMA synchronous = FULL")

    def classifier(self, *, adapter: str, model: str, parameters: Mapping[str, Any]) -> int:
        """Return the number of a classifier with these parameters; a new one is registered."""
        row = (adapter, model, canonical_json(dict(parameters)))

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("INSERT OR IGNORE INTO classifiers (adapter, model, parameters) VALUES (?, ?, ?)", row)
            return int(connection.execute(_NUMBER, row).fetchone()[0])

        return self._write(write)

    def number_of(self, adapter: Adapter) -> int:
        """Return the number of an adapter with its present model and parameters; a new one is registered."""
        return self.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)

    def find(self, adapter: Adapter) -> int | None:
        """Return the number of an adapter with its present model and parameters; None if it is not registered."""
        found = self._rows(_NUMBER, (adapter.name, adapter.model, canonical_json(dict(adapter.parameters))))
        return int(found[0][0]) if found else None

    def begin(
        self, requests: Sequence[Request], *, classifier: int, sentinel: tuple[int, Moment] | None = None
    ) -> list[Intent]:
        """Record that requests are about to be sent; ``sentinel`` is the round and moment of sentinels."""

        def write(connection: sqlite3.Connection) -> list[Intent]:
            if sentinel is None:
                return [_intend(connection, request, classifier, "open", None) for request in requests]
            query = (
                "INSERT INTO sentinels (classifier, round, moment, image, time, state) VALUES (?, ?, ?, ?, ?, 'open')"
            )
            return [
                Intent(request, 1, connection.execute(query, (classifier, *sentinel, request.sha256, _now())).lastrowid)
                for request in requests
            ]

        return self._write(write)

    def begin_job(self, intents: Sequence[Intent], *, classifier: int) -> Job:
        """Record that intents are about to be sent as one job."""
        job = Job(uuid4().hex, tuple(intents))

        def write(connection: sqlite3.Connection) -> Job:
            query = "INSERT INTO jobs (name, classifier, time) VALUES (?, ?, ?)"
            connection.execute(query, (job.name, classifier, _now()))
            rows = [(intent.request.key, intent.attempt, job.name) for intent in intents]
            connection.executemany("INSERT INTO job_intents VALUES (?, ?, ?)", rows)
            return job

        return self._write(write)

    def name_job(self, job: Job, service_id: str) -> Job:
        """Record the service's id of a job."""
        query = "UPDATE jobs SET service_id = ? WHERE name = ?"
        self._write(lambda connection: connection.execute(query, (service_id, job.name)))
        return replace(job, service_id=service_id)

    def jobs(self, *, classifier: int) -> list[Job]:
        """Return the unfinished jobs with their open intents."""
        query = "SELECT job, service_id, key, attempt, image FROM waiting WHERE classifier = ? ORDER BY job, key"
        rows = self._rows(query, (classifier,))
        return [
            Job(name, tuple(Intent(Request(key, image), attempt) for *_, key, attempt, image in group), service_id)
            for (name, service_id), group in groupby(rows, key=lambda row: row[:2])
        ]

    def refuse(self, request: Request, *, classifier: int, error: str) -> None:
        """Record that a request could not be sent."""
        self._write(lambda connection: _intend(connection, request, classifier, "unsent", error))

    def finish(
        self, outcomes: Iterable[tuple[Intent, RawAnswer | NoAnswer]], *, classifier: int, job: Job | None = None
    ) -> None:
        """Store the outcomes of a call, or of a ``job``, which is then finished.

        If a key gets a second answer, the first one is kept, unless the request ``replaces`` it.
        """
        rows = list(outcomes)

        def write(connection: sqlite3.Connection) -> None:
            replies = _Replies(connection)
            for intent, outcome in rows:
                values: tuple[Any, ...]
                if isinstance(outcome, NoAnswer):
                    reply = replies.row(outcome.reply, most=_MAX_FAILED_REPLY) if outcome.reply else None
                    values = ("failed", outcome.reason[:_MAX_REASON], outcome.billed, reply)
                else:
                    number = replies.row(outcome)
                    # Answers refer to the replies of requests; sentinels have no answer and refer to them directly.
                    values = ("answered", None, False, None if intent.row is None else number)
                    if intent.row is None:
                        _keep(connection, intent.request, (classifier, number, outcome.position))
                if intent.row is None:
                    query = f"UPDATE intents SET {_OUTCOME} WHERE key = ? AND attempt = ?"  # noqa: S608 - our names
                    connection.execute(query, (*values, intent.request.key, intent.attempt))
                else:
                    position = 0 if isinstance(outcome, NoAnswer) else outcome.position
                    query = f"UPDATE sentinels SET {_OUTCOME}, position = ? WHERE id = ?"  # noqa: S608 - our names
                    connection.execute(query, (*values, position, intent.row))
            if job is not None:
                connection.execute("UPDATE jobs SET ended = 1 WHERE name = ?", (job.name,))

        self._write(write)

    def answered(self, keys: Collection[str]) -> set[str]:
        """Return the subset of keys that have an answer."""
        return {key for (key,) in self._among(keys, "SELECT key FROM answers WHERE key IN {keys}")}

    def answers(self, keys: Collection[str]) -> Iterator[tuple[str, RawAnswer]]:
        """Yield each key that has an answer, and the answer."""
        rows = list(self._among(keys, "SELECT key, reply, position FROM answers WHERE key IN {keys}"))
        # One reply may answer a hundred images; its body is in memory once.
        of_replies = "SELECT id, body, status, headers FROM replies WHERE id IN {keys}"
        replies = {number: reply for number, *reply in self._among({number for _, number, _ in rows}, of_replies)}
        for key, number, position in rows:
            yield key, _raw_answer([*replies[number], position])

    def failures(self, keys: Collection[str]) -> dict[str, str]:
        """Return the last error of each key that ever failed, even if it has an answer now."""
        query = "SELECT key, error FROM intents WHERE key IN {keys} AND error IS NOT NULL ORDER BY key, attempt"
        return dict(self._among(keys, query))

    def unresolved(self, *, classifier: int) -> int:
        """Count the intents without an outcome, because the process ended after they may have been sent and billed.

        Intents of unfinished jobs, whose outcomes can still be fetched, are not counted.
        """
        query = f"SELECT count(*) FROM intents WHERE classifier = ? AND {_LOST}"  # noqa: S608 - our own words
        return int(self._rows(query, (classifier,))[0][0])

    def possibly_billed(self, *, classifier: int) -> list[str]:
        """Return the images (sha256), one per intent, that may have been charged without a usable answer.

        The process ended before the outcome was stored, or the answer was lost on the way or cannot be read.
        """
        open_ = {"intents": _LOST, "sentinels": "state = 'open'"}
        query = " UNION ALL ".join(
            f"SELECT image FROM {table} WHERE classifier = ? AND ({lost} OR billed)"  # noqa: S608 - our names
            for table, lost in open_.items()
        )
        return [image for (image,) in self._rows(query, (classifier,) * len(open_))]

    def billed(self, adapter: str, *, calls: float = 1.0, jobs: float = 1.0) -> float:
        """Return the number of images that an adapter's service charged for, over all its models and parameters.

        Sentinels and possibly billed images are included. An image sent in a call counts ``calls``, one sent in a job
        ``jobs``.
        """
        where = (
            "WHERE (state IN ('open', 'answered') OR billed) "
            "AND classifier IN (SELECT id FROM classifiers WHERE adapter = ?)"
        )
        query = f"""
            SELECT (SELECT count(*) FROM sentinels {where}), count(*) - count(job), count(job)
            FROM intents LEFT JOIN job_intents USING (key, attempt) {where}
        """  # noqa: S608 - our own words
        panel, alone, together = self._rows(query, (adapter, adapter))[0]
        return float(calls * (panel + alone) + jobs * together)

    def sentinels(self, *, classifier: int) -> list[Sentinel]:
        """Return the sentinels sent so far, in order."""
        query = """
            SELECT sentinels.id, round, moment, image, error, body, replies.status, headers, position
            FROM sentinels LEFT JOIN replies ON replies.id = reply
            WHERE classifier = ? AND state != 'unsent' ORDER BY sentinels.id
        """
        return [
            Sentinel(
                row, round_, moment, image, _raw_answer(reply) if error is None and reply[0] is not None else error
            )
            for row, round_, moment, image, error, *reply in self._rows(query, (classifier,))
        ]

    def _write(self, write: Write[Result]) -> Result:
        try:
            return self._commit(write)
        except sqlite3.OperationalError as error:  # e.g. a full disk, or a folder that became read-only
            raise self._unwritable(error) from error

    def _damaged(self, problem: object) -> StoreError:
        return StoreError(
            f"{self._path} is damaged, or not a file of answers ({problem}), so nothing is sent: "
            f"`counterslope repair {self._path.parent}` saves the answers that can be read"
        )

    def _unwritable(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self._path} cannot be written ({error}): check the disk's free space and the folder's permissions. "
            "Earlier answers are kept; the same command continues"
        )

    def _among(self, keys: Collection[str | int], query: str) -> Iterator[tuple[Any, ...]]:
        listed = list(keys)
        for start in range(0, len(listed), _CHUNK):
            chunk = json.dumps(listed[start : start + _CHUNK])
            yield from self._rows(query.format(keys="(SELECT value FROM json_each(?))"), (chunk,))

    def _rows(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._connection.execute(query, values).fetchall()


class _Replies:
    """The replies of one call, each of which is stored once even if it answers several images."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows: dict[tuple[bytes, int | None, str], int] = {}

    def row(self, answer: RawAnswer, *, most: int | None = None) -> int:
        """Return the row of a reply, of whose body at most ``most`` bytes are stored; a new one is inserted."""
        reply = (answer.body[:most], answer.status, json.dumps(dict(answer.headers), sort_keys=True))
        if reply not in self._rows:
            query = "INSERT INTO replies (body, status, headers, time) VALUES (?, ?, ?, ?)"
            self._rows[reply] = self._connection.execute(query, (*reply, _now())).lastrowid or 0
        return self._rows[reply]


def _intend(
    connection: sqlite3.Connection,
    request: Request,
    classifier: int,
    state: Literal["open", "unsent"],
    error: str | None,
) -> Intent:
    query = "SELECT coalesce(max(attempt), 0) + 1 FROM intents WHERE key = ?"
    (attempt,) = connection.execute(query, (request.key,)).fetchone()
    query = "INSERT INTO intents (key, attempt, classifier, image, time, state, error) VALUES (?, ?, ?, ?, ?, ?, ?)"
    reason = None if error is None else error[:_MAX_REASON]
    connection.execute(query, (request.key, attempt, classifier, request.sha256, _now(), state, reason))
    return Intent(request, attempt)


def _keep(connection: sqlite3.Connection, request: Request, answer: tuple[int, int, int]) -> None:
    """Insert an answer (classifier, reply, position), unless its key has one that the request does not replace."""
    if request.replaces:  # the unreadable reply stays with the intent that led to it
        connection.execute(
            "UPDATE intents SET reply = (SELECT reply FROM answers WHERE answers.key = intents.key) "
            "WHERE key = ? AND state = 'answered' AND reply IS NULL",
            (request.key,),
        )
        connection.execute("DELETE FROM answers WHERE key = ?", (request.key,))
    classifier, reply, position = answer
    connection.execute(
        "INSERT OR IGNORE INTO answers VALUES (?, ?, ?, ?, ?)",
        (request.key, classifier, request.sha256, reply, position),
    )


def _raw_answer(reply: Sequence[Any]) -> RawAnswer:
    """Decode an answer from its body, status, headers and position."""
    body, status, headers, position = reply
    return RawAnswer(body=bytes(body), status=status, headers=json.loads(headers), position=position)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
