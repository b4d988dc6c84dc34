import threading
import time
from collections.abc import Sequence

import pytest
from counting_adapter import CountingAdapter, write_images
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.base import AdapterError, RawAnswer
from pipeline.querying.client import query_adapter
from pipeline.querying.counts import RequestCounts
from pipeline.querying.requests import ImageRef, key_maker
from pipeline.querying.store import Store


def _bodies(store: Store, adapter: CountingAdapter, images: Sequence[ImageRef]) -> dict[str, bytes]:
    key = key_maker(adapter)
    shas = {key(image.sha256): image.sha256 for image in images}
    return {shas[k]: answer.body for k, answer in store.answers(shas)}


def _failures(store: Store, adapter: CountingAdapter, images: Sequence[ImageRef]) -> list[str]:
    key = key_maker(adapter)
    return list(store.failures([key(image.sha256) for image in images]).values())


def test_identical_and_known_images_are_sent_once(tmp_path, store):
    images = write_images(tmp_path / "images", ["a", "b", "a", "c", "b"])
    adapter = CountingAdapter()
    assert query_adapter(adapter, images, store) == RequestCounts(images=3, answered=3)
    assert query_adapter(adapter, images, store) == RequestCounts(images=3, known=3)
    assert set(adapter.received.values()) == {1}
    assert query_adapter(CountingAdapter(model="2"), images, store).answered == 3


@pytest.mark.parametrize("concurrency", [1, 4])
def test_system_exit_of_a_function_is_a_failure(tmp_path, store, concurrency):
    def leave(batch):
        if b"bad" in batch:
            raise SystemExit(3)

    images = write_images(tmp_path / "images", ["a", "bad", "c"])
    adapter = CountingAdapter(concurrency=concurrency, on_send=leave)
    assert query_adapter(adapter, images, store) == RequestCounts(images=3, answered=2, failed=1)
    assert _failures(store, adapter, images) == ["SystemExit: 3"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_image_that_raises_fails_alone(tmp_path, store, concurrency):
    def refuse_bad(batch):
        if b"bad" in batch:
            raise OSError("cannot read this image")

    images = write_images(tmp_path / "images", ["a", "b", "bad", "c", "d", "e"])
    adapter = CountingAdapter(batch=4, concurrency=concurrency, on_send=refuse_bad)
    assert query_adapter(adapter, images, store) == RequestCounts(images=6, answered=5, failed=1)
    assert "OSError: cannot read this image" in _failures(store, adapter, images[2:3])
    assert adapter.received == {b"a": 2, b"b": 2, b"bad": 2, b"c": 2, b"d": 1, b"e": 1}
    repaired = CountingAdapter(batch=4)
    assert query_adapter(repaired, images, store) == RequestCounts(images=6, known=5, answered=1)
    assert repaired.received == {b"bad": 1}


def test_missing_or_changed_image_is_not_sent(tmp_path, store):
    images = write_images(tmp_path / "images", ["a", "b", "c"])
    images[0].path.write_text("another picture")
    images[1].path.unlink()
    adapter = CountingAdapter(batch=3)
    assert query_adapter(adapter, images, store) == RequestCounts(images=3, answered=1, failed=2)
    reasons = sorted(_failures(store, adapter, images))
    assert "0000.png was changed" in reasons[0]
    assert "0001.png cannot be read" in reasons[1]
    assert adapter.received == {b"c": 1}


@pytest.mark.parametrize("concurrency", [1, 3])
def test_adapter_error_stops_the_query(tmp_path, store, concurrency):
    refused = threading.Event()

    def out_of_credit(batch):
        if b"3" in batch:
            refused.set()
            raise AdapterError("the account has no credit left: top it up")
        if int(batch[0]) > 3:
            refused.wait(10)
            time.sleep(0.02)  # enough for the other threads to learn of the refusal

    images = write_images(tmp_path / "images", [str(n) for n in range(40)])
    adapter = CountingAdapter(concurrency=concurrency, on_send=out_of_credit)
    with pytest.raises(AdapterError, match="top it up"):
        query_adapter(adapter, images, store)
    assert sum(adapter.received.values()) < 20
    known = len(_bodies(store, adapter, images))
    assert known >= 3
    assert query_adapter(CountingAdapter(), images, store) == RequestCounts(images=40, known=known, answered=40 - known)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda images: [], "0 answers for 1 images"),
        (lambda images: [RawAnswer(body=b"")] * 5, "5 answers for 1 images"),
        (lambda images: ["{}"], "gave str instead of a RawAnswer"),
        (lambda images: [RawAnswer(body="{}")], "RawAnswer with bytes"),
    ],
)
def test_invalid_answers_of_an_adapter_are_explained(tmp_path, store, answers, message):
    images = write_images(tmp_path / "images", ["a"])
    adapter = CountingAdapter()
    adapter.send = answers
    assert query_adapter(adapter, images, store) == RequestCounts(images=1, failed=1)
    assert message in _failures(store, adapter, images)[0]


def test_concurrent_calls_are_limited(tmp_path, store):
    running, most, lock = 0, 0, threading.Lock()

    def watch(_):
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    images = write_images(tmp_path / "images", [str(n) for n in range(30)])
    assert query_adapter(CountingAdapter(concurrency=3, on_send=watch), images, store).answered == 30
    assert most == 3


def test_progress_counts_images(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    progress: list[RequestCounts] = []
    query_adapter(CountingAdapter(), images[:3], store)
    query_adapter(CountingAdapter(batch=2), images, store, progress=progress.append)
    assert [(counts.done, counts.images) for counts in progress] == [(done, 10) for done in (3, 5, 7, 9, 10)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.sampled_from("abcdefgh"), max_size=12),
    batch=st.integers(1, 5),
    concurrency=st.sampled_from([1, 3]),
    stops=st.lists(st.integers(1, 4), max_size=3),
)
def test_resumed_query_resends_no_answered_image(tmp_path_factory, texts, batch, concurrency, stops):
    folder = tmp_path_factory.mktemp("runs")
    images = write_images(folder / "images", texts)
    uninterrupted = CountingAdapter()
    with Store(folder / "uninterrupted.sqlite") as store:
        query_adapter(uninterrupted, images, store)
        expected = _bodies(store, uninterrupted, images)

    resent: list[bytes] = []
    with Store(folder / "resumed.sqlite") as store:
        for stop in [*stops, None]:
            calls = 0

            def stop_after(_, stop=stop):
                nonlocal calls
                calls += 1
                if stop is not None and calls >= stop:
                    raise AdapterError("stopped")

            adapter = CountingAdapter(batch=batch, concurrency=concurrency, on_send=stop_after)
            before = _bodies(store, adapter, images)
            try:
                counts = query_adapter(adapter, images, store)
            except AdapterError:
                continue
            finally:
                resent += [image for image in adapter.received if image in before.values()]
        assert counts.known + counts.answered == counts.images == len(set(texts))
        assert _bodies(store, adapter, images) == expected
    assert resent == []
