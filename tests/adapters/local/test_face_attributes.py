import json

import numpy as np
import pytest
import torch
from adapter_calls import make_adapter, scores_of
from drawn_faces import drawn_face, png
from torch import Tensor

import models.weights
from adapters.base import AdapterError
from adapters.local.face_attributes import LABELS, FaceAttributes
from adapters.local.preprocessing import decode_rgb
from models.attributes import RACES
from models.detector import FaceDetector
from models.judge import AGE_STEPS, Judge, Perception


class _DarkLeftJudge(Judge):
    """Judges faces with a dark left half as masculine."""

    def perceive(self, crops: Tensor) -> Perception:
        masculine = (crops[..., :64].mean(dim=(1, 2, 3)) < crops[..., 64:].mean(dim=(1, 2, 3))).float()
        count = len(crops)
        return Perception(
            masculine=masculine,
            race=torch.full((count, len(RACES)), 0.2),
            at_least=torch.linspace(0.9, 0.1, len(AGE_STEPS)).expand(count, -1),
            age=torch.full((count,), 35.0),
            smiling=torch.full((count,), -0.5),
            features=torch.zeros(count, 1),
        )


@pytest.fixture
def adapter(monkeypatch: pytest.MonkeyPatch) -> FaceAttributes:
    monkeypatch.setattr(models.weights, "load_judge", lambda name: _DarkLeftJudge(widths=(8, 8, 8, 8)))
    return make_adapter("face-attributes")


def two_faces() -> bytes:
    """A face near the centre with a dark left half, and another with a dark right half."""
    dark_left, dark_right = drawn_face(), drawn_face()
    dark_left[:, :112] //= 2
    dark_right[:, 112:] //= 2
    canvas = np.full((275, 900, 3), 200, np.uint8)
    for centre, face in ((340, dark_left), (700, dark_right)):
        canvas[:, centre - 112 : centre + 113] = face
    return png(canvas)


def test_face_gets_every_label(adapter):
    answer = adapter.send([png(drawn_face())])[0]
    scores = scores_of(adapter, answer)
    assert tuple(scores) == LABELS
    assert json.loads(answer.body)["faces"] == 1
    assert scores["feminine appearance"] == pytest.approx(1 - scores["masculine appearance"])
    assert scores["age 20+"] == pytest.approx(0.9)
    assert scores["young"] == pytest.approx(1 - scores["age 30+"])
    assert scores["smiling"] == pytest.approx(0.25)


def test_no_face_gives_no_labels(adapter):
    answer = adapter.send([png(np.full((275, 225, 3), 128, np.uint8))])[0]
    assert json.loads(answer.body)["faces"] == 0
    assert adapter.parse(answer) == []


def test_face_nearest_the_centre_is_judged(adapter):
    answer = adapter.send([two_faces()])[0]
    assert json.loads(answer.body)["faces"] == 2
    assert scores_of(adapter, answer)["masculine appearance"] == 1


def test_missing_weights_are_explained(monkeypatch):
    def missing(name):
        raise models.weights.WeightsError("the embedded weights judge.safetensors are missing")

    monkeypatch.setattr(models.weights, "load_judge", missing)
    with pytest.raises(AdapterError, match=r"face-attributes cannot be used.*judge.safetensors"):
        make_adapter("face-attributes").send([png(drawn_face())])


def test_version_names_the_weights(adapter):
    assert models.weights.record("judge").sha256 in adapter.model


def test_given_landmarks_replace_detection(adapter):
    (far,) = (face for face in FaceDetector().detect([decode_rgb(two_faces())])[0] if face.box[0] > 500)
    landmarks = tuple((float(x), float(y)) for x, y in far.landmarks)
    answers = adapter.send_faces([two_faces(), two_faces()], [None, landmarks])
    assert [json.loads(answer.body).get("faces") for answer in answers] == [2, None]
    scores = [scores_of(adapter, answer) for answer in answers]
    assert [score["masculine appearance"] for score in scores] == [1, 0]


def test_option_face_version_detects_in_every_version(adapter):
    per_version = make_adapter("face-attributes", face="version")
    assert (adapter.capabilities.faces, per_version.capabilities.faces) == (True, False)
    assert adapter.parameters != per_version.parameters, "stored answers of one are not used for the other"
