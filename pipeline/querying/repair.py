"""Repair of a damaged ``responses.sqlite``: readable rows are copied to a new file, and the old file is kept."""

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from pipeline.querying.migrations import migrate
from pipeline.querying.store import StoreError

# Table -> its key. Rows are read in the order of the key, so that an unreadable page costs only its own rows.
TABLES = {
    **{"classifiers": "id", "replies": "id", "answers": "key", "intents": "key", "sentinels": "id"},
    **{"jobs": "name", "job_intents": "key"},
}
DIGITS = 12  # hex digits of a text key that determine its place in the order
FARTHEST: int = 16**DIGITS
UNREADABLE = "unreadable"

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Repaired:
    """The result of a repair."""

    kept: Path | None  # the damaged file's new path; None: the file was intact
    answers: int  # in the file now
    lost: int = 0  # answers that could not be read


def repair_store(path: Path) -> Repaired:
    """Check a file of answers; if it is damaged, replace it by a new file with all readable rows.

    Args:
        path: ``responses.sqlite`` of a run that no other process is using.

    Raises:
        StoreError: there is no such file, or nothing in it can be read.
    """
    if not path.is_file():
        raise StoreError(f"{path} does not exist: there is nothing to repair")
    if is_sound(path):
        with closing(sqlite3.connect(path)) as connection:
            return Repaired(None, _count(connection, "SELECT count(*) FROM answers"))
    fresh = path.with_name(path.name + ".repaired")
    fresh.unlink(missing_ok=True)
    with closing(sqlite3.connect(fresh, isolation_level=None)) as target, closing(sqlite3.connect(path)) as source:
        migrate(target)
        source.execute("PRAGMA writable_schema = ON")  # otherwise SQLite refuses to read a truncated file
        saved = sum(_copy(source, target, table, key) for table, key in TABLES.items())
        # An answer needs its reply and its classifier.
        target.execute("DELETE FROM answers WHERE reply NOT IN (SELECT id FROM replies)")
        target.execute("DELETE FROM answers WHERE classifier NOT IN (SELECT id FROM classifiers)")
        answers = _count(target, "SELECT count(*) FROM answers")
        unread = "state = 'answered' AND key NOT IN (SELECT key FROM answers)"
        lost = _count(target, f"SELECT count(DISTINCT key) FROM intents WHERE {unread}")  # noqa: S608 - our own words
    if not saved:
        fresh.unlink()
        raise StoreError(f"nothing in {path} can be read: put a copy back, or move it away to query anew")
    kept = _free_name(path)
    for ending in ("", "-wal", "-shm"):
        part = path.with_name(path.name + ending)
        if part.exists():
            part.rename(kept.with_name(kept.name + ending))
    fresh.rename(path)
    return Repaired(kept, answers, lost)


def is_sound(path: Path) -> bool:
    """Tell whether SQLite's integrity check passes for a file of answers."""
    try:
        with closing(sqlite3.connect(path)) as connection:
            (found,) = connection.execute("PRAGMA integrity_check(1)").fetchone()
            return found == "ok" and _count(connection, "SELECT count(*) FROM answers") >= 0
    except sqlite3.DatabaseError:
        return False


def _copy(source: sqlite3.Connection, target: sqlite3.Connection, table: str, key: str) -> int:
    """Copy the readable rows of a table; return their number."""
    copied = 0
    target.execute("BEGIN")
    for row in _readable_rows(source, table, key):
        try:
            places = ", ".join("?" * len(row))
            copied += target.execute(f"INSERT OR IGNORE INTO {table} VALUES ({places})", row).rowcount  # noqa: S608
        except sqlite3.DatabaseError:  # a row whose values violate the table's constraints
            continue
    target.execute("COMMIT")
    return copied


def _readable_rows(source: sqlite3.Connection, table: str, key: str) -> Iterator[Row]:
    """Yield the rows in the order of their keys; after an unreadable page, continue with the next readable key."""
    start = 0
    while start < FARTHEST:
        try:
            for row in _rows(source, table, key, start):
                yield row
                start = _place(row[0]) + 1
            start = FARTHEST
        except sqlite3.DatabaseError:
            # The cursor fails one row early, because it reads ahead by one row.
            last = _first_row(source, table, key, start)
            if isinstance(last, tuple):
                yield last
                start = _place(last[0]) + 1
            else:
                start = _next_readable(start, lambda place: _first_row(source, table, key, place) is not UNREADABLE)


def _rows(source: sqlite3.Connection, table: str, key: str, start: int, *, most: int = -1) -> Iterator[Row]:
    """Yield rows from a place on; sqlite3.DatabaseError for a page that is unreadable or out of order."""
    query = f"SELECT * FROM {table} WHERE {key} >= ? ORDER BY {key} LIMIT ?"  # noqa: S608 - our own names
    for row in source.execute(query, (start if key == "id" else f"{start:0{DIGITS}x}", most)):
        if _place(row[0]) < start:
            raise sqlite3.DatabaseError("the rows are out of order")
        start = _place(row[0])
        yield row


def _first_row(source: sqlite3.Connection, table: str, key: str, start: int) -> Row | str | None:
    """Return the first row from a place on, None if there is none, ``UNREADABLE`` if its page is."""
    try:
        return next(_rows(source, table, key, start, most=1), None)
    except sqlite3.DatabaseError:
        return UNREADABLE


def _place(key: Any) -> int:
    """Return the place of a key in the order."""
    try:
        return int(key) if isinstance(key, int) else int(str(key)[:DIGITS], 16)
    except ValueError:  # not written by this program
        return FARTHEST


def _next_readable(start: int, reads: Callable[[int], bool]) -> int:
    """Search the first place after ``start`` from which rows can be read; the farthest if there is none."""
    jump = 1
    while not reads(start + jump):
        jump *= 2
        if jump > FARTHEST:
            return FARTHEST
    low, high = start + jump // 2, start + jump
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reads(middle) else (middle, high)
    return high


def _count(connection: sqlite3.Connection, query: str) -> int:
    return int(connection.execute(query).fetchone()[0])


def _free_name(path: Path) -> Path:
    """Return ``responses.damaged.sqlite`` next to the file, with a number if that exists."""
    paths = (path.with_name(f"{path.stem}.damaged{number or ''}{path.suffix}") for number in count())
    return next(candidate for candidate in paths if not candidate.exists())
