"""Prototypes of the residual editor, small faces, and the outside judge."""

import numpy as np
import pytest
import torch
from random_faces import face_set

from models.fader import ATTRIBUTES, GENDER
from models.parser import SmallParser
from models.residual import Prototypes
from models.training.outside_judge import OutsideJudge, OutsidePlan, train
from models.training.prototypes import difference, mean_faces, set_prototypes
from models.training.small_faces import SIDE, load_small, prepare_small, shift_tones


@pytest.fixture(scope="module")
def small_faces(tmp_path_factory):
    """Labelled noise images at half resolution, whose centre is face and skin."""
    folder, faces = tmp_path_factory.mktemp("faces"), face_set(60)
    np.save(folder / "crops.npy", faces.crops)
    names = np.array([f"{place}.jpg" for place in range(len(faces))])
    table = {name: getattr(faces, name).numpy() for name in ("gender", "race", "age", "smiling")}
    np.savez(folder / "faces.npz", files=names, **table)
    torch.manual_seed(0)
    assert prepare_small(folder, parser=SmallParser().eval()) == len(faces)
    found = load_small(folder)
    found.classes[:, :2, 10:-10, 10:-10] = 255
    found.lab[:] = torch.tensor([55.0, 14.0, 17.0])
    return found


def test_mean_faces_adjust_for_age_and_ignore_masked_pixels():
    random = np.random.default_rng(0)
    own = np.zeros((400, len(ATTRIBUTES)), dtype=np.float32)
    own[:, GENDER] = random.choice([-1, 1], 400)
    age = (40 + 5 * own[:, GENDER] + random.normal(0, 6, 400)).astype(np.float32)
    own[:, ATTRIBUTES.index("young")] = (40 - age) / 15
    images = np.zeros((400, 8, 8, 3), dtype=np.float32) + (0.1 * own[:, GENDER] - 0.01 * age)[:, None, None, None]
    images[:, :, :2] = random.choice([-1, 1], (400, 1, 1, 1))  # hair on one side, excluded by the mask
    covers = np.ones((400, 8, 8), dtype=np.float32)
    covers[:, :, :2] = 0
    _, slopes = mean_faces(images, covers, own, age, own[:, GENDER] < 9, centre=40, bandwidth=12)
    assert slopes[GENDER, :, 2:].mean() == pytest.approx(0.1, abs=0.02), "adjusted for age"
    assert np.allclose(slopes[:, :, :2], 0)


def test_difference_is_symmetric():
    random = np.random.default_rng(1)
    colour, displacement = difference(*random.normal(size=(2, 64, 64, 3)).astype(np.float32))
    torch.testing.assert_close(colour, colour.flip(2), atol=0.2, rtol=0)
    torch.testing.assert_close(displacement[1], displacement[1].flip(1), atol=1e-4, rtol=0)


def test_prototypes_are_measured_at_every_age(small_faces):
    prototypes = Prototypes()
    set_prototypes(prototypes, small_faces, torch.arange(60))
    assert prototypes.luma.isfinite().all()
    assert (prototypes.luma[:, GENDER].abs().amax(dim=(1, 2)) > 0).all()
    assert not prototypes.luma[:, ATTRIBUTES.index("smiling")].any(), "the light of a smile would draw teeth"


def test_batches_of_small_faces_are_shifted_and_mirrored(small_faces):
    rows = torch.tensor([0, 1])
    plain, _ = small_faces.batch(rows)
    assert small_faces.crops.shape == (60, SIDE, SIDE, 3)
    mirrored, _ = small_faces.batch(rows, mirrored=torch.tensor([True, False]))
    torch.testing.assert_close(mirrored[0], plain[0].flip(2))
    torch.testing.assert_close(mirrored[1], plain[1])
    shifted, _ = small_faces.batch(rows, shift=torch.tensor([[2, 0], [0, 0]]))
    torch.testing.assert_close(shifted[0, :, :-2], plain[0, :, 2:])


def test_tones_shift_only_if_the_colour_is_known(small_faces):
    crops, classes = small_faces.batch(torch.tensor([0, 2]))
    colours = torch.tensor([[55.0, 14.0, 17.0], [float("nan")] * 3])
    toned = shift_tones(crops, classes, colours, np.array([[10.0, 0, 0], [10.0, 0, 0]]))
    assert (toned[0] - crops[0])[:, 16:-16, 16:-16].mean() > 0.03
    torch.testing.assert_close(toned[1], crops[1])


def test_outside_judge_trains(small_faces, tmp_path):
    judge = OutsideJudge(widths=(8, 16, 24, 24))
    train(judge, small_faces, OutsidePlan(epochs=0.6, batch=8), tmp_path)
    assert judge(small_faces.batch(torch.tensor([0, 1]))[0], torch.Generator().manual_seed(0)).shape == (2, 14)
