"""Measures over the images of a sample, on drawn crops with known results."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from drawn_subjects import residual_editor, subject, tiny_judge

from models.judge import Perception
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.counterfactuals import detection
from pipeline.counterfactuals.detection import NETWORK, REGRESSION, detect, detected_by
from pipeline.counterfactuals.picture_measures import Crops, detections, mean_change, part_effects, pasted, real_pastes

GENDER, RACE = ATTRIBUTES["gender"], ATTRIBUTES["race"]


def face_crops(count=24, *, seed=0, level=120):
    random = np.random.default_rng(seed)
    smooth = random.normal(level, 12, (count, 8, 8, 1)).repeat(16, axis=1).repeat(16, axis=2)
    return (smooth + random.normal(0, 4, (count, 128, 128, 3))).clip(0, 255).astype(np.uint8)


def crops_of(photos, *, near=None, classes=None, ends=None):
    near = np.stack([photos, photos], axis=1) if near is None else near
    skins = np.zeros(photos.shape[:3], np.float32)
    skins[:, 20:70, 20:108] = 1
    masks = np.zeros(photos.shape[:3], np.float32)
    masks[:, 20:108, 20:108] = 1
    classes = np.array(["feminine", "masculine"] * len(photos))[: len(photos)] if classes is None else classes
    return Crops(photos, masks, skins, near[:, :, None], ends or {EDIT_ARM: near}, classes)


def with_spot(photos):
    out = photos.copy()
    out[:, 80:92, 58:70] = out[:, 80:92, 58:70] // 2
    return out


class BrightnessJudge(torch.nn.Module):
    """A judge that perceives bright faces as masculine."""

    size = 96

    def perceive(self, units):
        level = (units.mean(dim=(1, 2, 3)) + 1) / 2
        even = torch.full((len(units), 5), 0.2)
        nothing = torch.zeros(len(units))
        return Perception(level, even, torch.zeros(len(units), 6), nothing, nothing, torch.zeros(len(units), 1))


def test_mean_change_finds_a_pattern_common_to_all_edits():
    photos = face_crops()
    rows = list(mean_change(crops_of(photos, near=np.stack([with_spot(photos), photos + 9], axis=1))))
    assert [row["measure"] for row in rows] == ["map: low", "map: high"]
    assert rows[0]["figure"] > 15
    assert rows[1]["figure"] < 2, "a uniform change is no pattern"
    on_skin = list(mean_change(crops_of(photos, near=np.stack([with_spot(photos), photos + 9], axis=1)), of_skin=True))
    assert on_skin[0]["figure"] < 2, "the spot is outside the skin"
    change_map = np.array(rows[0]["map"]).reshape(64, 64)
    assert change_map[43, 32] < -15 < 2 * change_map[20, 32]
    assert np.isnan(change_map[0, 0])


@pytest.mark.parametrize("detector", [REGRESSION, NETWORK], ids=["regression", "network"])
def test_detectors_find_a_common_pattern(detector, monkeypatch):
    monkeypatch.setattr(detection, "STEPS", 30)
    photos = face_crops(40)
    found = detected_by(detector, photos[:, None], np.stack([with_spot(photos)] * 2, axis=1))
    assert found.auc > 0.95
    assert found.low <= found.auc <= found.high
    same = detected_by(detector, photos[:, None], photos[:, None])
    assert same.auc == pytest.approx(0.5, abs=0.05)


def test_detection_takes_the_better_detector_and_is_reproducible(monkeypatch):
    monkeypatch.setattr(detection, "STEPS", 10)
    photos = face_crops()
    pair = photos[:, None], (photos + (np.arange(24) % 2 * 6).astype(np.uint8)[:, None, None, None])[:, None]
    before = torch.random.get_rng_state()
    found = detect(*pair)
    assert found.auc == max(detected_by(detector, *pair).auc for detector in (REGRESSION, NETWORK))
    assert detect(*pair) == found
    assert torch.equal(torch.random.get_rng_state(), before), "the global random state is unchanged"


def test_detection_does_not_import_the_pytorch_compiler(monkeypatch):
    monkeypatch.setattr(detection, "STEPS", 5)
    monkeypatch.setitem(sys.modules, "torch._dynamo", None)  # importing it would fail
    photos = face_crops(8)
    assert 0 <= detected_by(NETWORK, photos[:, None], photos[:, None]).auc <= 1


def test_detections_include_placebos_and_need_enough_faces(monkeypatch):
    monkeypatch.setattr(detection, "STEPS", 10)
    photos = face_crops()
    edits = np.stack([with_spot(photos)] * 2, axis=1)
    rows = list(detections(crops_of(photos, near=edits, ends={EDIT_ARM: edits, "random": edits})))
    assert {(row["arm"], row["measure"]) for row in rows} == {
        (EDIT_ARM, "detection"), (EDIT_ARM, "detection: ends"), ("random", "detection: ends"),
    }  # fmt: skip
    assert not list(detections(crops_of(face_crops(5))))


def test_real_pastes_have_the_colour_of_the_target():
    classes = np.array(["feminine"] * 12 + ["masculine"] * 12)
    photos = np.concatenate([face_crops(12, level=90), face_crops(12, seed=1, level=160)])
    judges = {"judge": BrightnessJudge(), "second judge": BrightnessJudge()}
    rows = list(real_pastes(GENDER, crops_of(photos, classes=classes), judges, least=10))
    swings = {row["arm"]: row["figure"] for row in rows if row["measure"] == "paste"}
    assert set(swings) == set(judges)
    assert swings["judge"] == pytest.approx(0, abs=0.02), "brightness is matched"
    assert 0 < next(row["figure"] for row in rows if row["measure"] == "paste: concentration") < 1
    assert not list(real_pastes(GENDER, crops_of(photos, classes=classes), judges, least=13))
    mask = np.ones((128, 128), np.float32)
    np.testing.assert_allclose(pasted(photos[0], photos[20], mask, matched=False), photos[20], atol=1)


def test_part_effects_need_an_editor_with_tone_and_features():
    rows = list(part_effects(RACE, residual_editor(), [subject("a.jpg")], tiny_judge()))
    assert [row["measure"] for row in rows] == ["parts: both", "parts: tone", "parts: features"]
    assert all(-1 <= row["figure"] <= 1 for row in rows)
    assert not list(part_effects(GENDER, residual_editor(), [subject("a.jpg")], tiny_judge()))
    assert not list(part_effects(RACE, SimpleNamespace(), [subject("a.jpg")], tiny_judge()))
