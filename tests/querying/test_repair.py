"""Repair of a damaged store of answers."""

import sqlite3
from contextlib import closing
from hashlib import sha256
from pathlib import Path

import pytest

from adapters.base import RawAnswer
from pipeline.querying.repair import repair_store
from pipeline.querying.requests import Request
from pipeline.querying.store import Store, StoreError

ANSWERS = 400
PAGE = 4096


def key_of(number: int) -> str:
    return sha256(f"image {number}".encode()).hexdigest()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A store with answers of one adapter, each about half a page long."""
    path = tmp_path / "responses.sqlite"
    with Store(path) as store:
        classifier = store.classifier(adapter="vision", model="v1", parameters={})
        for number in range(ANSWERS):
            (intent,) = store.begin([Request(key_of(number), f"image {number}")], classifier=classifier)
            store.finish([(intent, RawAnswer(f"{number:04}".encode() * 450, 200, {}))], classifier=classifier)
    return path


def answers_in(path: Path) -> dict[str, bytes]:
    """Read the answers, and merge the write-ahead log into the file."""
    with Store(path) as store:
        answers = {key: answer.body for key, answer in store.answers([key_of(number) for number in range(ANSWERS)])}
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode = DELETE")
    return answers


def pages_of(path: Path, table: str) -> list[int]:
    """Return the file's pages that hold rows of a table."""
    with closing(sqlite3.connect(path)) as connection:
        try:
            rows = connection.execute(
                "SELECT pageno FROM dbstat WHERE name = ? AND pagetype = 'leaf' ORDER BY pageno", (table,)
            ).fetchall()
        except sqlite3.OperationalError:
            pytest.skip("this SQLite has no table dbstat")
    return [page for (page,) in rows]


def damage(path: Path, page: int) -> None:
    content = bytearray(path.read_bytes())
    content[(page - 1) * PAGE : page * PAGE] = b"\xa5" * PAGE
    path.write_bytes(bytes(content))


@pytest.mark.parametrize("table", ["replies", "answers", "intents"])
@pytest.mark.parametrize("which", [0, 1, -1])
def test_damaged_page_loses_only_its_own_rows(path, table, which):
    before = answers_in(path)
    pages = pages_of(path, table)
    damage(path, pages[which])
    with pytest.raises(StoreError, match="counterslope repair"), Store(path) as store:
        store.check()
    damaged = sha256(path.read_bytes()).hexdigest()
    found = repair_store(path)
    after = answers_in(path)
    assert found.answers == len(after)
    assert all(before[key] == body for key, body in after.items())
    assert len(before) - len(after) <= 2 + 1.5 * ANSWERS / len(pages)
    if table != "intents":
        assert found.lost == len(before) - len(after)
    assert sha256(found.kept.read_bytes()).hexdigest() == damaged
    with Store(path) as store:
        store.check()


def test_intact_file_is_not_changed(path):
    answers_in(path)
    before = path.read_bytes()
    found = repair_store(path)
    assert (found.kept, found.answers, found.lost) == (None, ANSWERS, 0)
    assert path.read_bytes() == before


def test_truncated_file_keeps_its_first_half(path):
    before = answers_in(path)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    repair_store(path)
    after = answers_in(path)
    assert len(after) > ANSWERS / 10
    assert all(before[key] == body for key, body in after.items())


@pytest.mark.parametrize("content", [b"", b"not a database", b"\x00" * 50_000])
def test_file_without_answers_is_not_changed(tmp_path, content):
    path = tmp_path / "responses.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match=r"nothing in .* can be read"):
        repair_store(path)
    assert path.read_bytes() == content
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_second_repair_keeps_the_first_copy(path):
    names = []
    for _ in range(2):
        answers_in(path)
        damage(path, pages_of(path, "replies")[1])
        names.append(repair_store(path).kept.name)
    assert names == ["responses.damaged.sqlite", "responses.damaged1.sqlite"]
