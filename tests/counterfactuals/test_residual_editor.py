"""The editor of skin tone and fields of change: what it changes, what it leaves, and its placebos."""

import numpy as np
import pytest
import torch
from drawn import BOTH, RedIsSkin, faceless, make, own_values, subject
from PIL import Image

from models.residual import ResidualEditor
from models.tone import load_tone_table
from pipeline.config.attributes import EDIT_ARM
from pipeline.counterfactuals.editors.residual import ToneAndFields


def editor(**switches) -> ToneAndFields:
    torch.manual_seed(0)
    network = ResidualEditor(widths=(8, 16, 24))
    network.luma_template.normal_(std=0.05)
    network.displacement_template.normal_(std=0.01)
    return ToneAndFields(
        network.eval().requires_grad_(False), load_tone_table(), RedIsSkin(), BOTH.region, BOTH.feather, **switches
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

    assert size("random", -2.0) == pytest.approx(size(EDIT_ARM, -2.0), rel=0.2)
    assert size("random", 2.0) == pytest.approx(size("random", 0.0), rel=0.05), "the face's own value is 1"
    assert size("random", 0.0) < 0.5 * size("random", -2.0)
