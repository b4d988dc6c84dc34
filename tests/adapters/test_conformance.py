"""Every registered adapter keeps the contract; one that is not set up here fails by name."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from drawn_faces import drawn_face, png
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import models.weights
from adapters import registry
from adapters.base import Adapter, AnswerError, RawAnswer
from models.judge import Judge
from pipeline.records import COUNTERFACTUALS, to_table, write_table

IMAGES = [png(drawn_face()), png(drawn_face(width=160, height=200, shift=6)), png(drawn_face()[:60, :60])]

FUNCTION = "def face(image):\n    return {'bright': 0.25, 'size': min(1.0, len(image) / 1e6)}\n"


def _opencv(_: Path) -> Adapter:
    return registry.create("opencv")


def _face_attributes(_: Path) -> Adapter:
    return registry.create("face-attributes")


def _planted(folder: Path) -> Adapter:
    rows = [
        {"attribute": "gender", "arm": "edit", "photo": f"{n}.png", "value": n - 1.0, "status": "ok", "sha256": digest}
        for n, digest in enumerate(sha256(image).hexdigest() for image in IMAGES)
    ]
    write_table(to_table(rows, COUNTERFACTUALS), folder / "counterfactuals.parquet")
    return registry.create("planted", {"run": str(folder)})


def _python(folder: Path) -> Adapter:
    (folder / "conforming_function.py").write_text(FUNCTION)
    return registry.create("python:conforming_function:face", {"path": str(folder)})


SETUPS: dict[str, Callable[[Path], Adapter]] = {
    "face-attributes": _face_attributes,
    "opencv": _opencv,
    "planted": _planted,
    "python": _python,
}


@pytest.fixture(params=registry.BUILT_IN)
def adapter(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Adapter:
    def untrained(name: str) -> Judge:
        torch.manual_seed(0)
        return Judge(widths=(8, 8, 16, 16)).eval()

    monkeypatch.setattr(models.weights, "load_judge", untrained)
    return SETUPS[request.param](tmp_path)


def test_answers_every_image_with_labels_it_declared(adapter: Adapter) -> None:
    answers = _in_batches(adapter)
    assert len(answers) == len(IMAGES)
    parsed = [adapter.parse(answer) for answer in answers]
    assert any(parsed)
    for labels in parsed:
        names = [label.name for label in labels]
        assert len(names) == len(set(names))
        assert all(0 <= label.score <= 1 for label in labels)
        assert all(label.score >= (adapter.capabilities.cut_off or 0) - 1e-6 for label in labels)
        if adapter.capabilities.labels is not None:
            assert set(names) <= set(adapter.capabilities.labels)


def test_same_bytes_same_answer_whatever_the_batch(adapter: Adapter) -> None:
    together = [answer.body for answer in _in_batches(adapter)]
    alone = [adapter.send([image])[0].body for image in IMAGES]
    assert together == alone


def test_declares_what_the_key_and_the_statistics_need(adapter: Adapter) -> None:
    assert adapter.name
    assert adapter.model
    json.dumps(dict(adapter.parameters), allow_nan=False)
    declared = adapter.capabilities
    assert 0 <= declared.presence <= 1
    assert declared.batch >= 1
    assert declared.concurrency >= 1
    assert declared.cut_off is None or 0 <= declared.cut_off <= declared.presence


def test_bytes_that_are_no_image_fail_that_call_alone(adapter: Adapter) -> None:
    if adapter.name.startswith("python:"):
        pytest.skip("what a function of the user's takes is up to it")
    for junk in (b"", b"not an image", IMAGES[0][:200]):
        with pytest.raises(Exception, match=r"image") as caught:
            adapter.send([junk])
        assert not isinstance(caught.value, registry.AdapterError)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
@given(
    body=st.one_of(
        st.binary(max_size=200),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
            lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["labels", "a"]), inner),
        ).map(lambda value: json.dumps(value).encode()),
        st.lists(st.lists(st.text() | st.floats() | st.integers() | st.booleans(), max_size=3), max_size=3).map(
            lambda rows: json.dumps({"labels": rows}).encode()
        ),
        st.sampled_from(
            [
                b"[" * 100_000,
                b'{"labels": [["a", NaN]]}',
                b'{"labels": [["a", 1' + b"0" * 400 + b"]]}",
                b'{"labels": [["a", 1' + b"0" * 5000 + b"]]}",
                b'{"labels": [["\\ud800", 0.5]]}',
                b'{"labels": [["a", "0.5"]]}',
                b'{"labels": [["a", 0.5], ["a", 0.6]]}',
                b"<html>200 OK</html>",
            ]
        ),
    )
)
def test_parsing_is_pure_and_refuses_hostile_bytes_by_name(adapter: Adapter, body: bytes) -> None:
    def outcome() -> object:
        try:
            labels = adapter.parse(RawAnswer(body=body))
        except AnswerError as error:
            return str(error)
        for label in labels:
            assert label.name.encode()
            assert 0 <= label.score <= 1
        return labels

    assert outcome() == outcome()


def _in_batches(adapter: Adapter) -> list[RawAnswer]:
    size = adapter.capabilities.batch
    return [answer for start in range(0, len(IMAGES), size) for answer in adapter.send(IMAGES[start : start + size])]
