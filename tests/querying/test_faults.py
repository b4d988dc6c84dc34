"""A service that fails in every way it can: each image ends answered or failed by name, and none is paid for twice."""

from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pytest
from asking import CountingAdapter, write_images
from loopback import KEY, Loopback, LoopbackAdapter, score_of

from adapters.base import AdapterError
from pipeline.querying.breaker import BreakerPolicy
from pipeline.querying.budget import Budget
from pipeline.querying.engine import AskCounts, ImageRef, ask
from pipeline.querying.keys import key_maker
from pipeline.querying.labels import derive_blocks
from pipeline.querying.manner import CallPolicy
from pipeline.querying.retrying import RetryPolicy
from pipeline.querying.store import Store
from pipeline.querying.together import Asked, ask_all
from pipeline.run.tables import COUNTERFACTUALS, to_table

KINDS = (
    *("429", "500", "503", "drop", "slow", "malformed", "html", "missing", "nan", "range", "redirect", "refusal"),
    "throttle",
)
# What was received is an answer, however odd: it fails when labels are derived from it.
RECEIVED = {"malformed": "not an answer", "html": "not an answer", "missing": "not an answer", "nan": "must be in 0-1",
            "range": "must be in 0-1", "refusal": "refused: I cannot help with faces"}  # fmt: skip
