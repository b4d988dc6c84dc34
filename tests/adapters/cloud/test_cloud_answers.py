"""Malformed and arbitrary answers, parsed by the adapter of each vendor."""

import contextlib
import json
import math
from collections.abc import Iterator
from functools import lru_cache

import pytest
from fakes.clouds import CLOUDS, environment, parser
from hypothesis import given
from hypothesis import strategies as st

from adapters import registry
from adapters.base import AdapterError, AnswerError, NoAnswer, RawAnswer
from adapters.http_adapter import HttpAdapter
from adapters.http_client import Reply

each = pytest.mark.parametrize("name", CLOUDS)


def _shaped(name: str, items: object) -> bytes:
    """A reply of the service with ``items`` in place of its labels."""
    reply: dict[str, object] = {
        "azure": {"tagsResult": {"values": items}},
        "clarifai": {"status": {"code": 10000}, "outputs": [{"status": {"code": 10000}, "data": {"concepts": items}}]},
        "google": {"responses": [{"labelAnnotations": items}]},
        "imagga": {"result": {"tags": items}},
        "rekognition": {"Labels": items},
    }[name]
    return json.dumps(reply).encode()


_FIELDS = {
    "azure": ("name", "confidence", 1),
    "clarifai": ("name", "value", 1),
    "google": ("description", "score", 1),
    "imagga": ("tag", "confidence", 100),
    "rekognition": ("Name", "Confidence", 100),
}
_MISSING = object()


def _item(name: str, label: object, score: object) -> dict[str, object]:
    label_field, score_field, _ = _FIELDS[name]
    if name == "imagga":
        label = {} if label is _MISSING else {"en": label}
    return {field: value for field, value in ((label_field, label), (score_field, score)) if value is not _MISSING}


@each
@pytest.mark.parametrize("score", ["0.5", None, math.nan, math.inf, -0.1, 100.5, True, [], {}, 10**400, _MISSING])
def test_malformed_score_is_refused(name, score):
    body = _shaped(name, [_item(name, "fine", 0.5), _item(name, "malformed", score)])
    with pytest.raises(AnswerError, match="'malformed'"):
        parser(name)(RawAnswer(body))


@each
@pytest.mark.parametrize("label", ["", " ", None, 3, [], "\ud800", _MISSING])
def test_malformed_label_is_refused(name, label):
    with pytest.raises(AnswerError, match="label"):
        parser(name)(RawAnswer(_shaped(name, [_item(name, label, 0.5)])))


@each
@pytest.mark.parametrize("items", [None, {}, "none", 3, ["nurse"], [None], [[]]])
def test_malformed_list_is_refused(name, items):
    with pytest.raises(AnswerError, match="list of objects"):
        parser(name)(RawAnswer(_shaped(name, items)))


@each
def test_repeated_label_gets_its_highest_score(name):
    maximum = _FIELDS[name][2]
    repeated = [_item(name, "Doctor", share * maximum) for share in (0.25, 0.75, 0.5)]
    labels = parser(name)(RawAnswer(_shaped(name, repeated)))
    assert [(label.name, label.score) for label in labels] == [("Doctor", 0.75)]


@each
def test_empty_list_has_no_labels(name):
    assert parser(name)(RawAnswer(_shaped(name, []))) == []


_KEYS = st.sampled_from(
    [
        *("responses", "labelAnnotations", "faceAnnotations", "description", "score", "error", "boundingPoly"),
        *("Labels", "Name", "Confidence", "FaceDetails", "Gender", "Value", "AgeRange", "Low", "High", "BoundingBox"),
        *("Emotions", "Type", "Smile", "Left", "Top", "Width", "Height", "joyLikelihood", "detectionConfidence", "x"),
        *("outputs", "status", "code", "data", "concepts", "name", "value", "tagsResult", "values", "confidence"),
        *("captionResult", "text", "Female", "SUCCESS", "LIKELY", "vertices"),
    ]
)
_SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | _KEYS
_TREES = st.recursive(
    _SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4), max_leaves=12
)


def _bodies() -> Iterator[st.SearchStrategy[bytes]]:
    yield _TREES.map(lambda tree: json.dumps(tree).encode())
    for name in CLOUDS:
        yield _TREES.map(lambda tree, name=name: _shaped(name, tree))
    yield st.dictionaries(_KEYS, _TREES).map(lambda face: json.dumps({"FaceDetails": [face, face]}).encode())
    yield st.dictionaries(_KEYS, _TREES).map(
        lambda face: json.dumps({"responses": [{"faceAnnotations": [face, face]}]}).encode()
    )
    yield st.binary(max_size=50)


@each
@given(body=st.one_of(*_bodies()), position=st.integers(-2, 2))
def test_arbitrary_answer_is_parsed_or_refused(name, body, position):
    reason = ""
    try:
        labels = parser(name)(RawAnswer(body, position=position))
    except AnswerError as error:
        labels, reason = [], str(error)
    assert reason == "" or reason.isprintable()
    assert len({label.name for label in labels}) == len(labels)
    for label in labels:
        assert label.name.encode()
        assert 0 <= label.score <= 1


@given(tree=_TREES, status=st.sampled_from([200, 207, 400, 403, 429, 500]), count=st.integers(1, 3))
def test_arbitrary_reply_has_one_outcome_per_image(tree, status, count):
    bodies = [json.dumps(tree).encode(), *(_shaped(name, tree) for name in CLOUDS)]
    bodies += [json.dumps({name: tree}).encode() for name in ("error", "status", "responses", "outputs", "__type")]
    for reply in (Reply(status, {}, body) for body in bodies):
        for name in CLOUDS:
            with contextlib.suppress(AdapterError):
                outcomes = _adapter(name).outcomes(reply, count)
                assert all(isinstance(outcome, RawAnswer | NoAnswer) for outcome in outcomes)
                assert len(outcomes) == count


@lru_cache
def _adapter(name: str) -> HttpAdapter:
    with environment(CLOUDS[name].environment):
        return registry.create(name, {"endpoint": "https://a.example"})
