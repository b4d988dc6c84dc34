"""The residual editor's training: losses, prototypes, discriminator, calibration, and loops that only have to run."""

import numpy as np
import pytest
import torch
from drawn_faces_set import face_set

from models.attributes import RACES
from models.parser import SmallParser
from models.residual import ChangeFields, ResidualEditor
from models.tone import load_tone_table
from models.training import guides as guide_training
from models.training import residual
from models.training.discriminators import ProjectionDiscriminator, augmented, gradient_penalty
from models.training.guides import GuidePlan, untrained
from models.training.prototypes import difference, matched_means
from models.training.residual_calibration import Wanted, calibrate, guide_observer
from models.training.residual_losses import concentration, effect_loss, keep_loss, stencil_loss
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


def test_concentration_of_an_even_change_is_its_share():
    masks = torch.ones(2, 40, 40)
    even = torch.full((2, 40, 40), 0.3)
    torch.testing.assert_close(concentration(even, masks), torch.full((2,), 0.05), atol=1e-3, rtol=0)
    spot = torch.zeros(2, 40, 40)
    spot[:, 5:8, 5:8] = 1
    torch.testing.assert_close(concentration(spot, masks), torch.ones(2))


def test_a_drawing_common_to_all_faces_costs_and_one_apiece_does_not():
    masks = torch.ones(4, 64, 64)
    empty = torch.zeros(4, 8, 2, 16, 16)
    common = torch.zeros(4, 8, 64, 64)
    common[:, 0, 20:30, 20:30] = 0.3
    apiece = common.clone()
    apiece[::2] *= -1
    assert stencil_loss(ChangeFields(common, empty, empty), masks) > 1e-4
    assert stencil_loss(ChangeFields(apiece, empty, empty), masks) == 0


def test_effect_and_keep_losses_prefer_what_they_should():
    outputs = torch.zeros(2, 14)
    wanted = torch.zeros(2, 8)
    wanted[:, 0] = 1
    masculine = outputs.clone()
    masculine[:, 0] = 2
    which = torch.zeros(2, dtype=torch.long)
    assert effect_loss(masculine, wanted, which) < effect_loss(outputs, wanted, which)
    older = outputs.clone()
    older[:, 12] = 1
    assert keep_loss(outputs, outputs, which) == 0
    assert keep_loss(older, outputs, which) > 1
    assert keep_loss(masculine, outputs, which) == 0


def test_matched_means_leave_out_what_is_not_face():
    pictures = np.zeros((40, 64, 64, 3), dtype=np.float32)
    high = np.arange(40) < 20
    pictures[high] = 0.5
    pictures[:, :, :10] = -1  # hair over one side, seen by the mask
    covers = np.ones((40, 64, 64), dtype=np.float32)
    covers[:, :, :10] = 0
    first, second = matched_means(pictures, covers, high, ~high, np.zeros(40, dtype=np.int64))
    assert np.allclose(first[:, 12:], 0.5)
    assert np.allclose(second[:, 12:], 0)
    assert np.allclose(first[:, :10], second[:, :10])
    colour, moved = difference(first, second)
    assert colour.shape == (3, 64, 64)
    assert moved.shape == (2, 16, 16)


def test_the_discriminator_trains():
    critic = ProjectionDiscriminator(widths=(8, 8, 16, 16))
    random = torch.Generator().manual_seed(0)
    photos = augmented(torch.rand(4, 3, 64, 64) * 2 - 1, random)
    assert photos.shape == (4, 3, 64, 64)
    values = torch.rand(4, 8)
    (critic(photos, values).mean() + gradient_penalty(critic, photos, values)).backward()
    assert all(parameter.grad is not None for parameter in critic.parameters())


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


def test_guide_and_editor_train_and_the_strengths_are_set(small, tmp_path):
    guide = untrained("grey")
    plan = GuidePlan(first=0, seed=1, epochs=0.6, batch=8)
    guide_training.train(guide, small, plan, tmp_path / "guide")
    editor = ResidualEditor(widths=(8, 16, 24))
    editor.luma_template.normal_(std=0.05, generator=torch.Generator().manual_seed(0))
    tones = load_tone_table()
    plan = residual.ResidualPlan(steps=2, batch=8)
    average = residual.train(editor, {"grey": guide}, small, tones, plan, tmp_path / "editor")
    assert (tmp_path / "editor" / "checkpoint.pt").exists()
    torch.testing.assert_close(average.luma_template, editor.luma_template)
    strengths = {"gender": 1.25, "race": 0.72}
    figures = calibrate(average, [guide_observer(guide)], small, tones, Wanted(strengths=strengths))
    assert (figures["gender_strength"], figures["race_strength"]) == (1.25, 0.72)
    assert average.mixing[0, 0] == pytest.approx(1.25)
    assert average.mixing.diagonal()[1 : 1 + len(RACES)].tolist() == pytest.approx([0.72] * len(RACES))
