"""Shares of photos compared with external shares."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import spearmanr

from pipeline.statistics.reference_shares import compare_shares, matched, rank_correlation


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=5, max_size=40))
def test_rank_correlation_equals_scipy_and_lies_in_its_interval(pairs):
    x, y = np.array(pairs, dtype=float).T
    rho, low, high = rank_correlation(x, y)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert np.isnan(rho)
        return
    assert rho == pytest.approx(spearmanr(x, y).statistic)
    assert np.isnan(low) or -1 <= low <= rho <= high <= 1


def test_interval_of_rank_correlation_is_that_of_bonett_and_wright():
    rng = np.random.default_rng(0)
    x = np.arange(30.0)
    rho, low, high = rank_correlation(x, x + 20 * rng.standard_normal(30))
    reach = 1.959964 * np.sqrt((1 + rho**2 / 2) / 27)
    assert np.arctanh([low, high]) == pytest.approx(np.arctanh(rho) + np.array([-reach, reach]), abs=1e-5)


@pytest.mark.parametrize(("x", "y"), [([1, 2, 3], [1, 2, 3]), ([1] * 6, [1, 2, 3, 4, 5, 6])])
def test_rank_correlation_of_few_or_constant_values_is_nan(x, y):
    assert np.isnan(rank_correlation(x, y)).all()


def test_shares_are_compared_by_keyword_and_modifier():
    jobs = ["baker", "clerk", "nurse", "pilot", "priest"]
    shares = pd.DataFrame({"keyword": jobs * 2, "modifier": np.repeat(["none", "male"], 5)})
    women = [0.5, 0.6, 0.9, 0.1, 0.05]
    shares = shares.assign(attribute="gender", category="feminine", photos=100, share=women + women[::-1])
    shares = shares.assign(share_low=shares["share"] - 0.1, share_high=shares["share"] + 0.1, corrected=np.nan)
    known = {"Baker ": 0.6, "clerk": 0.7, "nurse": 0.9, "pilot": 0.2, "priest": 0.1, "judge": 0.5}
    compared, correlations = compare_shares(shares, {("gender", "feminine", "women"): known})
    assert len(compared) == 10
    assert correlations.set_index("modifier")["spearman"].to_dict() == pytest.approx({"none": 1.0, "male": 0.2})
    assert compared["difference"][0] == pytest.approx(-0.1)


def test_columns_are_matched_by_category_names():
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
