"""Writes of many threads in few transactions: a disk that takes milliseconds to be sure serves hundreds a second."""

import sqlite3
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")
Write = Callable[[sqlite3.Connection], Result]


@dataclass
class _Queued(Generic[Result]):
    write: Write[Result]
    done: bool = False
    result: Result | None = None
    error: Exception | None = None


class GroupCommit:
    """Runs writes, each of which has been committed when its call returns.

    Whichever thread gets the connection first writes for all that wait, in one transaction. A write that fails is
    undone and raises in its own thread; the others stand. One transaction a request would bound the rate of all
    threads by the disk: each must be durable before an image is sent.

    Args:
        connection: in autocommit mode.
        lock: held while the connection is used.
    """

    def __init__(self, connection: sqlite3.Connection, lock: threading.RLock) -> None:
        self._connection = connection
        self._lock = lock
        self._arriving = threading.Lock()
        self._queue: list[_Queued[Any]] = []

    def __call__(self, write: Write[Result]) -> Result:
        """Run one write and return its result."""
        mine = _Queued(write)
        with self._arriving:
            self._queue.append(mine)
        with self._lock:
            if not mine.done:
                with self._arriving:
                    group, self._queue = self._queue, []
                self._commit(group)
        if mine.error is not None:
            raise mine.error
        return mine.result  # type: ignore[return-value]  # set by the write, which did not fail

    def _commit(self, group: list[_Queued[Any]]) -> None:
        try:
            results = self._in_one_transaction(group)
        except Exception as error:
            if len(group) > 1:
                for one in group:
                    self._commit([one])
                return
            group[0].error = error
            results = [None]
        except BaseException:
            for one in group:
                one.done, one.error = True, RuntimeError("the write was interrupted")
            raise
        for one, result in zip(group, results, strict=True):
            one.done, one.result = True, result

    def _in_one_transaction(self, group: list[_Queued[Any]]) -> list[Any]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            results = [one.write(self._connection) for one in group]
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return results