QUICK = CallPolicy(patience=RetryPolicy(first=0.01), tolerance=BreakerPolicy(pauses=(0.05, 0.05)))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "responses.sqlite") as opened:
        yield opened


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

    def fault(number: int, contents: list[bytes]) -> str | None:
        kind = KINDS[number // 5 % len(KINDS)] if number % 5 == 0 else None
        if kind in RECEIVED or kind == "redirect":
            went_wrong[contents[0]] = kind
        return kind

    with Loopback(fault) as service:
        adapter = LoopbackAdapter(service.url, concurrency=concurrency)
        counts = ask(adapter, images, store, manner=QUICK)
        assert counts.answered + counts.failed == counts.images == 150
        found = outcomes_of(adapter, images, store)
        texts = {image.path.read_bytes(): image.sha256 for image in images}
        assert set(went_wrong.values()) == {*RECEIVED, "redirect"}
        for text, kind in went_wrong.items():
            status, reason = found[texts[text]]
            assert status == "failed"
            assert RECEIVED.get(kind, "redirected") in str(reason)
        assert sum(status == "ok" for status, _ in found.values()) == 150 - len(went_wrong)
        assert max(service.billed.values()) == 1, "paid for twice after an answer was received"
        assert not service.asked["a redirect was followed"]

        # Only what has no answer is asked again; an answer that nobody can read is one.
        service.fault = lambda number, contents: None
        before = service.billed.copy()
        counts = ask(adapter, images, store, manner=QUICK)
        redirected = sum(kind == "redirect" for kind in went_wrong.values())
        assert (counts.answered, counts.failed) == (redirected, 0)
        assert (service.billed - before).total() == redirected
        assert max(service.billed.values()) == 1


def test_the_raw_bytes_of_what_nobody_can_read_are_kept(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", ["a"])
    with Loopback(lambda number, _: "html") as service:
        adapter = LoopbackAdapter(service.url)
        ask(adapter, images, store, manner=QUICK)
    key = key_maker(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    [(_, answer)] = store.answers([key(images[0].sha256)])
    assert answer.body == b"<html>Our site moved</html>"
    assert answer.status == 200
    assert "date" in answer.headers


def test_a_partial_batch_asks_only_for_what_failed_and_keeps_the_reply_once(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", list("abcd"))
    with Loopback(lambda number, _: "partial" if number == 1 else None) as service:
        adapter = LoopbackAdapter(service.url, batch=4)
        counts = ask(adapter, images, store, manner=QUICK)
        assert (counts.answered, counts.calls, counts.repeated) == (4, 2, 3)
        assert sorted(service.asked.values()) == [1, 2, 2, 2]
        assert set(service.billed.values()) == {1}
    assert all(status == "ok" for status, _ in outcomes_of(adapter, images, store).values())
    key = key_maker(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    answers = dict(store.answers([key(image.sha256) for image in images]))
    for image in images:
        [bright, _] = adapter.parse(answers[key(image.sha256)])
        assert bright.score == score_of(image.path.read_bytes())
    (replies,) = store._connection.execute("SELECT count(*) FROM replies").fetchone()
    assert replies == 2


def test_an_image_that_the_service_refuses_does_not_take_its_batch_with_it(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", ["a", "bad", "c", "d"])
    with Loopback(lambda _, contents: "never" if b"bad" in contents else None) as service:
        counts = ask(LoopbackAdapter(service.url, batch=4), images, store, manner=QUICK)
        assert (counts.answered, counts.failed) == (3, 1)
        assert service.asked[images[1].sha256] == 2


def test_attempts_are_bounded(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", ["good", "bad"])
    with Loopback(lambda _, contents: "500" if b"bad" in contents else None) as service:
        manner = CallPolicy(patience=RetryPolicy(attempts=4, first=0.001))
        adapter = LoopbackAdapter(service.url)
        counts = ask(adapter, images, store, manner=manner)
        assert (counts.answered, counts.failed) == (1, 1)
        assert service.asked[images[1].sha256] == 4
        assert "HTTP 500" in str(outcomes_of(adapter, images, store)[images[1].sha256][1])


def test_a_service_that_is_down_is_given_up_by_name_and_the_others_go_on(tmp_path: Path, store: Store) -> None:
    images = tuple(write_images(tmp_path / "images", [str(n) for n in range(60)]))
    with Loopback(lambda *_: "503") as down, Loopback() as fine:
        broken = LoopbackAdapter(down.url, name="broken", concurrency=4)
        works = LoopbackAdapter(fine.url, name="works", concurrency=4)
        local = CountingAdapter()
        outcomes = ask_all([Asked(broken, images, QUICK), Asked(works, images, QUICK), Asked(local, images)], store)
        counts = outcomes["broken"].counts
        assert "broken: it failed" in str(counts.stopped)
        assert "HTTP 503" in str(counts.stopped)
        assert counts.failed + counts.not_asked == 60
        assert counts.not_asked > 30
        assert sum(down.asked.values()) < 30
        assert outcomes["works"].counts.answered == outcomes["counting"].counts.answered == 60
        down.fault = lambda number, contents: None
        assert ask(broken, images, store, manner=QUICK).answered == 60, "the next run continues"


def test_a_service_that_comes_back_is_asked_to_the_end(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(60)])
    with Loopback(lambda number, _: "503" if 10 < number <= 21 else None) as service:
        counts = ask(LoopbackAdapter(service.url, concurrency=2), images, store, manner=QUICK)
        assert (counts.answered, counts.stopped) == (60, None)


def test_a_wrong_key_stops_its_classifier_at_once_with_the_cure(
    tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(KEY, "planted-secret-123")
    images = tuple(write_images(tmp_path / "images", [str(n) for n in range(40)]))
    with Loopback(lambda *_: "unauthorised") as locked, Loopback() as fine:
        outcomes = ask_all(
            [
                Asked(LoopbackAdapter(locked.url, name="locked"), images, QUICK),
                Asked(LoopbackAdapter(fine.url, name="fine"), images, QUICK),
            ],
            store,
        )
        assert f"set {KEY}" in str(outcomes["locked"].problem)
        assert "planted-secret" not in str(outcomes["locked"])
        assert sum(locked.asked.values()) <= 8
        assert outcomes["fine"].counts.answered == 40
        with pytest.raises(AdapterError, match=f"set {KEY}"):
            ask(LoopbackAdapter(locked.url, name="locked"), images, store, manner=QUICK)


def test_calls_beyond_the_allowed_ones_are_not_made_even_to_try_again(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with Loopback(lambda number, _: "500" if number % 2 else None) as service:
        counts = ask(LoopbackAdapter(service.url, concurrency=1), images, store, manner=CallPolicy(budget=Budget(10)))
        assert len(service.times) == counts.calls == 10
        assert "--max-calls" in str(counts.stopped)
        assert counts.answered + counts.failed + counts.not_asked == 10


def test_answers_that_are_lost_may_be_charged_and_count_against_the_allowed_cost(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with Loopback(lambda number, _: "drop" if number % 2 else None) as service:
        manner = CallPolicy(patience=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.0))
        counts = ask(LoopbackAdapter(service.url, concurrency=1), images, store, manner=manner)
        assert len(service.times) == 10
        assert "--max-cost" in str(counts.stopped)
        assert counts.answered + counts.failed + counts.not_asked == 10


def test_what_is_refused_is_not_charged_and_an_exact_budget_is_enough(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with Loopback(lambda number, _: "500" if number % 2 else None) as service:
        manner = CallPolicy(patience=RetryPolicy(first=0.01), usd=0.1, budget=Budget(usd=1.0))
        counts = ask(LoopbackAdapter(service.url, concurrency=4), images, store, manner=manner)
        assert (counts.answered, counts.stopped) == (10, None)


@pytest.mark.parametrize("fault", ["html", "missing", "nan"])
def test_a_service_whose_answers_hold_no_labels_is_not_paid_for_ever(tmp_path: Path, store: Store, fault: str) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(60)])
    manner = CallPolicy(tolerance=BreakerPolicy(never_in_a_row=20))
    with Loopback(lambda number, _: fault) as service:
        counts = ask(LoopbackAdapter(service.url, concurrency=1), images, store, manner=manner)
        assert len(service.times) == counts.answered == 20
        assert "20 requests in a row came to nothing, the last with: an answer without labels" in str(counts.stopped)
        assert counts.not_asked == 40


def test_throttling_slows_down_and_is_no_failure(tmp_path: Path, store: Store) -> None:
    images = write_images(tmp_path / "images", [str(n) for n in range(80)])
    with Loopback(lambda number, _: "429" if number in range(20, 26) else None) as service:
        counts = ask(LoopbackAdapter(service.url, rate=300), images, store, manner=QUICK)
        assert counts == AskCounts(images=80, answered=80)
        assert counts.throttled == 6
        assert max(service.billed.values()) == 1
