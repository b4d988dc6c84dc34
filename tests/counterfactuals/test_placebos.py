from collections import Counter
from hashlib import sha256

import numpy as np
import pytest
import torch
from drawn_subjects import BOTH, GENDER, faceless_subject, make, own_values, subject, tiny_fader
from PIL import Image

from models.fader import Fader
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.counterfactuals.editors import fader as module
from pipeline.counterfactuals.editors.base import CROP, Direction
from pipeline.counterfactuals.editors.fader import encode
from pipeline.counterfactuals.sweep import colour_placebo, direction_of

SWEEPS = {"gender": (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0), "race": (-2.0, -1.0, 0.0, 1.0, 2.0)}
# A face at one end of the race line, one of a third race, and one of nearly that race.
THIRD, NEARLY_THIRD = {"race_Black": 0, "race_Asian": 1}, {"race_White": 0.02, "race_Black": 0.01, "race_Asian": 0.97}
OWN_VALUES = module.own_values([own_values(), own_values(**THIRD), own_values(**NEARLY_THIRD)])
PLACEBOS = BOTH.model_copy(update={"placebos": ("random", "colour")})


@pytest.fixture(scope="module")
def fader():
    return tiny_fader()


def encoded_faces(fader, rows=slice(None), seed=5):
    crops = torch.rand(len(OWN_VALUES), 3, 16, 16, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    crops = torch.nn.functional.interpolate(crops, size=(CROP, CROP), mode="bilinear")
    return encode(fader, crops[rows], OWN_VALUES[rows])


def masks(count=3):
    mask = np.zeros((CROP, CROP), np.float32)
    mask[24:104, 30:98] = 0.4
    mask[32:96, 38:90] = 1
    return np.stack([mask] * count)


def edit_of(fader, attribute, faces):
    return faces.edit(ATTRIBUTES[attribute], SWEEPS[attribute])


def edit_and_random_placebo(fader, attribute, *, rows=slice(None), seed=0):
    faces = encoded_faces(fader, rows)
    real = edit_of(fader, attribute, faces)
    return real, random_placebo(real, faces, masks(len(faces.own)), seed=seed)


def random_placebo(real, faces, masks, *, seed=0):
    return faces.random_placebo(ATTRIBUTES[real.attribute], real, masks, seed=seed)


def rms(changes):
    """Root mean square inside the mask, per face and value."""
    mask = masks(len(changes))[:, None, :, :, None]
    return np.sqrt((changes.astype(np.float64) ** 2 * mask).sum(axis=(2, 3, 4)) / (3 * mask.sum(axis=(2, 3, 4))))


def cosine(one, other):
    return float((one * other).sum() / np.sqrt((one**2).sum() * (other**2).sum()))


# Colour


@pytest.mark.parametrize("attribute", SWEEPS)
def test_colour_placebo_is_the_mean_colour_change_of_the_edit(fader, attribute):
    faces = encoded_faces(fader)
    real = edit_of(fader, attribute, faces)
    placebo = colour_placebo(real, masks(), null=faces.null)
    assert (placebo.attribute, placebo.arm, placebo.values) == (attribute, "colour", real.values)
    assert (placebo.changes == placebo.changes[:, :, :1, :1]).all()
    for face, mask in enumerate(masks()):
        for step in range(len(real.values)):
            means = np.average(real.changes[face, step].reshape(-1, 3), axis=0, weights=mask.ravel())
            np.testing.assert_allclose(placebo.changes[face, step, 0, 0], means, rtol=1e-3, atol=1e-3)
    # The placebo's face is the shifted reconstruction.
    reconstruction = (faces.null.permute(0, 2, 3, 1).numpy() + 1)[:, None] * 127.5
    np.testing.assert_allclose(placebo.faces - reconstruction, placebo.changes, rtol=0, atol=1e-3)


def test_colour_placebo_of_an_empty_mask_is_zero(fader):
    faces = encoded_faces(fader)
    placebo = colour_placebo(edit_of(fader, "gender", faces), 0 * masks(), null=faces.null)
    assert (placebo.changes == 0).all()


# Random direction


@pytest.mark.parametrize("attribute", SWEEPS)
def test_random_placebo_has_the_size_of_the_edit_at_every_value(fader, attribute):
    real, placebo = edit_and_random_placebo(fader, attribute)
    assert (placebo.attribute, placebo.arm, placebo.values) == (attribute, "random", real.values)
    np.testing.assert_allclose(rms(placebo.changes), rms(real.changes), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize(("attribute", "own"), [("gender", 3), ("race", 1)])
def test_random_placebo_is_zero_at_the_own_value(fader, attribute, own):
    _, placebo = edit_and_random_placebo(fader, attribute)
    assert rms(placebo.changes)[0, own] < 1e-3
    assert np.delete(rms(placebo.changes)[0], own).min() > 0.1


def test_random_placebo_reverses_at_the_own_value(fader):
    _, placebo = edit_and_random_placebo(fader, "gender")
    for changes in placebo.changes:
        assert cosine(changes[0], changes[1]) > 0.8
        assert cosine(changes[4], changes[5]) > 0.8
        assert cosine(changes[0], changes[5]) < -0.3


def test_random_placebo_follows_its_direction_off_the_race_line(fader):
    # The edit changes these faces at every value, so the placebo does too.
    _, placebo = edit_and_random_placebo(fader, "race")
    for changes in placebo.changes[1:]:
        assert cosine(changes[0], changes[1]) > 0.8
        assert cosine(changes[3], changes[4]) > 0.8
        assert max(cosine(changes[2], changes[end]) for end in (0, 4)) > 0.8


def test_random_direction_depends_on_seed_and_attribute(fader):
    (_, first), (_, again), (_, other) = (edit_and_random_placebo(fader, "gender", seed=seed) for seed in (0, 0, 1))
    _, race = edit_and_random_placebo(fader, "race")
    assert (first.changes == again.changes).all()
    assert abs(cosine(first.changes[:, -1], other.changes[:, -1])) < 0.5
    assert abs(cosine(first.changes[:, -1], race.changes[:, -1])) < 0.5


def test_random_direction_differs_from_the_edit(fader):
    real, placebo = edit_and_random_placebo(fader, "gender")
    assert abs(cosine(placebo.changes[:, -1], real.changes[:, -1])) < 0.5


def test_random_placebo_is_independent_of_the_batch(fader):
    _, together = edit_and_random_placebo(fader, "gender")
    _, alone = edit_and_random_placebo(fader, "gender", rows=slice(1, 2))
    scale = np.abs(together.changes[1]).max()
    assert np.abs(together.changes[1] - alone.changes[0]).max() < 0.05 * scale


def test_random_placebo_face_is_reconstruction_plus_change(fader):
    faces = encoded_faces(fader)
    real = edit_of(fader, "gender", faces)
    placebo = random_placebo(real, faces, masks())
    reconstruction = (faces.null.permute(0, 2, 3, 1).numpy() + 1)[:, None] * 127.5
    np.testing.assert_allclose(placebo.faces - reconstruction, placebo.changes, rtol=0, atol=1e-3)


def test_random_placebo_of_a_full_size_network():
    torch.manual_seed(0)
    network = Fader().eval().requires_grad_(False)
    faces = encoded_faces(network, slice(0, 1))
    real = faces.edit(ATTRIBUTES["gender"], (-2.0, 2.0))
    placebo = random_placebo(real, faces, masks(1))
    np.testing.assert_allclose(rms(placebo.changes), rms(real.changes), rtol=1e-3)


# Directions of photos


def test_photos_are_assigned_three_directions_with_both_signs():
    counts = Counter(direction_of(f"{number}.jpg", seed=0) for number in range(600))
    assert set(counts) == {Direction(number, way) for number in range(3) for way in (-1, 1)}
    assert min(counts.values()) > 60
    assert direction_of("a.jpg", seed=0) == direction_of("a.jpg", seed=0)
    assert len({direction_of("a.jpg", seed=seed) for seed in range(20)}) > 1


def test_faces_follow_their_assigned_directions(fader):
    faces = encoded_faces(fader)
    real = edit_of(fader, "gender", faces)

    def ends(*directions):
        return faces.random_placebo(ATTRIBUTES["gender"], real, masks(), seed=0, dealt=directions).changes[:, -1]

    first = ends(*[Direction()] * 3)
    mixed = ends(Direction(), Direction(0, -1), Direction(1))
    np.testing.assert_allclose(mixed[0], first[0], atol=1e-3)
    assert cosine(mixed[1], first[1]) < -0.3
    assert abs(cosine(mixed[2], first[2])) < 0.5


# Files


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    return folder, make([subject("a.jpg"), faceless_subject()], folder, PLACEBOS)


def test_placebos_are_made_at_both_ends_and_the_middle(run):
    rows = run[1]
    for attribute in ("gender", "race"):
        for photo, status in (("a.jpg", "ok"), ("b/none.jpg", "excluded")):
            for arm in (EDIT_ARM, "random", "colour"):
                arm_rows = [r for r in rows if (r["attribute"], r["photo"], r["arm"]) == (attribute, photo, arm)]
                assert [row["value"] for row in arm_rows] == list(PLACEBOS.values(attribute, arm))
                assert arm == EDIT_ARM or [row["value"] for row in arm_rows] == [-2.0, 0.0, 2.0]
                assert {row["status"] for row in arm_rows} == {status}
    assert len(rows) == 2 * PLACEBOS.versions == 2 * (5 + 3 + 4 * 3)


def test_placebos_have_separate_folders_and_share_the_mask(run):
    folder, rows = run
    good = [row for row in rows if row["status"] == "ok"]
    assert len({row["file"] for row in good}) == len(good)
    assert len({row["mask"] for row in good}) == 1
    for row in good:
        kind = row["attribute"] if row["arm"] == EDIT_ARM else f"{row['attribute']}-{row['arm']}"
        assert row["file"].split("/")[:2] == ["images", kind]
        assert sha256((folder / row["file"]).read_bytes()).hexdigest() == row["sha256"]
        assert row["background_kept"] == 1.0
        assert 0 < row["judge_masculine"] < 1


def test_edit_is_independent_of_placebos(run, tmp_path):
    edits = [row for row in run[1] if row["arm"] == EDIT_ARM]
    assert edits == make([subject("a.jpg"), faceless_subject()], tmp_path, BOTH)


def test_colour_placebo_shifts_all_pixels_equally(run):
    folder, rows = run
    photo, last = subject("a.jpg").pixels.astype(int), 3
    (row,) = [r for r in rows if (r["attribute"], r["arm"], r["step"]) == ("gender", "colour", last) and "file" in r]
    full = np.array(Image.open(folder / row["mask"])) == 255
    shift = (np.array(Image.open(folder / row["file"])).astype(int) - photo)[full]
    assert full.any()
    assert (np.ptp(shift, axis=0) <= 1).all()


@pytest.mark.parametrize("mode", ["delta", "reconstruction"])
def test_placebos_in_both_modes(tmp_path, mode):
    options = GENDER.model_copy(update={"placebos": ("colour", "random"), "mode": mode, "steps": {"gender": 3}})
    rows = make([subject("a.jpg")], tmp_path, options)
    assert [row["arm"] for row in rows] == [EDIT_ARM] * 3 + ["colour"] * 3 + ["random"] * 3
    assert all(row["background_kept"] == 1.0 for row in rows)
