"""Shares of photos against shares that others counted."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from pipeline.statistics.reference_shares import compare_shares, matched, rank_correlation


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=5, max_size=40))
def test_the_correlation_is_scipys_and_inside_its_interval(pairs):
    x, y = np.array(pairs, dtype=float).T
    rho, low, high = rank_correlation(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(rho)
        return
    assert rho == pytest.approx(spearmanr(x, y).statistic)
    assert np.isnan(low) or -1 <= low <= rho <= high <= 1


def test_the_interval_is_that_of_bonett_and_wright():
    rng = np.random.default_rng(0)
    x = np.arange(30.0)
    rho, low, high = rank_correlation(x, x + 20 * rng.standard_normal(30))
    reach = 1.959964 * np.sqrt((1 + rho**2 / 2) / 27)
    assert np.arctanh([low, high]) == pytest.approx(np.arctanh(rho) + np.array([-reach, reach]), abs=1e-5)


@pytest.mark.parametrize(("x", "y"), [([1, 2, 3], [1, 2, 3]), ([1] * 6, [1, 2, 3, 4, 5, 6])])
def test_few_or_constant_values_have_none(x, y):
    assert np.isnan(rank_correlation(x, y)).all()


def test_shares_by_keyword_and_modifier():
    jobs = ["baker", "clerk", "nurse", "pilot", "priest"]
    base = {"attribute": "gender", "category": "feminine", "photos": 100, "corrected": np.nan}
    shares = pd.DataFrame(
        [
            base
            | {
                "keyword": job,
                "modifier": modifier,
                "share": share,
                "share_low": share - 0.1,
                "share_high": share + 0.1,
            }
            for modifier, turn in (("none", 1), ("male", -1))
            for job, share in zip(jobs, np.array([0.5, 0.6, 0.9, 0.1, 0.05])[::turn], strict=True)
        ]
    )
    known = dict(
        zip(["Baker ", "clerk", "nurse", "pilot", "priest", "judge"], [0.6, 0.7, 0.9, 0.2, 0.1, 0.5], strict=True)
    )
    compared, correlations = compare_shares(shares, {("gender", "feminine", "women"): known})
    assert len(compared) == 10
    assert correlations.set_index("modifier")["spearman"].to_dict() == pytest.approx({"none": 1.0, "male": 0.2})
    assert compared["difference"][0] == pytest.approx(-0.1)


def test_columns_are_known_by_the_classes_that_they_name():
    words = {
        ("gender", "feminine"): ["female", "women"],
        ("gender", "masculine"): ["male"],
        ("race", "Black"): ["Black"],
    }
    columns = ["bls_pct_female", "Male %", "black_or_african_american", "year", "male_to_female"]
    assert matched(columns, words) == {
        "bls_pct_female": ("gender", "feminine"), "Male %": ("gender", "masculine"),
        "black_or_african_american": ("race", "Black"),
    }  # fmt: skip
