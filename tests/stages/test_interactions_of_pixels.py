"""Audits of pixel classifiers with and without an interaction of gender and race."""

import cv2
import numpy as np
import pytest

from pipeline import audit

PORTRAITS = 16
OPTIONS = {
    "sweep": {"steps": {"gender": 3}, "placebos": []},
    "statistics": {"response": "confidence", "min_count": 1, "resamples": 100},
    "validity": {"picture_photos": 0},
    "engine": {"workers": 1},
}
LIP = [(208, 224, 128, 192)]  # top, bottom, left, right; all portraits of the sample have the face there
UNDER_EYES = [(144, 176, 80, 112), (144, 176, 208, 240)]
CHEEKS = [(192, 208, 80, 112), (192, 208, 208, 240)]


def lip_and_cheeks(image: bytes) -> tuple[float, float]:
    """The darkness of the upper lip relative to the skin below the eyes, and the lightness of the cheeks."""
    grey = cv2.imdecode(np.frombuffer(image, np.uint8), cv2.IMREAD_GRAYSCALE)

    def mean(boxes):
        return float(np.mean([grey[top:bottom, left:right].mean() for top, bottom, left, right in boxes]))

    return (mean(UNDER_EYES) - mean(LIP)) / 100, (mean(CHEEKS) - 120) / 100


def additive(image: bytes) -> dict[str, float]:
    lip, light = lip_and_cheeks(image)
    return {"sum": float(np.clip(0.5 + lip + 0.5 * light, 0, 1))}


def multiplicative(image: bytes) -> dict[str, float]:
    lip, light = lip_and_cheeks(image)
    return {"product": float(np.clip(0.5 + lip * (0.6 + 1.2 * light), 0, 1))}


@pytest.fixture(scope="module")
def interactions(sample_folder, tmp_path_factory):
    photos = sample_folder(PORTRAITS, every=4)
    out = tmp_path_factory.mktemp("runs") / "crossed"
    run = audit(photos, out=out, adapters=[additive, multiplicative], attributes=["gender*race"], options=OPTIONS)
    return run.interactions().set_index("label")


def test_interaction_of_a_multiplicative_classifier_is_found(interactions):
    found = interactions.loc["product"]
    assert found["q"] < 0.001
    assert found["difference_low"] > 0.01, "the effect of the lip is larger on lighter skin"


def test_additive_classifier_has_no_interaction_despite_different_normalised_slopes(interactions):
    found = interactions.loc["sum"]
    slopes = found[["first_slope", "second_slope"]].astype(float)
    assert (slopes > 0.05).all(), "gender has an effect at both poles"
    assert found["first_y_c"] - found["second_y_c"] > 0.03, "and race has one"
    assert found["difference_low"] < 0 < found["difference_high"]
    assert found["q"] > 0.05
    assert abs(found["difference"]) < 0.05 * slopes.mean()
    assert found["z_p"] < 0.05
