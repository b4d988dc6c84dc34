import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from pipeline.statistics.multiplicity import benjamini_hochberg


@given(st.lists(st.sampled_from([0.0, 1e-9, 0.001, 0.01, 0.01, 0.04, 0.05, 0.3, 0.7, 1.0]), min_size=1, max_size=60))
def test_q_values_equal_statsmodels_with_ties(p):
    np.testing.assert_allclose(benjamini_hochberg(p), multipletests(p, method="fdr_bh")[1], rtol=0, atol=1e-12)


def test_missing_p_values_are_not_counted():
    q = benjamini_hochberg([0.01, np.nan, 0.04, np.nan])
    np.testing.assert_allclose(q, [0.02, np.nan, 0.04, np.nan])


def test_without_p_values_q_is_nan_or_empty():
    assert np.isnan(benjamini_hochberg([np.nan, np.nan])).all()
    assert len(benjamini_hochberg([])) == 0


@pytest.mark.parametrize("p", [[-0.1], [1.1], [[0.1, 0.2]]])
def test_invalid_p_values_raise(p):
    with pytest.raises(ValueError, match="p must"):
        benjamini_hochberg(p)


def test_false_discovery_rate_is_controlled():
    random = np.random.default_rng(3)
    false_discovery_rates = []
    for _ in range(200):
        null = random.uniform(size=180)
        effect = random.uniform(size=20) * 1e-4
        rejected = benjamini_hochberg(np.concatenate([null, effect])) <= 0.05
        false_discovery_rates.append(rejected[:180].sum() / max(rejected.sum(), 1))
    assert np.mean(false_discovery_rates) <= 0.055
