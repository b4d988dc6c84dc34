"""The decomposition of a slope into direction and edit size, on responses whose truth is known."""

import numpy as np
import pytest

from pipeline.statistics.edit_size import EDIT_SIZE_COLUMNS, balance, edit_size
from pipeline.statistics.sweeps import Sweeps

VALUES = np.linspace(-2, 2, 7)
PHOTOS = 200


def edit_size_of(response, own, **options):
    """The row of a label with the scores ``response(values, own value)`` plus noise."""
    random = np.random.default_rng(0)
    scores = np.stack([response(VALUES, a0) for a0 in own]) + random.normal(0, 0.02, (len(own), len(VALUES)))
    names = [f"p{number}" for number in range(len(own))]
    sweeps = Sweeps.from_array(scores[:, :, None].clip(0, 1), VALUES, photos=names, attribute="gender", confidence=True)
    return edit_size(sweeps, dict(zip(names, own, strict=True)), min_count=1, **options).iloc[0]


def one_sided_values():
    return np.random.default_rng(1).uniform(0.5, 1.0, PHOTOS)


def test_effect_of_edit_size_on_a_one_sided_sample_is_not_a_direction():
    row = edit_size_of(lambda a, a0: 0.8 - 0.1 * np.abs(a - a0), one_sided_values())
    assert row["slope"] > 0.04, "the slope alone would be a finding"
    assert row["direction_low"] < 0 < row["direction_high"]
    assert row["size_high"] < -0.1
    assert row["size_p"] < 1e-6


def test_effect_of_the_attribute_is_a_direction_without_a_size_effect():
    row = edit_size_of(lambda a, a0: 0.5 + 0.1 * a, one_sided_values())
    assert row["direction"] == pytest.approx(row["slope"], rel=0.1)
    assert row["direction_low"] > 0
    assert row["size_low"] < 0 < row["size_high"]


def test_balanced_sample_separates_slope_and_size():
    own = np.linspace(-1, 1, PHOTOS)
    row = edit_size_of(lambda a, a0: 0.5 + 0.05 * a + 0.05 * np.abs(a - a0), own)
    assert row["slope"] == pytest.approx(row["direction"], rel=0.1)
    assert row["size_low"] > 0
    assert row["lean"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("own", [one_sided_values(), np.linspace(-1, 1, PHOTOS)])
def test_slope_is_direction_plus_lean_times_size(own):
    # The response is nonlinear, and differently so on either side.
    row = edit_size_of(lambda a, a0: np.where(a > np.sign(a0) * -1.0, 0.9, 0.1), own)
    assert row["slope"] == pytest.approx(row["direction"] + row["lean"] * row["size"])


def test_photos_with_unknown_or_out_of_range_value_are_excluded():
    own = np.array([0.5, -0.5, 0.2, np.nan, 2.0, -3.0])
    row = edit_size_of(lambda a, a0: 0.5 + 0.1 * a, own)
    assert row["photos"] == 3
    assert list(row.index) == list(EDIT_SIZE_COLUMNS)


def test_balance_gives_the_shares_of_both_sides():
    sides = balance({"a": -0.9, "b": 0.8, "c": 0.7, "d": 0.01, "e": float("nan")})
    assert (sides["photos"], sides["low"], sides["high"]) == (4, 0.25, 0.5)
    assert balance({})["photos"] == 0
