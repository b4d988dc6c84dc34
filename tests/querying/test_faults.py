"""Failures of a service: each image is answered or fails by name, and none is paid for twice."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle
from pathlib import Path

import pandas as pd
import pytest
from counting import CountingAdapter, write_images
from loopback import KEY, Loopback, LoopbackAdapter, score_of

from adapters.base import AdapterError, RawAnswer
from pipeline.querying.client import query_adapter
from pipeline.querying.counts import RequestCounts
from pipeline.querying.labels import derive_blocks
from pipeline.querying.limits import BreakerPolicy, Budget, CallPolicy, RetryPolicy
from pipeline.querying.requests import ImageRef, key_maker
from pipeline.querying.runner import AdapterCalls, run_adapters
from pipeline.querying.store import Store
from pipeline.run.tables import COUNTERFACTUALS, to_table

KINDS = (
    *("429", "500", "503", "drop", "slow", "malformed", "html", "missing", "nan", "range", "redirect", "refusal"),
    "throttle",
)
# Answers that hold no labels: they may have been charged for, and another try may give good ones.
UNREADABLE = {
    "malformed": "not an answer",
    "html": "not an answer",
    "missing": "not an answer",
    "nan": "must be in 0-1",
    "range": "must be in 0-1",
    "refusal": "refused: I cannot help with faces",
}
QUICK = CallPolicy(retry=RetryPolicy(first=0.01), breaker=BreakerPolicy(patience=1.0, pause=0.05))


def outcomes_of(adapter: LoopbackAdapter, images: list[ImageRef], store: Store) -> dict[str, tuple[str, str | None]]:
    rows = [
        {"attribute": "gender", "arm": "edit", "photo": image.sha256, "step": 1, "status": "ok", "sha256": image.sha256}
        for image in images
    ]
    frame = to_table(rows, COUNTERFACTUALS).to_pandas()
    answers = pd.concat([block.answers.to_pandas() for block in derive_blocks(frame, [adapter], store)])
    return {row.sha256: (row.status, row.reason) for row in answers.itertuples()}


@pytest.mark.parametrize("concurrency", [1, 8])
def test_every_fifth_request_fails_somehow(tmp_path: Path, store: Store, concurrency: int) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(150)])
    went_wrong: dict[bytes, str] = {}
    kinds = cycle(KINDS)

    def fault(number: int, contents: list[bytes]) -> str | None:
        kind = next(kinds) if number % 5 == 0 and contents[0] not in went_wrong else None
        if kind in UNREADABLE or kind == "redirect":
            went_wrong[contents[0]] = kind
        return kind

    with Loopback(fault) as service:
        adapter = LoopbackAdapter(service.url, concurrency=concurrency)
        counts = query_adapter(adapter, images, store, policy=QUICK)
        assert counts.answered + counts.failed == counts.images == 150
        found = outcomes_of(adapter, images, store)
        texts = {image.path.read_bytes(): image.sha256 for image in images}
        assert set(went_wrong.values()) == {*UNREADABLE, "redirect"}
        redirected = [text for text, kind in went_wrong.items() if kind == "redirect"]
        for text in redirected:
            status, reason = found[texts[text]]
            assert status == "failed"
            assert "redirected" in str(reason)
        assert sum(status == "ok" for status, _ in found.values()) == 150 - len(redirected)
        assert_reported(service, store, adapter)
        assert not service.received["a redirect was followed"]

        # Only what has no answer is sent again.
        service.fault = lambda number, contents: None
        before = service.billed.copy()
        counts = query_adapter(adapter, images, store, policy=QUICK)
        assert (counts.answered, counts.failed) == (len(redirected), 0)
        assert (service.billed - before).total() == len(redirected)
        assert_reported(service, store, adapter)


def assert_reported(service: Loopback, store: Store, adapter: LoopbackAdapter) -> None:
    """Charges beyond one answer per image are reported as possibly billed."""
    reported = Counter(store.possibly_billed(classifier=store.number_of(adapter)))
    for image, times in service.billed.items():
        assert times - 1 <= reported[image]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_an_image_without_a_readable_answer_fails_by_name_and_is_not_paid_for_again(
    tmp_path: Path, store: Store, kind: str
) -> None:
    images = write_images(tmp_path / "images", ["good", "bad"])
    with Loopback(lambda _, contents: kind if b"bad" in contents else None) as service:
        adapter = LoopbackAdapter(service.url, concurrency=1)
        counts = query_adapter(adapter, images, store, policy=QUICK)
        assert (counts.answered, counts.unreadable, counts.failed) == (1, 1, 0)
        assert service.received[images[1].sha256] == RetryPolicy().unreadable
        status, reason = outcomes_of(adapter, images, store)[images[1].sha256]
        assert status == "failed"
        assert UNREADABLE[kind] in str(reason)
        assert_reported(service, store, adapter)
        assert query_adapter(adapter, images, store, policy=QUICK).calls == 0


def test_one_bad_reply_to_a_batch_loses_none_of_its_images(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(16)])
    with Loopback(lambda number, _: "malformed" if number == 1 else None) as service:
        adapter = LoopbackAdapter(service.url, batch=16)
        assert query_adapter(adapter, images, store, policy=QUICK).answered == 16
        assert all(status == "ok" for status, _ in outcomes_of(adapter, images, store).values())
        assert_reported(service, store, adapter)


@pytest.mark.parametrize("status", [204, 206])
def test_a_success_without_a_whole_reply_is_no_answer(tmp_path: Path, store: Store, status: int) -> None:
    class Partial(CountingAdapter):
        def send(self, contents: Sequence[bytes]) -> list[RawAnswer]:
            whole = super().send(contents)
            return [replace(answer, status=status) for answer in whole] if self.calls == 1 else whole

    images = write_images(tmp_path / "images", ["a"])
    adapter = Partial(remote=True)
    counts = query_adapter(adapter, images, store, policy=QUICK)
    assert (counts.answered, counts.calls) == (1, 2)


def test_the_raw_bytes_of_what_nobody_can_read_are_kept(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", ["a"])
    with Loopback(lambda number, _: "html") as service:
        adapter = LoopbackAdapter(service.url)
        query_adapter(adapter, images, store, policy=QUICK)
    key = key_maker(adapter)
    [(_, answer)] = store.answers([key(images[0].sha256)])
    assert answer.body == b"<html>Our site moved</html>"
    assert answer.status == 200
    assert "date" in answer.headers


def test_a_partial_batch_asks_only_for_what_failed_and_keeps_the_reply_once(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", list("abcd"))
    with Loopback(lambda number, _: "partial" if number == 1 else None) as service:
        adapter = LoopbackAdapter(service.url, batch=4)
        counts = query_adapter(adapter, images, store, policy=QUICK)
        assert (counts.answered, counts.calls, counts.repeated) == (4, 2, 3)
        assert sorted(service.received.values()) == [1, 2, 2, 2]
        assert set(service.billed.values()) == {1}
    assert all(status == "ok" for status, _ in outcomes_of(adapter, images, store).values())
    key = key_maker(adapter)
    answers = dict(store.answers([key(image.sha256) for image in images]))
    for image in images:
        [bright, _] = adapter.parse(answers[key(image.sha256)])
        assert bright.score == score_of(image.path.read_bytes())
    (replies,) = store._connection.execute("SELECT count(*) FROM replies").fetchone()
    assert replies == 2


def test_an_image_that_the_service_refuses_does_not_take_its_batch_with_it(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", ["a", "bad", "c", "d"])
    with Loopback(lambda _, contents: "never" if b"bad" in contents else None) as service:
        counts = query_adapter(LoopbackAdapter(service.url, batch=4), images, store, policy=QUICK)
        assert (counts.answered, counts.failed) == (3, 1)
        assert service.received[images[1].sha256] == 2


def test_attempts_are_bounded(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", ["good", "bad"])
    with Loopback(lambda _, contents: "500" if b"bad" in contents else None) as service:
        manner = CallPolicy(retry=RetryPolicy(attempts=4, first=0.001))
        adapter = LoopbackAdapter(service.url)
        counts = query_adapter(adapter, images, store, policy=manner)
        assert (counts.answered, counts.failed) == (1, 1)
        assert service.received[images[1].sha256] == 4
        assert "HTTP 500" in str(outcomes_of(adapter, images, store)[images[1].sha256][1])


def test_a_service_that_is_down_is_given_up_by_name_and_the_others_go_on(tmp_path: Path, store: Store) -> None:
    images = tuple(write_images(tmp_path / "images", [str(n) for n in range(60)]))
    with Loopback(lambda *_: "503") as down, Loopback() as fine:
        broken = LoopbackAdapter(down.url, name="broken", concurrency=4)
        works = LoopbackAdapter(fine.url, name="works", concurrency=4)
        local = CountingAdapter()
        outcomes = run_adapters(
            [AdapterCalls(broken, images, QUICK), AdapterCalls(works, images, QUICK), AdapterCalls(local, images)],
            store,
        )
        counts = outcomes["broken"].counts
        assert "broken: it failed" in str(counts.stopped)
        assert "HTTP 503" in str(counts.stopped)
        assert counts.failed + counts.not_sent == 60
        assert counts.not_sent > 30
        assert sum(down.received.values()) < 30
        assert outcomes["works"].counts.answered == outcomes["counting"].counts.answered == 60
        down.fault = lambda number, contents: None
        assert query_adapter(broken, images, store, policy=QUICK).answered == 60, "the next run continues"


def test_a_service_that_comes_back_is_asked_to_the_end(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(60)])
    with Loopback(lambda number, _: "503" if 10 < number <= 21 else None) as service:
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=2), images, store, policy=QUICK)
        assert (counts.answered, counts.stopped) == (60, None)


def test_a_wrong_key_stops_its_classifier_at_once_and_says_what_to_do(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "planted-secret-123")
    images = tuple(write_images(tmp_path / "images", [str(n) for n in range(40)]))
    with Loopback(lambda *_: "unauthorised") as locked, Loopback() as fine:
        outcomes = run_adapters(
            [
                AdapterCalls(LoopbackAdapter(locked.url, name="locked"), images, QUICK),
                AdapterCalls(LoopbackAdapter(fine.url, name="fine"), images, QUICK),
            ],
            store,
        )
        assert f"set {KEY}" in str(outcomes["locked"].problem)
        assert "planted-secret" not in str(outcomes["locked"])
        assert sum(locked.received.values()) <= 8
        assert outcomes["fine"].counts.answered == 40
        with pytest.raises(AdapterError, match=f"set {KEY}"):
            query_adapter(LoopbackAdapter(locked.url, name="locked"), images, store, policy=QUICK)


def test_calls_beyond_the_allowed_ones_are_not_made_even_to_try_again(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with Loopback(lambda number, _: "500" if number % 2 else None) as service:
        counts = query_adapter(
            LoopbackAdapter(service.url, concurrency=1), images, store, policy=CallPolicy(budget=Budget(10))
        )
        assert len(service.times) == counts.calls == 10
        assert "--max-calls" in str(counts.stopped)
        assert counts.answered + counts.failed + counts.not_sent == 10


def test_answers_that_are_lost_may_be_charged_and_count_against_the_allowed_cost(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with Loopback(lambda number, _: "drop" if number % 2 else None) as service:
        manner = CallPolicy(retry=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.0))
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=1), images, store, policy=manner)
        assert len(service.times) == 10
        assert "--max-cost" in str(counts.stopped)
        assert counts.answered + counts.failed + counts.not_sent == 10


def test_threads_that_wait_for_their_turn_hold_no_budget(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(12)])
    with Loopback(lambda number, _: "500" if number % 3 == 0 else None) as service:
        policy = CallPolicy(retry=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.2), rate=100.0, concurrency=16)
        counts = query_adapter(LoopbackAdapter(service.url), images, store, policy=policy)
        assert (counts.answered, counts.stopped) == (12, None)


def test_only_what_was_sent_is_possibly_billed(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(20)])
    stopped = threading.Event()

    def stop(number: int, _: list[bytes]) -> None:
        if number == 2:
            stopped.set()

    with Loopback(stop) as service:
        adapter = LoopbackAdapter(service.url, rate=20.0)
        counts = query_adapter(adapter, images, store, policy=QUICK, stopped=stopped)
        (intents,) = store._connection.execute("SELECT count(*) FROM intents").fetchone()
        assert intents == counts.calls == len(service.times) <= 4
        assert store.possibly_billed(classifier=store.number_of(adapter)) == []


def test_what_is_refused_is_not_charged_and_an_exact_budget_is_enough(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with Loopback(lambda number, _: "500" if number % 2 else None) as service:
        manner = CallPolicy(retry=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.0))
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=4), images, store, policy=manner)
        assert (counts.answered, counts.stopped) == (10, None)


@pytest.mark.parametrize("fault", ["html", "missing", "nan"])
def test_a_service_whose_answers_hold_no_labels_is_not_paid_for_ever(tmp_path: Path, store: Store, fault: str) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(60)])
    manner = CallPolicy(retry=RetryPolicy(first=0.01), breaker=BreakerPolicy(never_in_a_row=20))
    with Loopback(lambda number, _: fault) as service:
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=1), images, store, policy=manner)
        assert len(service.times) == 20
        assert counts.answered == 0
        assert "20 requests in a row failed, the last with: an answer without labels" in str(counts.stopped)
        assert counts.not_sent + counts.failed + counts.unreadable == 60


def test_throttling_slows_down_and_is_no_failure(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(80)])
    with Loopback(lambda number, _: "429" if number in range(20, 26) else None) as service:
        counts = query_adapter(LoopbackAdapter(service.url, rate=300), images, store, policy=QUICK)
        assert counts == RequestCounts(images=80, answered=80)
        assert counts.throttled == 6
        assert max(service.billed.values()) == 1
