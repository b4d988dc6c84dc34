import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from models.attributes import RACES
from models.fader import ATTRIBUTES, GENDER, RACE, SCALED, Fader, FaderShape, category_line, smooth_difference
from models.training.fader import LatentDiscriminator, PatchDiscriminator

NEUTRAL = dict.fromkeys(ATTRIBUTES, 0.0) | {"race_White": 1.0}
TINY = FaderShape(widths=(8, 8, 8, 8))


def vector(values):
    return torch.tensor([values[name] for name in ATTRIBUTES])


@pytest.fixture(scope="module")
def fader():
    torch.manual_seed(2)
    return Fader().eval().requires_grad_(False)


@pytest.fixture(scope="module")
def tiny():
    torch.manual_seed(2)
    return Fader(TINY).eval().requires_grad_(False)


def test_encoder_and_decoder_have_four_strided_layers(fader):
    convolutions = [module for module in fader.encoder.modules() if isinstance(module, nn.Conv2d)]
    assert [conv.stride for conv in convolutions] == [(2, 2)] * 4
    assert max(conv.out_channels for conv in convolutions) == 256
    upsampling = [module for module in fader.modules() if isinstance(module, nn.ConvTranspose2d)]
    assert [conv.stride for conv in upsampling] == [(2, 2)] * 4


def test_shapes_of_code_and_face(fader):
    crops = torch.rand(2, 3, 128, 128) * 2 - 1
    codes = fader.encode(crops)
    assert codes.shape == (2, 256, 8, 8)
    faces = fader.decode(codes, vector(NEUTRAL).expand(2, -1))
    assert faces.shape == (2, 3, 128, 128)
    assert faces.abs().max() <= 1
    np.testing.assert_allclose(fader(crops, vector(NEUTRAL).expand(2, -1)), faces, rtol=1e-5, atol=1e-6)


def test_every_decoder_layer_is_conditioned_on_the_values(fader):
    assert all(layer.film.in_features == len(ATTRIBUTES) for layer in fader.decoder)
    codes = torch.randn(1, 256, 8, 8)
    plain, changed = vector(NEUTRAL)[None], vector(NEUTRAL | {"gender": 1.0})[None]
    assert (fader.decode(codes, plain) != fader.decode(codes, changed)).any()


@settings(max_examples=25)
@given(st.lists(st.floats(-1e6, 1e6, width=32), min_size=8, max_size=8))
def test_decoder_is_finite_for_any_value(tiny, values):
    codes = torch.randn(1, 8, 8, 8, generator=torch.Generator().manual_seed(0))
    assert tiny.decode(codes, torch.tensor([values])).isfinite().all()


def test_shapes_of_discriminators():
    gender, race = LatentDiscriminator()(torch.randn(2, 256, 8, 8))
    assert (gender.shape, race.shape) == ((2,), (2, 5))
    assert PatchDiscriminator()(torch.randn(2, 3, 128, 128)).shape == (2, 1, 15, 15)


# Values


def test_order_of_attributes():
    assert ATTRIBUTES == (
        "gender", "race_White", "race_Black", "race_Asian", "race_Indian", "race_Others", "young", "smiling",
    )  # fmt: skip
    assert ATTRIBUTES[GENDER] == "gender"
    assert ATTRIBUTES[RACE] == tuple(f"race_{race}" for race in RACES)


def test_strength_is_1_for_attributes_without_calibration():
    network = Fader(TINY)
    network.strength.copy_(torch.tensor([1.25, 1.5]))
    assert [network.strength_of(name) for name in (*SCALED, "smiling")] == [1.25, 1.5, 1.0]


@pytest.mark.parametrize(
    ("value", "low_share", "high_share"), [(-1, 1, 0), (0, 0.5, 0.5), (1, 0, 1), (2, -0.5, 1.5), (-2, 1.5, -0.5)]
)
def test_category_line_extrapolates_beyond_both_races(value, low_share, high_share):
    black, white = RACES.index("Black"), RACES.index("White")
    (shares,) = category_line(torch.tensor([float(value)]), torch.tensor([black]), torch.tensor([white]))
    assert shares[black] == low_share
    assert shares[white] == high_share
    assert shares.count_nonzero() == (low_share != 0) + (high_share != 0)


@given(st.lists(st.tuples(st.floats(-4, 4, width=32), st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6))
def test_race_shares_sum_to_one(points):
    values, low, high = (torch.tensor(column) for column in zip(*points, strict=True))
    shares = category_line(values.float(), low, high)
    assert shares.shape == (len(points), 5)
    np.testing.assert_allclose(shares.sum(dim=1), torch.ones(len(points)), rtol=1e-5, atol=1e-6)


# Changes


def test_smooth_difference_of_identical_faces_is_zero():
    faces = torch.randn(2, 3, 32, 32)
    assert (smooth_difference(faces, faces.clone()) == 0).all()


@given(st.tuples(*[st.floats(-1, 1, width=32)] * 3))
def test_smooth_difference_keeps_a_uniform_change(colour):
    faces = torch.zeros(1, 3, 32, 32)
    change = smooth_difference(faces + torch.tensor(colour)[:, None, None], faces)
    np.testing.assert_allclose(change, torch.tensor(colour)[:, None, None].expand(1, 3, 32, 32), atol=4e-6, rtol=0)


def test_smooth_difference_reduces_noise_and_colour_noise_most():
    noise = torch.randn(1, 3, 64, 64)
    luma = noise.mean(dim=1, keepdim=True).expand_as(noise)
    colour = noise - (noise * torch.tensor([0.299, 0.587, 0.114])[:, None, None]).sum(dim=1, keepdim=True)
    still = torch.zeros_like(noise)
    kept_luma = smooth_difference(luma, still).std() / luma.std()
    kept_colour = smooth_difference(colour, still).std() / colour.std()
    assert kept_colour < 0.2 < kept_luma < 0.6


# Erasure


def test_erasure_removes_the_direction_from_codes():
    torch.manual_seed(2)
    network, crops = Fader(TINY).eval(), torch.rand(3, 3, 128, 128) * 2 - 1
    plain = network.encode(crops).detach()
    reading, direction = torch.randn(2, plain[0].numel())
    reading /= reading @ direction
    network.reading.copy_(reading)
    network.erased.copy_(direction)
    codes = network.encode(crops).detach()
    assert codes.shape == plain.shape
    np.testing.assert_allclose(codes.flatten(1) @ reading, torch.zeros(3), atol=1e-4)
    # Nothing else changes, and erasure is idempotent.
    left = (plain - codes).flatten(1)
    np.testing.assert_allclose(left, (plain.flatten(1) @ reading)[:, None] * direction, atol=1e-4)
    np.testing.assert_allclose(network.erase(codes), codes, atol=1e-4)
    np.testing.assert_allclose(Fader(TINY).erase(plain), plain, rtol=0, atol=0)


def test_erased_direction_is_part_of_the_state_dict():
    network, other = Fader(TINY), Fader(TINY)
    network.reading[3], network.erased[3] = 1.0, 2.0
    other.load_state_dict(network.state_dict())
    assert torch.equal(other.reading, network.reading)
    assert torch.equal(other.erased, network.erased)
