import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from random_faces import face_set

from models.fader import Fader, FaderShape
from models.precision import autocast, to_unit
from models.training.concept_erasure import erasure, fit_erasure
from models.training.loop import generator


def codes_of_two_genders(count, *, seed, size=24):
    """Codes whose gender difference is partly along an axis of large variance."""
    random = generator(seed, 0)
    masculine = torch.rand(count, generator=random) < 0.6
    masculine[:2] = torch.tensor([True, False])
    codes = torch.randn(count, size, generator=random)
    codes[:, 0] *= 5  # such as lighting
    codes[:, :2] += 2.0 * masculine[:, None]
    return codes, masculine


def gap(codes, masculine):
    return (codes[masculine].mean(dim=0) - codes[~masculine].mean(dim=0)).norm().item()


@settings(max_examples=25)
@given(st.integers(0, 500), st.integers(8, 200), st.sampled_from([0.01, 0.3, 3.0, 100.0]))
def test_erased_codes_have_equal_means_for_any_ridge_and_size(seed, count, ridge):
    codes, masculine = codes_of_two_genders(count, seed=seed)
    reading, difference = erasure(codes, masculine, ridge=ridge)
    assert (reading @ difference).item() == pytest.approx(1, abs=1e-3)
    erased = codes - (codes @ reading)[:, None] * difference
    assert gap(erased, masculine) < 1e-3 * gap(codes, masculine)


def test_linear_classifier_is_at_chance_on_erased_held_out_codes():
    codes, masculine = codes_of_two_genders(4000, seed=1)
    reading, difference = erasure(codes, masculine, ridge=0.01)
    others, truth = codes_of_two_genders(4000, seed=2)

    def accuracy(x):
        balanced = torch.cat([truth.nonzero()[:1200, 0], (~truth).nonzero()[:1200, 0]])
        x, y = x[balanced], 2 * truth[balanced].float() - 1
        x = x - x.mean(dim=0)
        return (((x @ torch.linalg.lstsq(x, y).solution) > 0) == (y > 0)).float().mean().item()

    assert accuracy(others) > 0.8
    assert accuracy(others - (others @ reading)[:, None] * difference) < 0.58


def test_erasure_loses_less_than_a_projection():
    codes, masculine = codes_of_two_genders(4000, seed=1)
    reading, difference = erasure(codes, masculine, ridge=0.01)
    along = difference / difference.norm()
    lost = ((codes - codes.mean(dim=0)) @ reading).square().mean() * difference.square().sum()
    projected = ((codes - codes.mean(dim=0)) @ along).square().mean()
    assert lost < 0.7 * projected


def test_fit_erasure_equalises_the_training_faces():
    torch.manual_seed(0)
    faces, fader = face_set(48), Fader(FaderShape(widths=(8, 8, 8, 8))).eval()
    rows = faces.rows(0, 1)

    @torch.no_grad()
    def training_gap():
        with autocast():
            codes = fader.encode(to_unit(faces.pixels(rows))).float().flatten(1)
        return gap(codes, faces.gender[rows] > 0)

    before = training_gap()
    fit_erasure(fader, faces, device="cpu")
    assert training_gap() < 0.02 * before
    fitted = fader.reading.clone()
    fit_erasure(fader, faces, device="cpu")
    np.testing.assert_array_equal(fader.reading, fitted)
