import json
from pathlib import Path

import pytest
from counting_adapter import write_images
from loopback_service import LoopbackAdapter, LoopbackService

from adapters.answers import from_answer
from adapters.base import AdapterError, RawAnswer
from pipeline.querying.client import query_adapter
from pipeline.querying.drift import drift_of, versions_in
from pipeline.querying.limits import CallPolicy
from pipeline.querying.requests import ImageRef
from pipeline.querying.store import Sentinel, Store
from pipeline.run.record import Drift


@pytest.fixture
def panel(tmp_path: Path) -> tuple[ImageRef, ...]:
    return tuple(write_images(tmp_path / "panel", ["sentinel 1", "sentinel 2"]))


def _sent(store: Store, adapter: LoopbackAdapter) -> list[Sentinel]:
    number = store.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    return store.sentinels(classifier=number)


def test_sentinels_are_sent_at_start_middle_and_end(tmp_path, store, panel):
    images = write_images(tmp_path / "images", [str(n) for n in range(20)])
    with LoopbackService() as service:
        adapter = LoopbackAdapter(service.url, concurrency=1)
        policy = CallPolicy(sentinels=panel)
        counts = query_adapter(adapter, images, store, policy=policy)
        assert (counts.images, counts.answered, counts.calls) == (20, 20, 26)
        sent = _sent(store, adapter)
        assert [(sentinel.moment, sentinel.image_sha256) for sentinel in sent] == [
            (moment, image.sha256) for moment in ("start", "middle", "end") for image in panel
        ]
        drift = drift_of(sent, parse=adapter.parse)
        assert drift == Drift(sentinels=2, answers=6, versions=["model_version=v1"])
        assert query_adapter(adapter, images, store, policy=policy).calls == 0, "no new image, no sentinels"
        few = write_images(tmp_path / "few", [f"few {n}" for n in range(5)])
        assert query_adapter(adapter, few, store, policy=policy).calls == 5, "too few images for a round"
        more = write_images(tmp_path / "more", [f"more {n}" for n in range(6)])
        query_adapter(adapter, more, store, policy=policy)
        assert [sentinel.round for sentinel in _sent(store, adapter)] == [1] * 6 + [2] * 6


def test_version_change_is_detected(tmp_path, store, panel):
    images = write_images(tmp_path / "images", [str(n) for n in range(10)])
    with LoopbackService() as service:

        def update(number, contents):
            service.version = "v1" if number < 10 else "v2"

        service.fault = update
        adapter = LoopbackAdapter(service.url, concurrency=1)
        query_adapter(adapter, images, store, policy=CallPolicy(sentinels=panel))
        drift = drift_of(_sent(store, adapter), parse=adapter.parse)
    assert drift.changed == [f"{image.sha256}: version at the end of round 1" for image in panel]
    assert drift.versions == ["model_version=v1", "model_version=v2"]


def test_interrupted_round_is_continued(tmp_path, store, panel):
    images = write_images(tmp_path / "images", [str(n) for n in range(12)])
    with LoopbackService(lambda number, _: "unauthorised" if number == 5 else None) as service:
        adapter = LoopbackAdapter(service.url, concurrency=1)
        with pytest.raises(AdapterError):
            query_adapter(adapter, images, store, policy=CallPolicy(sentinels=panel))
        query_adapter(adapter, images, store, policy=CallPolicy(sentinels=panel))
        moments = [sentinel.moment for sentinel in _sent(store, adapter)]
        assert moments == ["start"] * 2 + ["middle"] * 2 + ["end"] * 2


def test_score_change_is_measured():
    def sentinel(moment, score):
        body = json.dumps({"labels": [["a", score]]}).encode()
        return Sentinel(1, 1, moment, "image", RawAnswer(body))

    drift = drift_of([sentinel("start", 0.5), sentinel("middle", 0.5), sentinel("end", 0.7)], parse=from_answer)
    assert drift.changed == ["image: answer at the end of round 1"]
    assert drift.largest_score_change == pytest.approx(0.2)


@pytest.mark.parametrize("body", [b"", b"<html>", b'{"labels": [["a", NaN]]}'])
def test_unreadable_answer_is_not_drift(body):
    answers = {"start": RawAnswer(b'{"labels": [["a", 0.5]]}'), "end": RawAnswer(body)}
    sentinels = [Sentinel(1, 1, moment, "image", answer) for moment, answer in answers.items()]
    assert drift_of(sentinels, parse=from_answer) == Drift(sentinels=1, answers=1)


@pytest.mark.parametrize(
    ("body", "versions"),
    [
        (b'{"LabelModelVersion": "3.0", "Labels": [{"Name": "x"}]}', ["LabelModelVersion=3.0"]),
        (b'{"outputs": [{"model": {"model_version": {"id": "aa7f"}}}]}', ["model_version=aa7f"]),
        (b'{"model": "gpt-x-2026", "system_fingerprint": "fp_1"}', ["model=gpt-x-2026", "system_fingerprint=fp_1"]),
        (b'{"modelVersion": "2023-10-01", "tagsResult": {}}', ["modelVersion=2023-10-01"]),
        (b"<html>", []),
        (b"[" * 100_000, []),
    ],
)
def test_versions_are_read_from_answers_of_vendors(body, versions):
    assert list(versions_in(RawAnswer(body))) == versions
