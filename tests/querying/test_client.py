import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from counting import CountingAdapter, write_images
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


def test_identical_images_are_asked_once_and_known_ones_never_again(tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", ["a", "b", "a", "c", "b"])
    adapter = CountingAdapter()
    with Store(tmp_path / "responses.sqlite") as store:
        assert query_adapter(adapter, images, store) == RequestCounts(images=3, answered=3)
        assert query_adapter(adapter, images, store) == RequestCounts(images=3, known=3)
        assert set(adapter.received.values()) == {1}
        assert query_adapter(CountingAdapter(model="2"), images, store).answered == 3


@pytest.mark.parametrize("concurrency", [1, 4])
def test_a_function_that_ends_the_program_fails_by_name(tmp_path: Path, concurrency: int) -> None:
    def leave(batch: Sequence[bytes]) -> None:
        if b"bad" in batch:
            raise SystemExit(3)

    images = write_images(tmp_path / "images", ["a", "bad", "c"])
    with Store(tmp_path / "responses.sqlite") as store:
        adapter = CountingAdapter(concurrency=concurrency, fails=leave)
        assert query_adapter(adapter, images, store) == RequestCounts(images=3, answered=2, failed=1)
        assert _failures(store, adapter, images) == ["SystemExit: 3"]


@pytest.mark.parametrize("concurrency", [1, 4])
def test_one_bad_image_does_not_take_its_batch_with_it(tmp_path: Path, concurrency: int) -> None:
    def refuse_bad(batch: Sequence[bytes]) -> None:
        if b"bad" in batch:
            raise OSError("cannot read this image")

    images = write_images(tmp_path / "images", ["a", "b", "bad", "c", "d", "e"])
    adapter = CountingAdapter(batch=4, concurrency=concurrency, fails=refuse_bad)
    with Store(tmp_path / "responses.sqlite") as store:
        assert query_adapter(adapter, images, store) == RequestCounts(images=6, answered=5, failed=1)
        assert "OSError: cannot read this image" in _failures(store, adapter, images[2:3])
        assert adapter.received == {b"a": 2, b"b": 2, b"bad": 2, b"c": 2, b"d": 1, b"e": 1}
        repaired = CountingAdapter(batch=4)
        assert query_adapter(repaired, images, store) == RequestCounts(images=6, known=5, answered=1)
        assert repaired.received == {b"bad": 1}


def test_an_image_that_is_missing_or_changed_is_not_sent_and_fails_by_name(tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", ["a", "b", "c"])
    images[0].path.write_text("another picture")
    images[1].path.unlink()
    adapter = CountingAdapter(batch=3)
    with Store(tmp_path / "responses.sqlite") as store:
        assert query_adapter(adapter, images, store) == RequestCounts(images=3, answered=1, failed=2)
        reasons = sorted(_failures(store, adapter, images))
    assert "0000.png was changed" in reasons[0]
    assert "0001.png cannot be read" in reasons[1]
    assert adapter.received == {b"c": 1}


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_classifier_that_cannot_be_used_stops_the_asking_with_its_message(tmp_path: Path, concurrency: int) -> None:
    refused = threading.Event()

    def out_of_credit(batch: Sequence[bytes]) -> None:
        if b"3" in batch:
            refused.set()
            raise AdapterError("the account has no credit left: top it up")
        if int(batch[0]) > 3:
            refused.wait(10)
            time.sleep(0.02)  # longer than it takes to see the refusal

    images = write_images(tmp_path / "images", [str(n) for n in range(40)])
    adapter = CountingAdapter(concurrency=concurrency, fails=out_of_credit)
    with Store(tmp_path / "responses.sqlite") as store:
        with pytest.raises(AdapterError, match="top it up"):
            query_adapter(adapter, images, store)
        assert sum(adapter.received.values()) < 20
        kept = len(_bodies(store, adapter, images))
        assert kept >= 3
        again = CountingAdapter()
        assert query_adapter(again, images, store) == RequestCounts(images=40, known=kept, answered=40 - kept)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        (lambda images: [], "0 answers for 1 images"),
        (lambda images: [RawAnswer(body=b"")] * 5, "5 answers for 1 images"),
        (lambda images: ["{}"], "gave str instead of a RawAnswer"),
        (lambda images: [RawAnswer(body="{}")], "RawAnswer with bytes"),
    ],
)
def test_answers_that_break_the_contract_fail_by_name(
    tmp_path: Path, answers: Callable[[Sequence[bytes]], list[RawAnswer]], message: str
) -> None:
    images = write_images(tmp_path / "images", ["a"])
    adapter = CountingAdapter()
    adapter.send = answers  # type: ignore[method-assign]
    with Store(tmp_path / "responses.sqlite") as store:
        assert query_adapter(adapter, images, store) == RequestCounts(images=1, failed=1)
        assert message in _failures(store, adapter, images)[0]


def test_calls_run_at_once_up_to_the_declared_number(tmp_path: Path) -> None:
    running, most, lock = 0, 0, threading.Lock()

    def watch(_: Sequence[bytes]) -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.01)
        with lock:
            running -= 1

    images = write_images(tmp_path / "images", [str(n) for n in range(30)])
    with Store(tmp_path / "responses.sqlite") as store:
        assert query_adapter(CountingAdapter(concurrency=3, fails=watch), images, store).answered == 30
    assert most == 3


def test_progress_counts_up_to_all(tmp_path: Path) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    seen: list[RequestCounts] = []
    with Store(tmp_path / "responses.sqlite") as store:
        query_adapter(CountingAdapter(), images[:3], store)
        query_adapter(CountingAdapter(batch=2), images, store, progress=seen.append)
    assert [counts.done for counts in seen] == [3, 5, 7, 9, 10]
    assert all(counts.images == 10 for counts in seen)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    texts=st.lists(st.sampled_from("abcdefgh"), max_size=12),
    batch=st.integers(1, 5),
    concurrency=st.sampled_from([1, 3]),
    stops=st.lists(st.integers(1, 4), max_size=3),
)
def test_interrupted_and_resumed_equals_uninterrupted(
    tmp_path_factory: pytest.TempPathFactory, texts: list[str], batch: int, concurrency: int, stops: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("runs")
    images = write_images(folder / "images", texts)
    straight = CountingAdapter()
    with Store(folder / "straight.sqlite") as store:
        query_adapter(straight, images, store)
        expected = _bodies(store, straight, images)

    received: list[bytes] = []
    with Store(folder / "resumed.sqlite") as store:
        for stop in [*stops, None]:
            calls = 0

            def stop_after(_: Sequence[bytes], stop: int | None = stop) -> None:
                nonlocal calls
                calls += 1
                if stop is not None and calls >= stop:
                    raise AdapterError("stopped")

            adapter = CountingAdapter(batch=batch, concurrency=concurrency, fails=stop_after)
            before = _bodies(store, adapter, images)
            try:
                counts = query_adapter(adapter, images, store)
            except AdapterError:
                continue
            finally:
                received += [image for image in adapter.received if image in before.values()]
        assert counts.known + counts.answered == counts.images == len(set(texts))
        assert _bodies(store, adapter, images) == expected
    assert received == []
