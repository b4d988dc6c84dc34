"""Failures of a service: every image is answered or has a reason, and repeated charges are reported."""

import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle

import pandas as pd
import pytest
from counting_adapter import CountingAdapter, write_images
from loopback_service import KEY, LoopbackAdapter, LoopbackService, score_of

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
# Replies without labels, which may have been charged and are requested again.
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
def test_every_image_is_answered_or_reported_despite_faults(tmp_path, store, concurrency):
    images = write_images(tmp_path / "images", [str(n) for n in range(150)])
    faults: dict[bytes, str] = {}
    kinds = cycle(KINDS)

    def fault(number, contents):
        kind = next(kinds) if number % 5 == 0 and contents[0] not in faults else None
        if kind in UNREADABLE or kind == "redirect":
            faults[contents[0]] = kind
        return kind

    with LoopbackService(fault) as service:
        adapter = LoopbackAdapter(service.url, concurrency=concurrency)
        counts = query_adapter(adapter, images, store, policy=QUICK)
        assert counts.answered + counts.failed == counts.images == 150
        found = outcomes_of(adapter, images, store)
        assert set(faults.values()) == {*UNREADABLE, "redirect"}
        redirected = [image.sha256 for image in images if faults.get(image.path.read_bytes()) == "redirect"]
        for status, reason in (found[sha256] for sha256 in redirected):
            assert status == "failed"
            assert "redirected" in str(reason)
        assert sum(status == "ok" for status, _ in found.values()) == 150 - len(redirected)
        assert_reported(service, store, adapter)
        assert not service.received["a redirect was followed"]

        # The next query sends only images without an answer.
        service.fault = lambda number, contents: None
        before = service.billed.copy()
        counts = query_adapter(adapter, images, store, policy=QUICK)
        assert (counts.answered, counts.failed) == (len(redirected), 0)
        assert (service.billed - before).total() == len(redirected)
        assert_reported(service, store, adapter)


def assert_reported(service: LoopbackService, store: Store, adapter: LoopbackAdapter) -> None:
    """Assert that charges beyond one per image are reported as possibly billed."""
    reported = Counter(store.possibly_billed(classifier=store.number_of(adapter)))
    for image, times in service.billed.items():
        assert times - 1 <= reported[image]


@pytest.mark.parametrize("kind", UNREADABLE)
def test_unreadable_answer_is_reported_and_not_paid_for_again(tmp_path, store, kind):
    images = write_images(tmp_path / "images", ["good", "bad"])
    with LoopbackService(lambda _, contents: kind if b"bad" in contents else None) as service:
        adapter = LoopbackAdapter(service.url, concurrency=1)
        counts = query_adapter(adapter, images, store, policy=QUICK)
        assert (counts.answered, counts.unreadable, counts.failed) == (1, 1, 0)
        assert service.received[images[1].sha256] == RetryPolicy().unreadable
        status, reason = outcomes_of(adapter, images, store)[images[1].sha256]
        assert status == "failed"
        assert UNREADABLE[kind] in str(reason)
        assert_reported(service, store, adapter)
        assert query_adapter(adapter, images, store, policy=QUICK).calls == 0


def test_malformed_batch_reply_loses_no_image(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(16)])
    with LoopbackService(lambda number, _: "malformed" if number == 1 else None) as service:
        adapter = LoopbackAdapter(service.url, batch=16)
        assert query_adapter(adapter, images, store, policy=QUICK).answered == 16
        assert all(status == "ok" for status, _ in outcomes_of(adapter, images, store).values())
        assert_reported(service, store, adapter)


@pytest.mark.parametrize("status", [204, 206])
def test_incomplete_success_is_retried(tmp_path, store, status):
    class Partial(CountingAdapter):
        def send(self, contents: Sequence[bytes]) -> list[RawAnswer]:
            whole = super().send(contents)
            return [replace(answer, status=status) for answer in whole] if self.calls == 1 else whole

    images = write_images(tmp_path / "images", ["a"])
    adapter = Partial(remote=True)
    counts = query_adapter(adapter, images, store, policy=QUICK)
    assert (counts.answered, counts.calls) == (1, 2)


def test_unreadable_reply_is_stored(tmp_path, store):
    images = write_images(tmp_path / "images", ["a"])
    with LoopbackService(lambda number, _: "html") as service:
        adapter = LoopbackAdapter(service.url)
        query_adapter(adapter, images, store, policy=QUICK)
    key = key_maker(adapter)
    [(_, answer)] = store.answers([key(images[0].sha256)])
    assert answer.body == b"<html>Our site moved</html>"
    assert answer.status == 200
    assert "date" in answer.headers


def test_partial_batch_resends_only_failed_images(tmp_path, store):
    images = write_images(tmp_path / "images", list("abcd"))
    with LoopbackService(lambda number, _: "partial" if number == 1 else None) as service:
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


