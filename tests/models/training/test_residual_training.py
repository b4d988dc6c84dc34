"""The residual editor's prototypes, the faces they are measured on, and the outside judge."""

import numpy as np
import pytest
import torch
from drawn_faces_set import face_set

from models.fader import ATTRIBUTES, GENDER
from models.parser import SmallParser
from models.residual import Prototypes
from models.training.outside_judge import OutsideJudge, OutsidePlan, train
from models.training.prototypes import difference, mean_faces, set_prototypes
from models.training.small_faces import SIDE, load_small, prepare_small, shift_tones


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A few labelled faces made of noise, prepared at half resolution; all of their middle counts as face and skin."""
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


def test_mean_faces_hold_the_rest_fixed_and_leave_out_what_is_not_face():
    random = np.random.default_rng(0)
    own = np.zeros((400, len(ATTRIBUTES)), dtype=np.float32)
    own[:, GENDER] = random.choice([-1, 1], 400)
    age = (40 + 5 * own[:, GENDER] + random.normal(0, 6, 400)).astype(np.float32)
    own[:, ATTRIBUTES.index("young")] = (40 - age) / 15
    pictures = np.zeros((400, 8, 8, 3), dtype=np.float32) + (0.1 * own[:, GENDER] - 0.01 * age)[:, None, None, None]
    pictures[:, :, :2] = random.choice([-1, 1], (400, 1, 1, 1))  # hair over one side, seen by the mask
    covers = np.ones((400, 8, 8), dtype=np.float32)
    covers[:, :, :2] = 0
    _, slopes = mean_faces(pictures, covers, own, age, own[:, GENDER] < 9, centre=40, bandwidth=12)
    assert slopes[GENDER, :, 2:].mean() == pytest.approx(0.1, abs=0.02), (
        "masculine faces are older here, which is no part"
    )
    assert np.allclose(slopes[:, :, :2], 0)


def test_a_difference_is_symmetric():
    random = np.random.default_rng(1)
    colour, moved = difference(*random.normal(size=(2, 64, 64, 3)).astype(np.float32))
    torch.testing.assert_close(colour, colour.flip(2), atol=0.2, rtol=0)
    torch.testing.assert_close(moved[1], moved[1].flip(1), atol=1e-4, rtol=0)


def test_prototypes_are_measured_at_every_age(small):
    prototypes = Prototypes()
    set_prototypes(prototypes, small, torch.arange(60))
    assert prototypes.luma.isfinite().all()
    assert (prototypes.luma[:, GENDER].abs().amax(dim=(1, 2)) > 0).all()
    assert not prototypes.luma[:, ATTRIBUTES.index("smiling")].any(), "the light of a smile would draw teeth"


def test_small_faces_are_cut_shifted_and_mirrored(small):
    rows = torch.tensor([0, 1])
    plain, _ = small.batch(rows)
    assert small.crops.shape == (60, SIDE, SIDE, 3)
    mirrored, _ = small.batch(rows, mirrored=torch.tensor([True, False]))
    torch.testing.assert_close(mirrored[0], plain[0].flip(2))
    torch.testing.assert_close(mirrored[1], plain[1])
    shifted, _ = small.batch(rows, shift=torch.tensor([[2, 0], [0, 0]]))
    torch.testing.assert_close(shifted[0, :, :-2], plain[0, :, 2:])


def test_tones_shift_only_where_the_colour_is_known(small):
    crops, classes = small.batch(torch.tensor([0, 2]))
    colours = torch.tensor([[55.0, 14.0, 17.0], [float("nan")] * 3])
    toned = shift_tones(crops, classes, colours, np.array([[10.0, 0, 0], [10.0, 0, 0]]))
    assert (toned[0] - crops[0])[:, 16:-16, 16:-16].mean() > 0.03
    torch.testing.assert_close(toned[1], crops[1])


def test_the_outside_judge_trains(small, tmp_path):
    judge = OutsideJudge(widths=(8, 16, 24, 24))
    train(judge, small, OutsidePlan(epochs=0.6, batch=8), tmp_path)
    assert judge(small.batch(torch.tensor([0, 1]))[0], torch.Generator().manual_seed(0)).shape == (2, 14)
