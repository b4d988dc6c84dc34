"""A process killed at any moment and run again gives the same labels, and resends only what was in flight."""

from collections import Counter
from pathlib import Path

import pytest
from counting import CountingAdapter, write_images
from kill_many import kill_many, killed_at_random

from pipeline.querying.client import query_adapter
from pipeline.querying.requests import key_maker
from pipeline.querying.store import Store

COUNT = 150


@pytest.mark.parametrize(("batch", "concurrency"), [(1, 1), (4, 3)])
def test_killed_at_random_moments(tmp_path: Path, batch: int, concurrency: int) -> None:
    slow = 'log=folder / "log", fails=lambda _: time.sleep(0.004)'
    made = f"CountingAdapter(batch={batch}, concurrency={concurrency}, {slow})"
    killed_at_random(tmp_path, made, images=COUNT, kills=6, longest=0.12, seed=batch)
    images = write_images(tmp_path / "images", [str(n) for n in range(COUNT)])
    adapter = CountingAdapter(log=tmp_path / "log")
    key = key_maker(adapter)
    with Store(tmp_path / "responses.sqlite") as store:
        counts = query_adapter(adapter, images, store)
        bodies = {k: answer.body for k, answer in store.answers([key(image.sha256) for image in images])}
    assert counts.known > 0, "killed before anything was answered: nothing was shown"
    assert counts.failed == 0
    with Store(tmp_path / "uninterrupted.sqlite") as store:
        query_adapter(CountingAdapter(), images, store)
        assert bodies == {k: answer.body for k, answer in store.answers([key(image.sha256) for image in images])}
    received = Counter((tmp_path / "log").read_text().split())
    assert len(received) == COUNT
    again = sum(times - 1 for times in received.values())
    assert again <= counts.unresolved <= 6 * batch * concurrency


@pytest.mark.parametrize(("batch", "concurrency"), [(1, 8), (4, 3)])
def test_a_remote_service_bills_nothing_twice_that_is_not_reported(
    tmp_path: Path, batch: int, concurrency: int
) -> None:
    seen = kill_many(
        tmp_path, images=80, kills=3, batch=batch, concurrency=concurrency, rate=200.0, longest=0.4, seed=batch
    )
    assert seen.same_answers
    assert len(seen.billed) == 80
    for image, times in seen.billed.items():
        assert times - 1 <= seen.reported[image]
    assert seen.counts.unresolved <= 3 * batch * (concurrency + 20)
