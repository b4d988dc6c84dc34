from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
import torch
from drawn import BOTH, GENDER, faceless, make, own_values, subject, tiny_fader
from PIL import Image

from models.fader import Fader
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.counterfactuals.editors import fader as module
from pipeline.counterfactuals.editors.base import CROP, Direction
from pipeline.counterfactuals.editors.fader import encode
from pipeline.counterfactuals.sweep import colour_placebo, direction_of

SWEEPS = {"gender": (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0), "race": (-2.0, -1.0, 0.0, 1.0, 2.0)}
# A face at one end of the race line, and two that are not on it: of a third race, and nearly so.
OWN = module.own_values(
    [
        own_values(),
        own_values(race_Black=0, race_Asian=1),
        own_values(race_White=0.02, race_Black=0.01, race_Asian=0.97),
    ]
)
PLACEBOS = BOTH.model_copy(update={"placebos": ("random", "colour")})


@pytest.fixture(scope="module")
def fader():
    return tiny_fader()


def encoded(fader, rows=slice(None), seed=5):
    crops = torch.rand(len(OWN), 3, 16, 16, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    crops = torch.nn.functional.interpolate(crops, size=(CROP, CROP), mode="bilinear")
    return encode(fader, crops[rows], OWN[rows])


def masks(count=3):
    mask = np.zeros((CROP, CROP), np.float32)
    mask[24:104, 30:98] = 0.4
    mask[32:96, 38:90] = 1
    return np.stack([mask] * count)


def edit(fader, attribute, faces):
    return faces.edit(ATTRIBUTES[attribute], SWEEPS[attribute])


def random_of(fader, attribute, *, rows=slice(None), seed=0):
    faces = encoded(fader, rows)
    real = edit(fader, attribute, faces)
    return real, random_placebo(real, faces, masks(len(faces.own)), seed=seed)


def random_placebo(real, faces, masks, *, seed=0):
    return faces.random_placebo(ATTRIBUTES[real.attribute], real, masks, seed=seed)


def size(changes):
    """Root mean square inside the mask, one figure a face and value."""
    mask = masks(len(changes))[:, None, :, :, None]
    return np.sqrt((changes.astype(np.float64) ** 2 * mask).sum(axis=(2, 3, 4)) / (3 * mask.sum(axis=(2, 3, 4))))


def alike(one, other):
    return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


# Only the colour


@pytest.mark.parametrize("attribute", SWEEPS)
def test_the_colour_placebo_is_the_edits_mean_colour_in_every_pixel(fader, attribute):
    faces = encoded(fader)
    real = edit(fader, attribute, faces)
    placebo = colour_placebo(real, masks(), null=faces.null)
    assert (placebo.attribute, placebo.arm, placebo.values) == (attribute, "colour", real.values)
    assert (placebo.changes == placebo.changes[:, :, :1, :1]).all()
    for face, mask in enumerate(masks()):
        for step in range(len(real.values)):
            means = np.average(real.changes[face, step].reshape(-1, 3), axis=0, weights=mask.ravel())
            np.testing.assert_allclose(placebo.changes[face, step, 0, 0], means, rtol=1e-3, atol=1e-3)
    # Pasted, it is that shift of the reconstruction.
    reconstruction = (faces.null.permute(0, 2, 3, 1).numpy() + 1)[:, None] * 127.5
    np.testing.assert_allclose(placebo.faces - reconstruction, placebo.changes, rtol=0, atol=1e-3)


def test_a_face_without_a_mask_has_no_colour_placebo_and_breaks_nothing(fader):
    faces = encoded(fader)
    placebo = colour_placebo(edit(fader, "gender", faces), 0 * masks(), null=faces.null)
    assert (placebo.changes == 0).all()


# A random direction


@pytest.mark.parametrize("attribute", SWEEPS)
def test_the_random_placebo_is_at_every_value_as_large_as_the_edit(fader, attribute):
    real, placebo = random_of(fader, attribute)
    assert (placebo.attribute, placebo.arm, placebo.values) == (attribute, "random", real.values)
    np.testing.assert_allclose(size(placebo.changes), size(real.changes), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("attribute", "own"), [("gender", 3), ("race", 1)])
def test_nothing_changes_at_the_faces_own_value(fader, attribute, own):
    _, placebo = random_of(fader, attribute)
    assert size(placebo.changes)[0, own] < 1e-3
    assert np.delete(size(placebo.changes)[0], own).min() > 0.1


def test_it_goes_one_way_below_the_own_value_and_the_other_way_above(fader):
    _, placebo = random_of(fader, "gender")
    for changes in placebo.changes:
        assert alike(changes[0], changes[1]) > 0.8
        assert alike(changes[4], changes[5]) > 0.8
        assert alike(changes[0], changes[5]) < -0.3


def test_off_the_race_line_it_still_goes_along_its_direction(fader):
    # There the edit changes something at every value, so the placebo must too: along the direction, and not noise.
    _, placebo = random_of(fader, "race")
    for changes in placebo.changes[1:]:
        assert alike(changes[0], changes[1]) > 0.8
        assert alike(changes[3], changes[4]) > 0.8
        assert max(alike(changes[2], changes[end]) for end in (0, 4)) > 0.8


def test_the_seed_and_the_attribute_choose_the_direction(fader):
    (_, first), (_, again), (_, other) = (random_of(fader, "gender", seed=seed) for seed in (0, 0, 1))
    _, race = random_of(fader, "race")
    assert (first.changes == again.changes).all()
    assert abs(alike(first.changes[:, -1], other.changes[:, -1])) < 0.5
    assert abs(alike(first.changes[:, -1], race.changes[:, -1])) < 0.5


def test_it_does_not_go_where_the_edit_goes(fader):
    real, placebo = random_of(fader, "gender")
    assert abs(alike(placebo.changes[:, -1], real.changes[:, -1])) < 0.5


def test_the_company_in_a_batch_does_not_change_a_placebo(fader):
    _, together = random_of(fader, "gender")
    _, alone = random_of(fader, "gender", rows=slice(1, 2))
    scale = np.abs(together.changes[1]).max()
    assert np.abs(together.changes[1] - alone.changes[0]).max() < 0.05 * scale


def test_pasted_it_is_the_reconstruction_and_the_change(fader):
    faces = encoded(fader)
    real = edit(fader, "gender", faces)
    placebo = random_placebo(real, faces, masks())
    reconstruction = (faces.null.permute(0, 2, 3, 1).numpy() + 1)[:, None] * 127.5
    np.testing.assert_allclose(placebo.faces - reconstruction, placebo.changes, rtol=0, atol=1e-3)


def test_the_shipped_networks_size_works_too():
    torch.manual_seed(0)
    network = Fader().eval().requires_grad_(False)
    faces = encoded(network, slice(0, 1))
    real = faces.edit(ATTRIBUTES["gender"], (-2.0, 2.0))
    placebo = random_placebo(real, faces, masks(1))
    np.testing.assert_allclose(size(placebo.changes), size(real.changes), rtol=1e-3)


# Directions dealt to photos


def test_photos_are_dealt_three_directions_either_way_round():
    dealt = Counter(direction_of(f"{number}.jpg", seed=0) for number in range(600))
    assert set(dealt) == {Direction(number, way) for number in range(3) for way in (-1, 1)}
    assert min(dealt.values()) > 60
    assert direction_of("a.jpg", seed=0) == direction_of("a.jpg", seed=0)
    assert len({direction_of("a.jpg", seed=seed) for seed in range(20)}) > 1


def test_each_face_goes_along_the_direction_that_it_was_dealt(fader):
    faces = encoded(fader)
    real = edit(fader, "gender", faces)

    def dealt(*directions):
        return faces.random_placebo(ATTRIBUTES["gender"], real, masks(), seed=0, dealt=directions).changes[:, -1]

    first = dealt(*[Direction()] * 3)
    mixed = dealt(Direction(), Direction(0, -1), Direction(1))
    np.testing.assert_allclose(mixed[0], first[0], atol=1e-3)
    assert alike(mixed[1], first[1]) < -0.3
    assert abs(alike(mixed[2], first[2])) < 0.5


# Through the same files as the edit


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder, make([subject("a.jpg"), faceless()], folder, PLACEBOS)


def test_every_placebo_is_made_at_both_ends_and_in_the_middle(made):
    rows = made[1]
    for attribute in ("gender", "race"):
        for photo, status in (("a.jpg", "ok"), ("b/none.jpg", "excluded")):
            for arm in (EDIT_ARM, "random", "colour"):
                mine = [r for r in rows if (r["attribute"], r["photo"], r["arm"]) == (attribute, photo, arm)]
                assert [row["value"] for row in mine] == list(PLACEBOS.values(attribute, arm))
                assert arm == EDIT_ARM or [row["value"] for row in mine] == [-2.0, 0.0, 2.0]
                assert {row["status"] for row in mine} == {status}
    assert len(rows) == 2 * PLACEBOS.versions == 2 * (5 + 3 + 4 * 3)


def test_placebos_lie_in_folders_of_their_own_and_share_the_mask(made):
    folder, rows = made
    good = [row for row in rows if row["status"] == "ok"]
    assert len({row["file"] for row in good}) == len(good)
    assert len({row["mask"] for row in good}) == 1
    for row in good:
        kind = row["attribute"] if row["arm"] == EDIT_ARM else f"{row['attribute']}-{row['arm']}"
        assert row["file"].split("/")[:2] == ["images", kind]
        assert sha256((folder / row["file"]).read_bytes()).hexdigest() == row["sha256"]
        assert row["background_kept"] == 1.0
        assert 0 < row["judge_masculine"] < 1


def test_the_edit_is_the_same_with_and_without_placebos(made, tmp_path):
    edits = [row for row in made[1] if row["arm"] == EDIT_ARM]
    assert edits == make([subject("a.jpg"), faceless()], tmp_path, BOTH)


def test_the_colour_placebo_shifts_every_pixel_of_the_full_mask_alike(made):
    folder, rows = made
    photo, last = subject("a.jpg").pixels.astype(int), 3
    (row,) = [r for r in rows if (r["attribute"], r["arm"], r["step"]) == ("gender", "colour", last) and "file" in r]
    full = np.array(Image.open(folder / row["mask"])) == 255
    shift = (np.array(Image.open(folder / row["file"])).astype(int) - photo)[full]
    assert full.any()
    assert (np.ptp(shift, axis=0) <= 1).all()


@pytest.mark.parametrize("mode", ["delta", "reconstruction"])
def test_placebos_are_made_in_both_modes(tmp_path, mode):
    options = GENDER.model_copy(update={"placebos": ("colour", "random"), "mode": mode, "steps": {"gender": 3}})
    rows = make([subject("a.jpg")], tmp_path, options)
    assert [row["arm"] for row in rows] == [EDIT_ARM] * 3 + ["colour"] * 3 + ["random"] * 3
    assert all(row["background_kept"] == 1.0 for row in rows)
