"""The residual editor (skin tone and fields of change) and its placebos."""

import numpy as np
import pytest
from drawn_subjects import BOTH, faceless_subject, make, own_values, residual_editor, subject
from PIL import Image

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.counterfactuals.editors.residual import ResidualBatch
from pipeline.counterfactuals.editors.response import MOST, STRENGTHS, holding, needed_strength


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """A face perceived as Black and masculine, with the rows, images and folder of its sweep."""
    folder = tmp_path_factory.mktemp("sweep")
    face = subject("a.jpg", own=own_values(gender=1.0, race_Black=1.0, race_White=0.0))
    options = BOTH.model_copy(update={"editor": "residual", "placebos": ("random", "colour")})
    rows = make([face, faceless_subject()], folder, options, editor=residual_editor())
    images = {
        (row["attribute"], row["arm"], row["value"]): np.array(Image.open(folder / row["file"]))
        for row in rows
        if row["status"] == "ok"
    }
    return face, rows, images, folder


def test_photo_is_unchanged_at_its_own_value(sweep):
    face, _, images, _ = sweep
    np.testing.assert_array_equal(images["gender", EDIT_ARM, 1.0], face.pixels)
    assert (images["gender", EDIT_ARM, -2.0] != face.pixels).any()
    assert (images["race", EDIT_ARM, 2.0] != face.pixels).any()


def test_pixels_outside_the_mask_are_unchanged(sweep):
    face, rows, images, folder = sweep
    ok_rows = [row for row in rows if row["status"] == "ok"]
    assert {row["background_kept"] for row in ok_rows} == {1.0}
    for row in ok_rows:
        mask = np.array(Image.open(folder / row["mask"]))
        changed = (images[row["attribute"], row["arm"], row["value"]] != face.pixels).any(axis=2)
        assert not (changed & (mask == 0)).any()
    assert len({row["mask"] for row in ok_rows}) == 2, "skin outside the face is edited for race only"


def test_skin_is_lighter_towards_the_lighter_group(sweep):
    _, rows, _, _ = sweep
    lightness = [
        row["lightness"] for row in rows if (row["photo"], row["attribute"], row["arm"]) == ("a.jpg", "race", EDIT_ARM)
    ]
    assert lightness == sorted(lightness)
    assert lightness[-1] - lightness[0] > 5


def test_tone_and_features_can_be_disabled(tmp_path):
    face = subject("a.jpg", own=own_values(gender=0.0, race_Black=1.0, race_White=0.0))
    options = BOTH.model_copy(update={"editor": "residual"})
    rows = make([face], tmp_path / "tone", options, editor=residual_editor(features=False))
    by_attribute = {name: [row["status"] for row in rows if row["attribute"] == name] for name in ("gender", "race")}
    assert set(by_attribute["gender"]) == {"excluded"}, "gender does not change skin tone"
    assert set(by_attribute["race"]) == {"ok"}
    rows = make([face], tmp_path / "features", options, editor=residual_editor(tone=False))
    lightness = [row["lightness"] for row in rows if row["attribute"] == "race"]
    assert max(lightness) - min(lightness) < 5


def test_random_placebo_has_the_size_of_the_edit(sweep):
    face, _, images, _ = sweep

    def size(arm, value):
        return np.sqrt(((images["gender", arm, value].astype(float) - face.pixels) ** 2).mean())

    for value in (-2.0, 0.0, 2.0):
        assert size("random", value) == pytest.approx(size(EDIT_ARM, value), rel=0.25)
    assert size("random", 0.0) < 0.7 * size("random", -2.0), "smaller near the face's own value"


def test_both_placebos_share_the_size_of_a_race_edit(sweep):
    face, _, images, _ = sweep

    def size(arm):
        return np.sqrt(((images["race", arm, -2.0].astype(float) - face.pixels) ** 2).mean())

    assert size("random") < 0.8 * size(EDIT_ARM), "the tone is part of the colour placebo"
    assert np.hypot(size("random"), size("colour")) == pytest.approx(size(EDIT_ARM), rel=0.1)


def test_placebos_reuse_the_versions_of_the_edit(tmp_path, monkeypatch):
    calls = []
    versions = ResidualBatch._versions
    monkeypatch.setattr(
        ResidualBatch, "_versions", lambda self, place, *rest: calls.append(place) or versions(self, place, *rest)
    )
    options = BOTH.model_copy(update={"attributes": ("gender",), "placebos": ("random", "colour")})
    make([subject("a.jpg"), subject("b.jpg", seed=1)], tmp_path, options, editor=residual_editor())
    assert calls == [0, 1]


def test_holding_counteracts_changes_of_age_and_smile_within_bounds():
    older_and_graver, unmoved, far = holding(np.array([[-0.2, -0.1], [0.0, 0.0], [9.0, 9.0]]))
    assert (older_and_graver > 0).all()
    assert not unmoved.any()
    np.testing.assert_allclose(-far, list(MOST.values()))


def test_needed_strength_is_larger_for_unresponsive_faces():
    gender = ATTRIBUTES["gender"]
    before, after = np.array([3.0, 3.0]), np.array([-1.0, 2.5])
    ends, steps = np.array([-1.0, -1.0]), np.array([-2.0, -2.0])
    responsive, unresponsive = needed_strength(gender, before, after, ends, steps)
    assert responsive == pytest.approx(1, abs=0.1)
    assert unresponsive > STRENGTHS[1]
    assert needed_strength(gender, np.array([-4.0]), np.array([-5.0]), ends[:1], steps[:1]) == 0