def test_refused_image_fails_alone(tmp_path, store):
    images = write_images(tmp_path / "images", ["a", "bad", "c", "d"])
    with LoopbackService(lambda _, contents: "never" if b"bad" in contents else None) as service:
        counts = query_adapter(LoopbackAdapter(service.url, batch=4), images, store, policy=QUICK)
        assert (counts.answered, counts.failed) == (3, 1)
        assert service.received[images[1].sha256] == 2


def test_attempts_are_limited(tmp_path, store):
    images = write_images(tmp_path / "images", ["good", "bad"])
    with LoopbackService(lambda _, contents: "500" if b"bad" in contents else None) as service:
        policy = CallPolicy(retry=RetryPolicy(attempts=4, first=0.001))
        adapter = LoopbackAdapter(service.url)
        counts = query_adapter(adapter, images, store, policy=policy)
        assert (counts.answered, counts.failed) == (1, 1)
        assert service.received[images[1].sha256] == 4
        assert "HTTP 500" in str(outcomes_of(adapter, images, store)[images[1].sha256][1])


def test_service_that_is_down_does_not_stop_the_others(tmp_path, store):
    images = tuple(write_images(tmp_path / "images", [str(n) for n in range(60)]))
    with LoopbackService(lambda *_: "503") as down, LoopbackService() as fine:
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


def test_service_that_recovers_answers_all_images(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(60)])
    with LoopbackService(lambda number, _: "503" if 10 < number <= 21 else None) as service:
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=2), images, store, policy=QUICK)
        assert (counts.answered, counts.stopped) == (60, None)


def test_wrong_key_stops_only_its_classifier(tmp_path, store, monkeypatch):
    monkeypatch.setenv(KEY, "planted-secret-123")
    images = tuple(write_images(tmp_path / "images", [str(n) for n in range(40)]))
    with LoopbackService(lambda *_: "unauthorised") as locked, LoopbackService() as fine:
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


def test_retries_count_against_max_calls(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with LoopbackService(lambda number, _: "500" if number % 2 else None) as service:
        counts = query_adapter(
            LoopbackAdapter(service.url, concurrency=1), images, store, policy=CallPolicy(budget=Budget(10))
        )
        assert len(service.times) == counts.calls == 10
        assert "--max-calls" in str(counts.stopped)
        assert counts.answered + counts.failed + counts.not_sent == 10


def test_lost_answers_count_against_max_cost(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with LoopbackService(lambda number, _: "drop" if number % 2 else None) as service:
        policy = CallPolicy(retry=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.0))
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=1), images, store, policy=policy)
        assert len(service.times) == 10
        assert "--max-cost" in str(counts.stopped)
        assert counts.answered + counts.failed + counts.not_sent == 10


def test_waiting_threads_reserve_no_budget(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(12)])
    with LoopbackService(lambda number, _: "500" if number % 3 == 0 else None) as service:
        policy = CallPolicy(retry=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.2), rate=100.0, concurrency=16)
        counts = query_adapter(LoopbackAdapter(service.url), images, store, policy=policy)
        assert (counts.answered, counts.stopped) == (12, None)


def test_unsent_requests_are_not_possibly_billed(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(20)])
    stopped = threading.Event()

    def stop(number, _):
        if number == 2:
            stopped.set()

    with LoopbackService(stop) as service:
        adapter = LoopbackAdapter(service.url, rate=20.0)
        counts = query_adapter(adapter, images, store, policy=QUICK, stopped=stopped)
        (intents,) = store._connection.execute("SELECT count(*) FROM intents").fetchone()
        assert intents == counts.calls == len(service.times) <= 4
        assert store.possibly_billed(classifier=store.number_of(adapter)) == []


def test_failed_requests_do_not_use_the_budget(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with LoopbackService(lambda number, _: "500" if number % 2 else None) as service:
        policy = CallPolicy(retry=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.0))
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=4), images, store, policy=policy)
        assert (counts.answered, counts.stopped) == (10, None)


@pytest.mark.parametrize("fault", ["html", "missing", "nan"])
def test_service_without_readable_answers_is_given_up(tmp_path, store, fault):
    images = write_images(tmp_path / "images", [str(n) for n in range(60)])
    policy = CallPolicy(retry=RetryPolicy(first=0.01), breaker=BreakerPolicy(never_in_a_row=20))
    with LoopbackService(lambda number, _: fault) as service:
        counts = query_adapter(LoopbackAdapter(service.url, concurrency=1), images, store, policy=policy)
        assert len(service.times) == 20
        assert counts.answered == 0
        assert "20 requests in a row failed, the last with: an answer without labels" in str(counts.stopped)
        assert counts.not_sent + counts.failed + counts.unreadable == 60


def test_throttling_is_not_a_failure(tmp_path, store):
    images = write_images(tmp_path / "images", [str(n) for n in range(80)])
    with LoopbackService(lambda number, _: "429" if number in range(20, 26) else None) as service:
        counts = query_adapter(LoopbackAdapter(service.url, rate=300), images, store, policy=QUICK)
        assert counts == RequestCounts(images=80, answered=80)
        assert counts.throttled == 6
        assert max(service.billed.values()) == 1
