"""The editor of skin tone and fields of change: what it changes, what it leaves, and its placebos."""

import numpy as np
import pytest
import torch
from drawn import BOTH, RedIsSkin, faceless, make, own_values, subject, tiny_judge
from PIL import Image

from models.residual import Prototypes
from models.tone import load_tone_table
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.counterfactuals.editors.residual import ResidualBatch, ToneAndFields
from pipeline.counterfactuals.editors.response import MOST, STRENGTHS, holding, needed_strength


def editor(**switches) -> ToneAndFields:
    prototypes, random = Prototypes(), torch.Generator().manual_seed(0)
    prototypes.luma.normal_(std=0.05, generator=random)
    prototypes.displacement.normal_(std=0.01, generator=random)
    return ToneAndFields(
        prototypes, load_tone_table(), RedIsSkin(), BOTH.region, BOTH.feather, tiny_judge(), **switches
    )


@pytest.fixture(scope="module")
def sweep(tmp_path_factory):
    """The rows, and the images by attribute, arm and value, of a face that is perceived as Black and masculine."""
    folder = tmp_path_factory.mktemp("sweep")
    face = subject("a.jpg", own=own_values(gender=1.0, race_Black=1.0, race_White=0.0))
    options = BOTH.model_copy(update={"editor": "residual", "placebos": ("random", "colour")})
    rows = make([face, faceless()], folder, options, editor=editor())
    images = {
        (row["attribute"], row["arm"], row["value"]): np.array(Image.open(folder / row["file"]))
        for row in rows
        if row["status"] == "ok"
    }
    return face, rows, images, folder


def test_at_its_own_value_the_photo_is_unchanged(sweep):
    face, _, images, _ = sweep
    np.testing.assert_array_equal(images["gender", EDIT_ARM, 1.0], face.pixels)
    assert (images["gender", EDIT_ARM, -2.0] != face.pixels).any()
    assert (images["race", EDIT_ARM, 2.0] != face.pixels).any()


def test_outside_the_mask_of_its_attribute_nothing_changes(sweep):
    face, rows, images, folder = sweep
    made = [row for row in rows if row["status"] == "ok"]
    assert {row["background_kept"] for row in made} == {1.0}
    for row in made:
        mask = np.array(Image.open(folder / row["mask"]))
        changed = (images[row["attribute"], row["arm"], row["value"]] != face.pixels).any(axis=2)
        assert not (changed & (mask == 0)).any()
    assert len({row["mask"] for row in made}) == 2, "skin beyond the face belongs to race alone"


def test_skin_grows_lighter_towards_the_lighter_group(sweep):
    _, rows, _, _ = sweep
    lightness = [
        row["lightness"] for row in rows if (row["photo"], row["attribute"], row["arm"]) == ("a.jpg", "race", EDIT_ARM)
    ]
    assert lightness == sorted(lightness)
    assert lightness[-1] - lightness[0] > 5


def test_tone_and_features_can_be_switched_off(tmp_path):
    face = subject("a.jpg", own=own_values(gender=0.0, race_Black=1.0, race_White=0.0))
    options = BOTH.model_copy(update={"editor": "residual"})
    rows = make([face], tmp_path / "tone", options, editor=editor(features=False))
    by_attribute = {name: [row["status"] for row in rows if row["attribute"] == name] for name in ("gender", "race")}
    assert set(by_attribute["gender"]) == {"excluded"}, "no part of gender is skin tone"
    assert set(by_attribute["race"]) == {"ok"}
    rows = make([face], tmp_path / "features", options, editor=editor(tone=False))
    lightness = [row["lightness"] for row in rows if row["attribute"] == "race"]
    assert max(lightness) - min(lightness) < 5


def test_placebos_are_as_large_as_the_edit_and_start_at_the_photo(sweep):
    face, _, images, _ = sweep

    def size(arm, value):
        return np.sqrt(((images["gender", arm, value].astype(float) - face.pixels) ** 2).mean())

    for value in (-2.0, 0.0, 2.0):
        assert size("random", value) == pytest.approx(size(EDIT_ARM, value), rel=0.25)
    assert size("random", 0.0) < 0.7 * size("random", -2.0), "smaller near the face's own value"


def test_the_two_placebos_share_the_size_of_an_edit_of_skin_tone(sweep):
    face, _, images, _ = sweep

    def size(arm):
        return np.sqrt(((images["race", arm, -2.0].astype(float) - face.pixels) ** 2).mean())

    assert size("random") < 0.8 * size(EDIT_ARM), "a shift of tone is not put into light and shade"
    assert np.hypot(size("random"), size("colour")) == pytest.approx(size(EDIT_ARM), rel=0.1)


def test_placebos_make_no_version_a_second_time(tmp_path, monkeypatch):
    made = []
    versions = ResidualBatch._versions
    monkeypatch.setattr(
        ResidualBatch, "_versions", lambda self, place, *rest: made.append(place) or versions(self, place, *rest)
    )
    options = BOTH.model_copy(update={"attributes": ("gender",), "placebos": ("random", "colour")})
    make([subject("a.jpg"), subject("b.jpg", seed=1)], tmp_path, options, editor=editor())
    assert made == [0, 1]


def test_age_and_smile_are_held_against_what_moved_within_bounds():
    older_and_graver, nothing, far = holding(np.array([[-0.2, -0.1], [0.0, 0.0], [9.0, 9.0]]))
    assert (older_and_graver > 0).all()
    assert not nothing.any()
    np.testing.assert_allclose(-far, list(MOST.values()))


def test_a_face_that_hardly_moves_is_changed_more():
    gender = ATTRIBUTES["gender"]
    before, seen = np.array([3.0, 3.0]), np.array([-1.0, 2.5])
    ends, steps = np.array([-1.0, -1.0]), np.array([-2.0, -2.0])
    quick, slow = needed_strength(gender, before, seen, ends, steps)
    assert quick == pytest.approx(1, abs=0.1)
    assert slow > STRENGTHS[1]
    assert needed_strength(gender, np.array([-4.0]), np.array([-5.0]), ends[:1], steps[:1]) == 0
