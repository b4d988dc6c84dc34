import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from pipeline.config.attributes import ATTRIBUTES
from pipeline.counterfactuals.checks import at, line, rise, spearman_per_row, undecided, wide

FIVE = np.linspace(-2, 2, 5)


def sweep_table(*rows, values=FIVE):
    return pd.DataFrame(list(rows), columns=list(values))


# Undecided values


@pytest.mark.parametrize(
    ("figures", "value"),
    [
        ((0.1, 0.3, 0.5, 0.7, 0.9), 0.0),
        ((0.1, 0.2, 0.4, 0.8, 0.9), 0.25),
        ((0.0, 0.0, 0.0, 0.0, 1.0), 1.5),
        ((0.2, 0.6, 0.4, 0.6, 0.9), -1.25),  # the first of two
        ((0.6, 0.7, 0.8, 0.9, 0.9), np.nan),  # never below
        ((0.1, 0.2, 0.3, 0.4, 0.4), np.nan),  # never above
        ((0.9, 0.7, 0.5, 0.3, 0.1), np.nan),  # falling
        ((0.5, 0.5, 0.5, 0.5, 0.5), np.nan),
    ],
)
def test_undecided_is_the_first_rise_through_one_half(figures, value):
    assert undecided(sweep_table(figures))[0] == pytest.approx(value, nan_ok=True)


@given(st.floats(-1.9, 1.9), st.floats(0.05, 0.2))
def test_undecided_of_a_straight_line_is_exact(turning, slope):
    found = undecided(sweep_table(0.5 + slope * (FIVE - turning)))
    assert found[0] == pytest.approx(turning, abs=1e-9)


def test_undecided_is_computed_per_face():
    found = undecided(sweep_table(0.5 + 0.1 * (FIVE - 0.5), 0.5 + 0.1 * (FIVE + 1), [0.9] * 5))
    np.testing.assert_allclose(found, [0.5, -1, np.nan])
    assert undecided(sweep_table()).shape == (0,)


# Figures along a sweep


def test_at_interpolates_between_steps_and_is_nan_beyond():
    table = sweep_table((0.0, 1.0), (1.0, 3.0), values=(-0.5, 0.5))
    np.testing.assert_allclose(at(table, 0.25), [0.75, 2.5])
    assert np.isnan(at(table, 1.0)).all()
    assert np.isnan(rise(table))
    assert rise(table, 0.5) == pytest.approx(1.5)
    assert np.isnan(rise(table.iloc[:0]))


def test_spearman_equals_scipy_and_is_0_for_constants():
    figures = np.random.default_rng(0).integers(0, 4, (30, 5)).astype(float)
    figures[0] = 1.0
    found = spearman_per_row(FIVE, figures)
    assert found[0] == 0
    for row, correlation in zip(figures, found, strict=True):
        if len(set(row)) > 1:
            assert correlation == pytest.approx(spearmanr(FIVE, row).statistic)
    assert spearman_per_row(FIVE, np.empty((0, 5))).shape == (0,)


def test_wide_omits_incomplete_sweeps():
    rows = pd.DataFrame({"photo": ["a", "a", "b"], "value": [-1.0, 1.0, -1.0], "lightness": [50.0, 60.0, 40.0]})
    table = wide(rows, "lightness")
    assert list(table.index) == ["a"]
    assert table.loc["a"].tolist() == [50, 60]


def test_perceived_race_is_relative_to_the_pair():
    rows = pd.DataFrame({"judge_masculine": [0.3], "judge_race_Black": [0.1], "judge_race_White": [0.3]})
    race = ATTRIBUTES["race"]
    assert ATTRIBUTES["gender"].perceived(rows).tolist() == [0.3]
    assert race.perceived(rows).tolist() == pytest.approx([0.75])
    assert race.with_poles(("White", "Black")).perceived(rows).tolist() == pytest.approx([0.25])


@pytest.mark.parametrize("passed", [True, False])
def test_line_without_figure_is_neither_passed_nor_failed(passed):
    bound = {"least": 0.4 if passed else 0.6}
    assert line("effect", "gender", 0.5, "share", "", **bound).passed is passed
    assert line("effect", "gender", float("nan"), "share", "", **bound).passed is None


def test_line_with_an_upper_bound_or_without_bound():
    assert line("seam", "gender", -0.2, "share", "", most=0.1).passed is False
    assert line("seam", "gender", -0.1, "share", "", most=0.1).passed is True
    unbound = line("crossing", "gender", 0.5, "share", "")
    assert unbound.passed is None
    assert np.isnan(unbound.threshold)
