"""Group commit: writes of many threads share transactions, because a durable commit takes milliseconds."""

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

Result = TypeVar("Result")
Write = Callable[[sqlite3.Connection], Result]
_Group = list[tuple[Write[Any], "Future[Any]"]]


class GroupCommit:
    """Runs writes; each has been committed when its call returns.

    The thread that gets the connection first executes the writes of all waiting threads in one transaction. A write
    that fails is rolled back and raises in its own thread; the others are committed. With one transaction per write,
    the disk would limit the rate of all threads, because an intent must be durable before its image is sent.

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
        future: Future[Result] = Future()
        with self._arriving:
            self._queue.append((write, future))
        with self._lock:
            if not future.done():
                with self._arriving:
                    group, self._queue = self._queue, []
                self._commit(group)
        return future.result()

    def _commit(self, group: _Group) -> None:
        try:
            results = self._in_one_transaction(group)
        except Exception as error:
            if len(group) == 1:
                group[0][1].set_exception(error)
            else:  # find the write that failed
                for item in group:
                    self._commit([item])
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
