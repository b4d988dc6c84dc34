"""Writes of many threads in few transactions: a disk that takes milliseconds to be sure serves hundreds a second."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")
Write = Callable[[sqlite3.Connection], Result]
_Group = list[tuple[Write[Any], "Future[Any]"]]


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
        self._connection, self._lock = connection, lock
        self._arriving = threading.Lock()
        self._queue: _Group = []

    def __call__(self, write: Write[Result]) -> Result:
        """Run one write and return its result."""
        mine: Future[Result] = Future()
        with self._arriving:
            self._queue.append((write, mine))
        with self._lock:
            if not mine.done():
                with self._arriving:
                    group, self._queue = self._queue, []
                self._commit(group)
        return mine.result()

    def _commit(self, group: _Group) -> None:
        try:
            results = self._in_one_transaction(group)
        except Exception as error:
            if len(group) == 1:
                group[0][1].set_exception(error)
            for one in group if len(group) > 1 else ():
                self._commit([one])
        except BaseException:
            for _, future in group:
                future.set_exception(RuntimeError("the write was interrupted"))
            raise
        else:
            for (_, future), result in zip(group, results, strict=True):
                future.set_result(result)

    def _in_one_transaction(self, group: _Group) -> list[Any]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            results = [write(self._connection) for write, _ in group]
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return results
