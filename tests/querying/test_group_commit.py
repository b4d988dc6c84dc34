import sqlite3
import threading
from pathlib import Path

import pytest

from pipeline.querying.group_commit import GroupCommit


@pytest.fixture
def connection(tmp_path: Path) -> sqlite3.Connection:
    opened = sqlite3.connect(tmp_path / "file.sqlite", isolation_level=None, check_same_thread=False)
    opened.execute("CREATE TABLE numbers (number INTEGER PRIMARY KEY)")
    return opened


def test_waiting_writes_share_a_transaction_and_fail_alone(connection):
    lock = threading.RLock()
    commit = GroupCommit(connection, lock)
    commits: list[str] = []
    connection.set_trace_callback(lambda text: commits.append(text) if text == "COMMIT" else None)
    outcomes: dict[int, object] = {}

    def insert(number):
        try:
            outcomes[number] = commit(
                lambda opened: opened.execute("INSERT INTO numbers VALUES (?)", (number % 50,)).lastrowid
            )
        except sqlite3.IntegrityError as error:
            outcomes[number] = error

    threads = [threading.Thread(target=insert, args=(number,)) for number in range(51)]
    with lock:  # as if another transaction were being written
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    failed = [number for number, outcome in outcomes.items() if isinstance(outcome, Exception)]
    assert len(outcomes) == 51
    assert len(failed) == 1
    assert failed[0] in (0, 50)
    assert connection.execute("SELECT count(*) FROM numbers").fetchone() == (50,)


def test_write_is_visible_to_others_when_its_call_returns(connection, tmp_path):
    commit = GroupCommit(connection, threading.RLock())
    commit(lambda opened: opened.execute("INSERT INTO numbers VALUES (7)"))
    with sqlite3.connect(tmp_path / "file.sqlite") as other:
        assert other.execute("SELECT number FROM numbers").fetchall() == [(7,)]
    other.close()
    connection.close()
