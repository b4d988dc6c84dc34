import numpy as np
import pytest
from scipy import stats

from pipeline.statistics import inference
from pipeline.statistics.inference import Spread, Units


def units_and_spreads(*arrays):
    units = Units.of(arrays[0].shape[1])
    return units, *(Spread.of(array, units) for array in arrays)


def test_t_test_equals_scipy():
    x = np.random.default_rng(0).normal(0.2, 1, size=(5, 40))
    units, spread = units_and_spreads(x)
    expected = stats.ttest_1samp(x, 0, axis=1)
    np.testing.assert_allclose(inference.t_test(spread, units), expected.pvalue, rtol=1e-10)
    low, high = inference.mean_interval(spread, units, level=0.9)
    interval = expected.confidence_interval(0.9)
    np.testing.assert_allclose([low, high], [interval.low, interval.high], rtol=1e-10)


def test_p_of_identical_units_ignores_rounding_noise():
    units, spread = units_and_spreads(np.array([np.full(7, 0.1), np.zeros(7)]))
    assert inference.t_test(spread, units).tolist() == [2.0**-6, 1]


def test_ends_of_a_ratio_interval_have_p_equal_to_alpha():
    random = np.random.default_rng(1)
    top, bottom = random.normal(0.3, 1, size=(4, 50)), random.normal(1, 0.5, size=(4, 50))
    units, above, below = units_and_spreads(top, bottom)
    for end in inference.ratio_interval(above, below, units, level=0.95):
        p = stats.ttest_1samp(top - end[:, None] * bottom, 0, axis=1).pvalue
        np.testing.assert_allclose(p, 0.05, rtol=1e-6)


def test_ratio_to_a_mean_near_zero_is_unbounded():
    random = np.random.default_rng(1)
    units, above, below = units_and_spreads(random.normal(size=(1, 50)), random.normal(size=(1, 50)))
    assert inference.ratio_interval(above, below, units, level=0.95) == (-np.inf, np.inf)


def test_resamples_keep_the_number_of_units():
    counts = inference.bootstrap_counts(Units.of(31), resamples=50, seed=0)
    assert (counts.sum(axis=1) == 31).all()
    assert len(np.unique(counts, axis=0)) == 50
    flips = inference.sign_flips(Units.of(31), resamples=50, seed=0)
    assert set(np.unique(flips)) == {-1, 1}


def test_percentile_interval_equals_an_explicit_bootstrap():
    random = np.random.default_rng(2)
    top, bottom = random.integers(-3, 4, size=(3, 40)), random.integers(0, 2, size=(3, 40))
    counts = inference.bootstrap_counts(Units.of(40), resamples=300, seed=0)
    low, high = inference.percentile_interval(top, bottom, counts, level=0.9)
    for label in range(3):
        ratios = [(weights * top[label]).sum() / (weights * bottom[label]).sum() for weights in counts]
        np.testing.assert_allclose([low[label], high[label]], np.quantile(ratios, [0.05, 0.95]), rtol=1e-12)


def test_resamples_with_zero_denominator_are_ignored():
    bottom = np.zeros((2, 5), dtype=np.int64)
    bottom[0, 0] = 1
    counts = inference.bootstrap_counts(Units.of(5), resamples=200, seed=0)
    low, high = inference.percentile_interval(bottom, bottom, counts, level=0.95)
    assert (low[0], high[0]) == (1, 1)
    assert np.isnan([low[1], high[1]]).all()


def test_sign_flip_test_approximates_the_exact_test():
    x = np.array([[3, 1, 2, 2, -1, 4, 1, 0]])
    flips = 1 - 2 * ((np.arange(256)[:, None] >> np.arange(8)) & 1)
    exact = (np.abs(flips @ x[0]) >= abs(x.sum())).mean()
    p = inference.sign_flip_test(x, inference.sign_flips(Units.of(8), resamples=20_000, seed=0))
    assert p[0] == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_product_is_invariant_to_order(kind):
    random = np.random.default_rng(3)
    x = (random.normal(size=(6, 1001)) * 1000).astype(kind)
    counts = inference.bootstrap_counts(Units.of(1001), resamples=40, seed=0)
    product = inference.exact_product(x, counts)
    order = random.permutation(1001)
    assert (inference.exact_product(x[:, order], counts[:, order]) == product).all()
    assert (inference.exact_product(x[2:3], counts) == product[2:3]).all()
    np.testing.assert_allclose(product, x @ counts.T.astype(np.float64), rtol=1e-10, atol=1e-6)


def test_product_of_large_integers_is_exact():
    x = np.full((1, 3), 2**30 + 1)
    counts = np.ones((1, 3), dtype=np.float32)
    assert inference.exact_product(x, counts)[0, 0] == 3 * (2**30 + 1)


def test_missing_clusters_raise():
    with pytest.raises(ValueError, match="for each of 3 rows, not 2"):
        Units.of(3, clusters=["a", "b"])


def test_streamed_draws_equal_draws_in_memory(monkeypatch):
    """numpy draws int8 numbers four at a time: sign flips are equal only for chunks of a multiple of four."""
    units, random = Units.of(40), np.random.default_rng(0)
    top, bottom = random.integers(-6, 7, (3, 40)), random.integers(0, 2, (3, 40)).astype(np.int8)
    options = {"resamples": 60, "seed": 4}
    held = inference.bootstrap_draws(units, **options), inference.sign_flips(units, **options)
    monkeypatch.setattr(inference, "MAX_HELD", 100)
    monkeypatch.setattr(inference, "CHUNK", 40 * 7)
    streamed = inference.bootstrap_draws(units, **options), inference.sign_flips(units, **options)
    assert len(list(streamed[0])) == 9
    ends = [inference.percentile_interval(top, bottom, counts, level=0.9) for counts in (held[0], streamed[0])]
    assert np.array_equal(*ends, equal_nan=True)
    assert (inference.sign_flip_test(top, held[1]) == inference.sign_flip_test(top, streamed[1])).all()
