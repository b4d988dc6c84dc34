import sqlite3
import time
from hashlib import sha256

import pytest

from adapters.base import NoAnswer, RawAnswer
from pipeline.querying.store import MIGRATIONS, Request, Store, StoreError


def _classifier(store: Store, model: str = "1") -> int:
    return store.classifier(adapter="a", model=model, parameters={"x": 1})


def test_answer_is_stored_byte_for_byte(tmp_path):
    answer = RawAnswer(body=bytes(range(256)), status=207, headers={"x-request-id": "é"})
    with Store(tmp_path / "responses.sqlite") as store:
        number = _classifier(store)
        intents = store.begin([Request("key", "image")], classifier=number)
        store.finish([(intents[0], answer)], classifier=number)
    with Store(tmp_path / "responses.sqlite") as store:
        assert dict(store.answers(["key", "another"])) == {"key": answer}
        assert store.answered(["key", "another"]) == {"key"}


def test_unresolved_intents_are_counted_by_classifier(store):
    number, other = _classifier(store), _classifier(store, model="2")
    one, two, three = store.begin([Request(str(n), str(n)) for n in range(3)], classifier=number)
    assert store.unresolved(classifier=number) == 3
    store.finish([(one, RawAnswer(body=b""))], classifier=number)
    store.finish([(two, NoAnswer("timed out"))], classifier=number)
    assert store.unresolved(classifier=number) == 1
    assert store.unresolved(classifier=other) == 0
    again = store.begin([three.request], classifier=number)[0]
    store.finish([(again, RawAnswer(body=b""))], classifier=number)
    assert again.attempt == 2
    assert store.unresolved(classifier=number) == 1, "the first attempt may have been billed, too"


def test_latest_failure_is_reported(store):
    number = _classifier(store)
    question = Request("key", "image")
    [intent] = store.begin([question], classifier=number)
    store.finish([(intent, NoAnswer("first"))], classifier=number)
    store.refuse(question, classifier=number, error="second")
    assert store.failures(["key"]) == {"key": "second"}
    assert store.answered(["key"]) == set()


def test_first_answer_of_a_key_is_kept(store):
    number = _classifier(store)
    first, second = (store.begin([Request("key", "image")], classifier=number)[0] for _ in range(2))
    store.finish([(second, RawAnswer(body=b"2"))], classifier=number)
    store.finish([(first, RawAnswer(body=b"1"))], classifier=number)
    assert dict(store.answers(["key"]))["key"].body == b"2"


def test_unreadable_answer_can_be_replaced(store):
    number = _classifier(store)
    for body, replaces in ((b"<html>", False), (b"{}", True)):
        request = Request("key", "image", replaces=replaces)
        store.finish([(store.begin([request], classifier=number)[0], RawAnswer(body))], classifier=number)
    assert dict(store.answers(["key"]))["key"].body == b"{}"
    rows = store._connection.execute("SELECT body FROM intents JOIN replies ON replies.id = intents.reply").fetchall()
    assert rows == [(b"<html>",)]
    assert store.billed("a") == 2


def test_order_of_parameters_does_not_change_the_classifier(store):
    number = store.classifier(adapter="a", model="m", parameters={"x": 1, "y": 2})
    assert store.classifier(adapter="a", model="m", parameters={"y": 2, "x": 1}) == number
    assert store.classifier(adapter="a", model="m", parameters={"x": 1, "y": 3}) != number


def test_100000_keys_are_looked_up_within_a_second(tmp_path):
    keys = [sha256(str(n).encode()).hexdigest() for n in range(100_000)]
    path = tmp_path / "responses.sqlite"
    with Store(path) as store:
        number = _classifier(store)
    with sqlite3.connect(path) as connection:
        connection.executemany(
            "INSERT INTO replies VALUES (?, ?, ?, ?, ?)", ((n, b"x" * 300, None, "{}", "") for n in range(50_000))
        )
        connection.executemany(
            "INSERT INTO answers VALUES (?, ?, ?, ?, 0)",
            ((key, number, key, reply) for reply, key in enumerate(keys[::2])),
        )
    connection.close()
    with Store(path) as store:
        start = time.process_time()
        found = store.answered(keys)
        assert time.process_time() - start < 1
    assert found == set(keys[::2])


def test_full_disk_is_reported_and_keeps_earlier_answers(tmp_path):
    path = tmp_path / "responses.sqlite"
    with Store(path) as store:
        number = _classifier(store)
        first, second = store.begin([Request(name, name) for name in ("one", "two")], classifier=number)
        store.finish([(first, RawAnswer(b"1"))], classifier=number)
        store._connection.execute("PRAGMA max_page_count = 1")
        with pytest.raises(StoreError, match=r"cannot be written \(database or disk is full\): check the disk"):
            store.finish([(second, RawAnswer(b"2" * 100_000))], classifier=number)
        assert store.answered(["one", "two"]) == {"one"}
        assert store.possibly_billed(classifier=number) == ["two"]


def test_unwritable_folder_is_named(tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"responses\.sqlite cannot be written"):
        Store(tmp_path / "file" / "responses.sqlite")


def test_reply_to_many_images_is_stored_once(store):
    number = _classifier(store)
    intents = store.begin([Request(str(n), str(n)) for n in range(3)], classifier=number)
    store.finish([(one, RawAnswer(b"all", 200, {}, n)) for n, one in enumerate(intents)], classifier=number)
    answers = dict(store.answers(["0", "1", "2"]))
    assert [answers[str(n)].position for n in range(3)] == [0, 1, 2]
    assert len({id(answer.body) for answer in answers.values()}) == 1


def test_other_or_newer_file_is_refused(tmp_path):
    other = tmp_path / "photo.sqlite"
    other.write_bytes(b"not a database, but long enough to be looked at as one" * 100)
    with pytest.raises(StoreError, match="not a file of answers"):
        Store(other)
    future = tmp_path / "future.sqlite"
    with sqlite3.connect(future) as connection:
        connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    connection.close()
    with pytest.raises(StoreError, match="newer version"):
        Store(future)
