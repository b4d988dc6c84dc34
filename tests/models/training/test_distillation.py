import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_faces import SIDE, face_set

from models.fader import Fader, FaderShape
from models.image_metrics import ssim
from models.precision import to_unit
from models.training.distillation import DistillationPlan, change_of, evaluate, inherit, train
from models.training.edits import own_attributes
from models.training.losses import structure_loss

FINE, COARSE = FaderShape(widths=(8, 8, 8, 8)), FaderShape(widths=(8, 8, 8, 8, 8))


@pytest.fixture(scope="module")
def faces():
    return face_set()


@pytest.fixture(scope="module")
def masks(faces):
    fader = np.zeros((len(faces), SIDE, SIDE), dtype=np.uint8)
    fader[:, 40:110, 40:110] = 255
    return fader


@pytest.fixture
def teacher():
    torch.manual_seed(1)
    fader = Fader(COARSE).eval()
    for layer in fader.decoder:  # random, so that the values have an effect
        layer.film.weight.data.normal_()
    return fader


def test_student_inherits_the_outer_layers(teacher):
    fader = Fader(FINE)
    inherit(fader, teacher)
    crops = torch.rand(2, 3, 128, 128) * 2 - 1
    assert torch.equal(fader.encoder(crops), teacher.encoder[:4](crops))
    assert torch.equal(fader.decoder[0].conv.weight, teacher.decoder[1].conv.weight)
    assert torch.equal(fader.to_rgb.weight, teacher.to_rgb.weight)


def test_change_is_relative_to_the_own_values(teacher, faces):
    rows = torch.arange(4)
    crops, own = to_unit(faces.pixels(rows)), own_attributes(faces, rows)
    with torch.no_grad():
        rebuilt, change = change_of(teacher, crops, own, own)
        assert torch.equal(rebuilt, teacher(crops, own))
        assert change.abs().max() == 0
        assert change_of(teacher, crops, own, -own)[1].abs().max() > 0


@settings(max_examples=20)
@given(st.integers(0, 1000), st.floats(0.0, 0.5))
def test_structure_loss_approximates_one_minus_ssim(seed, noise):
    random = torch.Generator().manual_seed(seed)
    photo = torch.nn.functional.interpolate(
        torch.rand(1, 3, 16, 16, generator=random) * 2 - 1, scale_factor=8, mode="bilinear"
    )
    other = (photo + noise * torch.randn(photo.shape, generator=random)).clamp(-1, 1)
    mask = torch.ones(1, 1, 128, 128)
    loss = structure_loss(other, photo, mask).item()
    pixels = [(127.5 * (image[0].permute(1, 2, 0).numpy() + 1)) for image in (other, photo)]
    assert loss == pytest.approx(1 - ssim(*pixels, mask[0, 0].numpy()), abs=0.12)
    assert structure_loss(photo, photo, mask).item() == pytest.approx(0, abs=1e-5)


def test_structure_loss_ignores_pixels_outside_the_mask():
    photo, mask = torch.rand(1, 3, 128, 128) * 2 - 1, torch.zeros(1, 1, 128, 128)
    mask[..., 64:] = 1
    other = photo.clone()
    other[..., :56] = 0
    assert structure_loss(other, photo, mask).item() == pytest.approx(0, abs=1e-5)
    assert structure_loss(photo, photo, torch.zeros_like(mask)).item() == 0


def student_of(teacher):
    torch.manual_seed(3)
    fader = Fader(FINE)
    inherit(fader, teacher)
    return fader


def test_training_does_not_change_the_teacher_and_is_reproducible(teacher, faces, masks, tmp_path, capsys):
    before = {name: tensor.clone() for name, tensor in teacher.state_dict().items()}
    plan, fader = DistillationPlan(steps=4, batch=2), student_of(teacher)
    average = train(fader, teacher, faces, masks, plan, tmp_path, device="cpu")
    assert all(torch.equal(teacher.state_dict()[name], tensor) for name, tensor in before.items())
    assert (fader.reading @ fader.erased).item() == pytest.approx(1, abs=1e-3)
    assert torch.equal(average.module.erased, fader.erased)
    assert fader.strength.tolist() == [1.0, 1.0]
    line = json.loads((tmp_path / "log.jsonl").read_text().splitlines()[-1])
    assert {"psnr", "ssim", "gender_change_missed"} <= set(line)
    again = train(student_of(teacher), teacher, faces, masks, plan, tmp_path, device="cpu")
    for name, tensor in average.module.state_dict().items():
        assert torch.equal(again.module.state_dict()[name], tensor)


def test_encoder_is_frozen_after_the_erased_direction_is_fixed(teacher, faces, masks, tmp_path, capsys):
    fader, encoders = student_of(teacher), []

    class Watched(DistillationPlan):
        @property
        def settled(self):
            encoders.append({name: tensor.detach().clone() for name, tensor in fader.encoder.named_parameters()})
            return 1

    train(fader, teacher, faces, masks, Watched(steps=3, batch=2), tmp_path, device="cpu")
    first, last = encoders[0], {name: tensor.detach() for name, tensor in fader.encoder.named_parameters()}
    after_one_step = encoders[2]
    assert any(not torch.equal(first[name], last[name]) for name in first)
    assert all(torch.equal(after_one_step[name], last[name]) for name in last)


def test_training_reduces_the_error(teacher, faces, masks, tmp_path, capsys):
    fader = student_of(teacher)
    before = evaluate(fader, teacher, faces, masks, device="cpu")
    plan = DistillationPlan(steps=60, batch=4, rate=3e-3)
    average = train(fader, teacher, faces, masks, plan, tmp_path, device="cpu")
    after = evaluate(average.module, teacher, faces, masks, device="cpu")
    assert after["psnr"] > before["psnr"] + 1
    assert after["gender_change_missed"] < before["gender_change_missed"]
