"""Direction and size are separated where the truth is known."""

import numpy as np
import pytest

from pipeline.statistics.edit_size import EDIT_SIZE_COLUMNS, balance, edit_size
from pipeline.statistics.sweeps import Sweeps

VALUES = np.linspace(-2, 2, 7)
PHOTOS = 200


def found(response, own, **options):
    """The row of one label whose scores are ``response(values, own)`` for each photo, with noise."""
    random = np.random.default_rng(0)
    scores = np.stack([response(VALUES, a0) for a0 in own]) + random.normal(0, 0.02, (len(own), len(VALUES)))
    names = [f"p{number}" for number in range(len(own))]
    sweeps = Sweeps.from_array(scores[:, :, None].clip(0, 1), VALUES, photos=names, attribute="gender", confidence=True)
    return edit_size(sweeps, dict(zip(names, own, strict=True)), min_count=1, **options).iloc[0]


def one_sided():
    return np.random.default_rng(1).uniform(0.5, 1.0, PHOTOS)


def test_on_one_side_of_the_scale_the_size_of_an_edit_makes_a_slope_and_no_direction():
    row = found(lambda a, a0: 0.8 - 0.1 * np.abs(a - a0), one_sided())
    assert row["slope"] > 0.04, "the slope alone would be a finding"
    assert row["direction_low"] < 0 < row["direction_high"]
    assert row["size_high"] < -0.1
    assert row["size_p"] < 1e-6


def test_a_label_that_follows_the_attribute_has_a_direction_and_no_size():
    row = found(lambda a, a0: 0.5 + 0.1 * a, one_sided())
    assert row["direction"] == pytest.approx(row["slope"], rel=0.1)
    assert row["direction_low"] > 0
    assert row["size_low"] < 0 < row["size_high"]


def test_on_both_sides_size_and_slope_do_not_mix():
    own = np.linspace(-1, 1, PHOTOS)
    row = found(lambda a, a0: 0.5 + 0.05 * a + 0.05 * np.abs(a - a0), own)
    assert row["slope"] == pytest.approx(row["direction"], rel=0.1)
    assert row["size_low"] > 0
    assert row["lean"] == pytest.approx(0, abs=0.01)


@pytest.mark.parametrize("own", [one_sided(), np.linspace(-1, 1, PHOTOS)])
def test_the_slope_is_direction_and_as_much_of_the_size_as_leans_along_the_sweep(own):
    # A step far from the face's own value bends, and bends differently on either side: no part of the slope is lost.
    row = found(lambda a, a0: np.where(a > np.sign(a0) * -1.0, 0.9, 0.1), own)
    assert row["slope"] == pytest.approx(row["direction"] + row["lean"] * row["size"])


def test_photos_whose_own_value_is_unknown_or_beyond_the_sweep_are_left_out():
    own = np.array([0.5, -0.5, 0.2, np.nan, 2.0, -3.0])
    row = found(lambda a, a0: 0.5 + 0.1 * a, own)
    assert row["photos"] == 3
    assert list(row.index) == list(EDIT_SIZE_COLUMNS)


def test_the_balance_counts_photos_on_either_side():
    sides = balance({"a": -0.9, "b": 0.8, "c": 0.7, "d": 0.01, "e": float("nan")})
    assert (sides["photos"], sides["low"], sides["high"]) == (4, 0.25, 0.5)
    assert balance({})["photos"] == 0
