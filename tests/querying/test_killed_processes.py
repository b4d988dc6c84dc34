"""A query that is killed and started again gives the same labels, and resends only requests that were in flight."""

from collections import Counter

import pytest
from counting_adapter import CountingAdapter, write_images
from killed_processes import kill_many, query_and_kill

from pipeline.querying.client import query_adapter
from pipeline.querying.requests import key_maker
from pipeline.querying.store import Store

COUNT = 150


@pytest.mark.parametrize(("batch", "concurrency"), [(1, 1), (4, 3)])
def test_killed_query_resends_only_unresolved_requests(tmp_path, batch, concurrency):
    slow = 'log=folder / "log", on_send=lambda _: time.sleep(0.004)'
    code = f"CountingAdapter(batch={batch}, concurrency={concurrency}, {slow})"
    query_and_kill(tmp_path, code, images=COUNT, kills=6, longest=0.12, seed=batch)
    images = write_images(tmp_path / "images", [str(n) for n in range(COUNT)])
    adapter = CountingAdapter(log=tmp_path / "log")
    key = key_maker(adapter)
    with Store(tmp_path / "responses.sqlite") as store:
        counts = query_adapter(adapter, images, store)
        bodies = {k: answer.body for k, answer in store.answers([key(image.sha256) for image in images])}
    assert counts.known > 0, "the process was killed before any answer, so the test shows nothing"
    assert counts.failed == 0
    with Store(tmp_path / "uninterrupted.sqlite") as store:
        query_adapter(CountingAdapter(), images, store)
        assert bodies == {k: answer.body for k, answer in store.answers([key(image.sha256) for image in images])}
    requests = Counter((tmp_path / "log").read_text().split())
    assert len(requests) == COUNT
    resent = sum(times - 1 for times in requests.values())
    assert resent <= counts.unresolved <= 6 * batch * concurrency


@pytest.mark.parametrize(("batch", "concurrency"), [(1, 8), (4, 3)])
def test_repeated_charges_after_kills_are_reported(tmp_path, batch, concurrency):
    outcome = kill_many(
        tmp_path, images=80, kills=3, batch=batch, concurrency=concurrency, rate=200.0, longest=0.4, seed=batch
    )
    assert outcome.same_answers
    assert len(outcome.billed) == 80
    for image, times in outcome.billed.items():
        assert times - 1 <= outcome.reported[image]
    assert outcome.counts.unresolved <= 3 * batch * (concurrency + 20)
