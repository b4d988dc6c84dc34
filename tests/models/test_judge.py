import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from models.alignment import TEMPLATE
from models.attributes import RACES
from models.image_metrics import batch_luma
from models.judge import (
    AGE_STEPS,
    OUTPUTS,
    VIEW,
    Estimator,
    GreyJudge,
    Judge,
    age_in_years,
    split,
    view,
    young_from_age,
)
from models.weights import load_judge


def tiny_network(kind):
    torch.manual_seed(3)
    return kind(widths=(8, 8, 16, 16)).eval().requires_grad_(False)


@pytest.fixture(params=[Estimator, Judge, GreyJudge])
def network(request):
    return tiny_network(request.param)


def test_layout_of_outputs():
    assert OUTPUTS == 14
    rows = torch.arange(28.0).reshape(2, 14)
    gender, race, at_least, age, smiling = split(rows)
    assert gender.tolist() == [0, 14]
    assert race[0].tolist() == [1, 2, 3, 4, 5]
    assert at_least[0].tolist() == [6, 7, 8, 9, 10, 11]
    assert age.tolist() == [12, 26]
    assert smiling.tolist() == [13, 27]


@pytest.mark.parametrize("size", [64, 128, 256])
def test_view_contains_the_landmarks(size):
    rows, columns = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    viewed = view(torch.stack([rows, columns, rows])[None])
    side = viewed.shape[-1]
    assert viewed.shape == (1, 3, side, side)
    top, left = int(viewed[0, 0, 0, 0]), int(viewed[0, 1, 0, 0])
    assert (left, top, side) == tuple(round(part * size) for part in VIEW)
    points = TEMPLATE * size
    assert (points > [left, top]).all()
    assert (points < [left + side, top + side]).all()


def test_crops_are_resized_to_the_input_size(network):
    crops = torch.rand(2, 3, 128, 128) * 2 - 1
    assert network.look(crops).shape == (2, 3, network.size, network.size)
    if network.size == 96:
        torch.testing.assert_close(network.look(crops), view(crops), rtol=0, atol=0)
    outputs, features = network(network.look(crops))
    perceived = network.perceive(crops)
    np.testing.assert_allclose(perceived.masculine, torch.sigmoid(outputs[:, 0]), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(perceived.features, features, rtol=1e-5, atol=1e-6)


def test_grey_judge_is_invariant_to_colour_and_exposure():
    judge = load_judge("grey-judge")
    crops = torch.nn.functional.interpolate(torch.rand(6, 3, 9, 9), size=(128, 128), mode="bicubic") - 0.5
    plain = judge.perceive(crops)
    grey = judge.perceive(batch_luma(crops).expand(-1, 3, -1, -1))
    torch.testing.assert_close(grey.features, plain.features, rtol=1e-3, atol=1e-4)
    darker = judge.perceive(0.7 * crops - 0.2)
    assert (darker.age - plain.age).abs().max() < 2.5 < plain.age.max() - plain.age.min()
    assert (darker.masculine - plain.masculine).abs().max() < 0.05


@pytest.mark.parametrize("size", [64, 128, 200])
def test_perceived_values_are_in_range_for_any_crop_size(network, size):
    with torch.inference_mode():
        perceived = network.perceive(torch.rand(3, 3, size, size) * 2 - 1)
    shapes = {"masculine": (3,), "race": (3, 5), "at_least": (3, len(AGE_STEPS))}
    for probabilities, shape in ((getattr(perceived, name), shape) for name, shape in shapes.items()):
        assert probabilities.shape == shape
        assert ((probabilities >= 0) & (probabilities <= 1)).all()
    np.testing.assert_allclose(perceived.race.sum(dim=1), torch.ones(3), rtol=1e-5, atol=1e-6)
    assert (perceived.age >= 0).all()
    assert (perceived.smiling.abs() <= 1).all()
    assert (perceived.young.abs() <= 1).all()
    np.testing.assert_allclose(perceived.gender, 2 * perceived.masculine - 1, rtol=1e-5, atol=1e-6)
    assert perceived.features.shape == (3, 16)


def test_perceived_gender_is_invariant_to_resolution(network):
    small = torch.nn.functional.interpolate(torch.randn(1, 3, 8, 8), size=(128, 128), mode="bicubic").clamp(-1, 1)
    large = torch.nn.functional.interpolate(small, size=(256, 256), mode="bilinear")
    assert network.perceive(small).masculine.item() == pytest.approx(network.perceive(large).masculine.item(), abs=0.02)


def test_temperature_changes_probabilities_but_not_decisions(network):
    crops = torch.rand(6, 3, 128, 128) * 2 - 1
    network.heads.weight.mul_(20)  # untrained networks are undecided
    before = network.perceive(crops)
    network.gender_temperature.fill_(2.5)
    network.race_temperature.fill_(2.5)
    after = network.perceive(crops)
    assert not torch.allclose(before.masculine, after.masculine)
    assert not torch.allclose(before.race, after.race)
    assert ((before.masculine > 0.5) == (after.masculine > 0.5)).all()
    assert (before.race.argsort(dim=1) == after.race.argsort(dim=1)).all()
    assert (after.race.max(dim=1).values <= before.race.max(dim=1).values + 1e-6).all()


def test_temperatures_are_part_of_the_state_dict(network):
    network.gender_temperature.fill_(1.7)
    other = type(network)(widths=(8, 8, 16, 16))
    other.load_state_dict(network.state_dict())
    assert other.gender_temperature.item() == pytest.approx(1.7)


@given(st.floats(0, 120), st.floats(0, 120))
def test_young_decreases_with_age_and_is_0_at_forty(first, second):
    younger, older = sorted([first, second])
    assert young_from_age(torch.tensor(younger)) >= young_from_age(torch.tensor(older))
    assert young_from_age(torch.tensor(40.0)) == 0
    assert young_from_age(torch.tensor(25.0)).item() == pytest.approx(math.tanh(1))


def test_age_is_never_negative():
    assert age_in_years(torch.tensor([-5.0, 0.0, 1.0])).tolist() == [0, 40, 60]


def test_order_of_races():
    assert RACES == ("White", "Black", "Asian", "Indian", "Others")
