"""``responses.sqlite``: every raw answer as it came, and every intent to send an image, written before it is sent.

Read by others: the view ``responses`` has one row an answered image (key, classifier, image, body, status, headers,
time, position).
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

_CHUNK = 20_000  # keys per look-up
_REASON_LENGTH = 500
_KEPT_OF_A_FAILURE = 65_536  # bytes of the reply

_LOST = "state = 'open' AND (key, attempt) NOT IN (SELECT key, attempt FROM waiting)"
_OUTCOME = "state = ?, error = ?, billed = ?, reply = ?"
_NUMBER = "SELECT id FROM classifiers WHERE adapter = ? AND model = ? AND parameters = ?"
Moment = Literal["start", "middle", "end"]


class StoreError(Exception):
    """The file is not a store that this version can use; the message says why and what to do."""


@dataclass(frozen=True)
class Intent:
    """A request that is about to be sent for the ``attempt``-th time, or as the sentinel of that ``row``."""

    request: Request
    attempt: int
    row: int | None = None


@dataclass(frozen=True)
class Job:
    """Images that are sent together and answered later; ``service_id`` is None until the service's reply is kept."""

    name: str
    intents: tuple[Intent, ...]
    service_id: str | None = None


@dataclass(frozen=True)
class Sentinel:
    """A sentinel image as it was sent at one moment; ``outcome`` is None where the process ended before."""

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
        """StoreError where SQLite finds the file damaged; for before images are sent whose answers may be in it."""
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
        """Let each transaction wait for the disk from now on.

        A killed process loses nothing either way; answers that cost money must also outlive the machine.
        """
        with self._lock:
            self._connection.execute("PRAGMA synchronous = FULL")

    def classifier(self, *, adapter: str, model: str, parameters: Mapping[str, Any]) -> int:
        """The number that stands for a classifier with these parameters."""
        row = (adapter, model, canonical_json(dict(parameters)))

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("INSERT OR IGNORE INTO classifiers (adapter, model, parameters) VALUES (?, ?, ?)", row)
            return int(connection.execute(_NUMBER, row).fetchone()[0])

        return self._write(write)

    def number_of(self, adapter: Adapter) -> int:
        """The number that stands for an adapter as it is."""
        return self.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)

    def find(self, adapter: Adapter) -> int | None:
        """The number that stands for an adapter as it is; None where it has none yet."""
        found = self._rows(_NUMBER, (adapter.name, adapter.model, canonical_json(dict(adapter.parameters))))
        return int(found[0][0]) if found else None

    def begin(
        self, requests: Sequence[Request], *, classifier: int, sentinel: tuple[int, Moment] | None = None
    ) -> list[Intent]:
        """Write down that these are about to be sent; with ``sentinel``, as the sentinels of that round and moment."""

        def write(connection: sqlite3.Connection) -> list[Intent]:
            if sentinel is None:
                return [_intend(connection, request, classifier, "open", None) for request in requests]
            query = (
                "INSERT INTO sentinels (classifier, round, moment, image, time, state) VALUES (?, ?, ?, ?, ?, 'open')"
            )
            rows = [connection.execute(query, (classifier, *sentinel, one.sha256, _now())) for one in requests]
            return [Intent(one, 1, row.lastrowid) for one, row in zip(requests, rows, strict=True)]

        return self._write(write)

    def begin_job(self, intents: Sequence[Intent], *, classifier: int) -> Job:
        """Write down that these intents are about to be sent as one job."""
        job = Job(uuid4().hex, tuple(intents))

        def write(connection: sqlite3.Connection) -> Job:
            query = "INSERT INTO jobs (name, classifier, time) VALUES (?, ?, ?)"
            connection.execute(query, (job.name, classifier, _now()))
            rows = [(one.request.key, one.attempt, job.name) for one in intents]
            connection.executemany("INSERT INTO job_intents VALUES (?, ?, ?)", rows)
            return job

        return self._write(write)

    def name_job(self, job: Job, service_id: str) -> Job:
        """Keep the id that the service gave a job."""
        query = "UPDATE jobs SET service_id = ? WHERE name = ?"
        self._write(lambda connection: connection.execute(query, (service_id, job.name)))
        return replace(job, service_id=service_id)

    def jobs(self, *, classifier: int) -> list[Job]:
        """The jobs whose outcomes are not kept yet, with those of their intents that have none."""
        query = "SELECT job, service_id, key, attempt, image FROM waiting WHERE classifier = ? ORDER BY job, key"
        rows = self._rows(query, (classifier,))
        return [
            Job(name, tuple(Intent(Request(key, image), attempt) for *_, key, attempt, image in group), service_id)
            for (name, service_id), group in groupby(rows, key=lambda row: row[:2])
        ]

    def refuse(self, request: Request, *, classifier: int, error: str) -> None:
        """Write down that this could not even be sent."""
        self._write(lambda connection: _intend(connection, request, classifier, "unsent", error))

    def finish(
        self, outcomes: Iterable[tuple[Intent, RawAnswer | NoAnswer]], *, classifier: int, job: Job | None = None
    ) -> None:
        """Keep the outcomes of one call, or of a ``job``, which then has ended.

        Should one key ever get two answers, the first that can be read stays.
        """
        rows = list(outcomes)

        def write(connection: sqlite3.Connection) -> None:
            replies = _Replies(connection)
            for intent, outcome in rows:
                values: tuple[Any, ...]
                if isinstance(outcome, NoAnswer):
                    reply = replies.row(outcome.reply, most=_KEPT_OF_A_FAILURE) if outcome.reply else None
                    values = ("failed", shortened(outcome.reason), outcome.billed, reply)
                else:
                    number = replies.row(outcome)
                    # The reply of an answered request is found by its answer, that of a sentinel by itself.
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
        """Those of the keys that have an answer."""
        return {key for (key,) in self._among(keys, "SELECT key FROM answers WHERE key IN {keys}")}

    def answers(self, keys: Collection[str]) -> Iterator[tuple[str, RawAnswer]]:
        """Each key that has an answer, with it."""
        rows = list(self._among(keys, "SELECT key, reply, position FROM answers WHERE key IN {keys}"))
        # One reply may answer a hundred images: its body is held once.
        of_replies = "SELECT id, body, status, headers FROM replies WHERE id IN {keys}"
        replies = {number: reply for number, *reply in self._among({number for _, number, _ in rows}, of_replies)}
        for key, number, position in rows:
            yield key, _raw_answer([*replies[number], position])

    def failures(self, keys: Collection[str]) -> dict[str, str]:
        """The last error of each key that ever failed, whether or not it has an answer by now."""
        rows = self._among(
            keys, "SELECT key, error FROM intents WHERE key IN {keys} AND error IS NOT NULL ORDER BY key, attempt"
        )
        return dict(rows)

    def unresolved(self, *, classifier: int) -> int:
        """How many intents have no outcome: sent, perhaps answered and billed, but the process ended before.

        Those of jobs that can still be fetched are not among them.
        """
        query = f"SELECT count(*) FROM intents WHERE classifier = ? AND {_LOST}"  # noqa: S608 - our own words
        return int(self._rows(query, (classifier,))[0][0])

    def possibly_billed(self, *, classifier: int) -> list[str]:
        """The images (sha256) of the intents that may have been charged for in vain, one for each intent.

        The process ended before the outcome was kept, or the answer was lost on its way or cannot be read.
        """
        open_ = {"intents": _LOST, "sentinels": "state = 'open'"}
        query = " UNION ALL ".join(
            f"SELECT image FROM {table} WHERE classifier = ? AND ({lost} OR billed)"  # noqa: S608 - our names
            for table, lost in open_.items()
        )
        return [image for (image,) in self._rows(query, (classifier,) * len(open_))]

    def billed(self, adapter: str, *, calls: float = 1.0, jobs: float = 1.0) -> float:
        """For how many images an adapter's service charged, whatever its model and parameters were at the time.

        Those of sentinels and those possibly billed are included. An image sent in a call counts ``calls``, one sent
        in a job ``jobs``.
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
        """The sentinel images as they were sent so far, in order."""
        query = """
            SELECT sentinels.id, round, moment, image, error, body, replies.status, headers, position
            FROM sentinels LEFT JOIN replies ON replies.id = reply
            WHERE classifier = ? AND state != 'unsent' ORDER BY sentinels.id
        """
        return [
            Sentinel(
                row, number, moment, image, _raw_answer(reply) if error is None and reply[0] is not None else error
            )
            for row, number, moment, image, error, *reply in self._rows(query, (classifier,))
        ]

    def _write(self, write: Write[Result]) -> Result:
        try:
            return self._commit(write)
        except sqlite3.OperationalError as error:  # a full disk, a folder that became read-only
            raise self._unwritable(error) from error

    def _damaged(self, problem: object) -> StoreError:
        return StoreError(
            f"{self._path} is damaged, or not a file of answers ({problem}): nothing is sent. "
            f"`counterslope repair {self._path.parent}` saves the answers that can be read"
        )

    def _unwritable(self, error: Exception) -> StoreError:
        return StoreError(
            f"{self._path} cannot be written ({error}): see to the disk's space and the folder's permissions. "
            "What was answered before is kept; the same command continues"
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
    """The replies of one call, each kept once however many images it answers."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._rows: dict[tuple[bytes, int | None, str], int] = {}

    def row(self, answer: RawAnswer, *, most: int | None = None) -> int:
        """The row of a reply, which is written where it is the first of its kind; at most so many bytes of its body."""
        reply = (answer.body[:most], answer.status, json.dumps(dict(answer.headers), sort_keys=True))
        if reply not in self._rows:
            query = "INSERT INTO replies (body, status, headers, time) VALUES (?, ?, ?, ?)"
            self._rows[reply] = self._connection.execute(query, (*reply, _now())).lastrowid or 0
        return self._rows[reply]


def shortened(text: str) -> str:
    """A reason, as long as it is worth keeping."""
    return text[:_REASON_LENGTH]


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
    why = None if error is None else shortened(error)
    connection.execute(query, (request.key, attempt, classifier, request.sha256, _now(), state, why))
    return Intent(request, attempt)


def _keep(connection: sqlite3.Connection, request: Request, answer: tuple[int, int, int]) -> None:
    """Keep an answer (classifier, reply, position) under its key, where there is none that can be read."""
    if request.replaces:  # the reply that could not be read stays with the intent that led to it
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
    """The answer of a row: body, status, headers, position."""
    body, status, headers, position = reply
    return RawAnswer(body=bytes(body), status=status, headers=json.loads(headers), position=position)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
