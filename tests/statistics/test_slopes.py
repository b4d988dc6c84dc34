import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from simulated_sweeps import SEVEN, simulate_presence, true_slope
from statsmodels.api import OLS, add_constant

from pipeline.statistics import photo_slopes as module
from pipeline.statistics.slopes import findings, ols, slope_table
from pipeline.statistics.sweeps import Sweeps

FIVE = np.linspace(-2, 2, 5)
QUICK = {"min_count": 1, "resamples": 200}
response_arrays = hnp.arrays(
    np.int8, st.tuples(st.integers(2, 12), st.just(5), st.integers(1, 4)), elements=st.integers(0, 1)
)


def frame_of(y, values=FIVE, *, confidence=False, labels=None, **options):
    sweeps = Sweeps.from_array(y, values, confidence=confidence, labels=labels)
    return slope_table(sweeps, **(QUICK | options))


# The slope


def test_hand_computed_slope():
    y = np.zeros((20, 5, 1))
    for step, count in enumerate((2, 3, 4, 5, 6)):  # .10 .15 .20 .25 .30
        y[:count, step] = 1
    row = frame_of(y).iloc[0]
    assert row["slope"] == pytest.approx(0.25, abs=1e-12)
    assert row["rd_slope"] == pytest.approx(0.05, abs=1e-12)
    assert row["inner_slope"] == pytest.approx(0.25, abs=1e-12)
    assert row["y_c"] == pytest.approx(0.2)
    assert row["count_centre"] == pytest.approx(4)
    assert row["ols_p"] == 0


@pytest.mark.parametrize("values", [SEVEN, FIVE])
def test_slope_and_ols_p_equal_statsmodels(values):
    y = simulate_presence(photos=60, labels=40, base=0.3, effect=0.1, spread=0.2, noise=0.5, seed=1, values=values)
    frame = frame_of(y, values)
    for number, row in frame.iterrows():
        z = y[:, :, number].mean(axis=0) / y[:, len(values) // 2, number].mean()
        fit = OLS(z, add_constant(values)).fit()
        assert row["slope"] == pytest.approx(fit.params[1], abs=1e-9)
        assert row["ols_p"] == pytest.approx(fit.pvalues[1], abs=1e-9)


def test_t_test_equals_statsmodels_on_photo_slopes():
    y = simulate_presence(photos=60, labels=10, base=0.3, effect=0.1, spread=0.2, noise=0.5, seed=1)
    frame = frame_of(y, SEVEN)
    for number, row in frame.iterrows():
        photo_slopes = y[:, :, number] @ SEVEN / (SEVEN @ SEVEN)
        fit = OLS(photo_slopes, np.ones(60)).fit()
        assert row["rd_slope"] == pytest.approx(fit.params[0], abs=1e-12)
        assert row["p"] == pytest.approx(fit.pvalues[0], rel=1e-9)
        np.testing.assert_allclose([row["rd_low"], row["rd_high"]], fit.conf_int()[0], atol=1e-12)


def test_inner_slope_uses_the_inner_values_only():
    y = simulate_presence(photos=80, labels=5, base=0.3, effect=0.1, spread=0.2, noise=0.5, seed=1)
    with_outliers = y.copy()
    with_outliers[:, [0, 1, 5, 6]] = 0
    plain, other = frame_of(y, SEVEN), frame_of(with_outliers, SEVEN)
    columns = ["inner_slope", "inner_low", "inner_high", "inner_p"]
    pd.testing.assert_frame_equal(plain[columns], other[columns])
    z = y[:, 2:5, 0].mean(axis=0) / y[:, 3, 0].mean()
    assert plain["inner_slope"][0] == pytest.approx(OLS(z, add_constant(SEVEN[2:5])).fit().params[1], abs=1e-9)


def test_confidence_slope_is_that_of_the_mean_scores():
    scores = np.random.default_rng(0).uniform(size=(30, 7, 6))
    frame = frame_of(scores, SEVEN, confidence=True)
    for number, row in frame.iterrows():
        z = scores[:, :, number].mean(axis=0) / scores[:, 3, number].mean()
        fit = OLS(z, add_constant(SEVEN)).fit()
        assert row["slope"] == pytest.approx(fit.params[1], abs=1e-9)
        assert row["ols_p"] == pytest.approx(fit.pvalues[1], abs=1e-9)
        assert row["slope_low"] < row["slope"] < row["slope_high"]


def test_binary_confidence_equals_presence():
    y = simulate_presence(photos=80, labels=5, base=0.3, effect=0.1, spread=0.2, noise=0.5, seed=1)
    pd.testing.assert_frame_equal(frame_of(y, SEVEN), frame_of(y.astype(float), SEVEN, confidence=True), rtol=1e-10)


# Labels without a slope


@pytest.mark.parametrize("rate", [1 / 3, 1.0])
def test_constant_label_is_not_estimable(rate):
    y = np.zeros((99, 7, 1))
    y[: round(rate * 99)] = 1
    row = frame_of(y, SEVEN).iloc[0]
    assert row["reason"] == module.CONSTANT
    assert not row["estimable"]
    assert np.isnan(row[["slope", "p", "q", "ols_p", "permutation_p", "rd_slope", "inner_p"]].to_numpy(float)).all()


def test_rounding_noise_of_constant_scores_is_not_a_finding():
    scores = np.tile(np.random.default_rng(0).uniform(size=(50, 1, 40)), (1, 7, 1))
    frame = frame_of(scores, SEVEN, confidence=True)
    assert (frame["reason"] == module.CONSTANT).all()
    assert findings(frame, max_p=1, min_slope=0).empty


def test_reasons_for_missing_slopes():
    y = np.zeros((40, 5, 5), dtype=np.int8)
    y[:20, 3:, 1] = 1  # never at a = 0
    y[:20, :, 2] = 1  # constant, and below 30 at a = 0
    y[:29, 2, 3] = 1  # 29 photos at a = 0
    y[:30, 2, 4] = 1
    y[:10, 3, 4] = 1
    frame = frame_of(y, min_count=30)
    never, constant, rare = module.NEVER_AT_CENTRE, module.CONSTANT, module.TOO_RARE
    assert frame["reason"].tolist() == [never, never, constant, rare, module.ESTIMABLE]
    assert frame["estimable"].tolist() == [False] * 4 + [True]
    assert frame["slope"].notna().tolist() == [False] * 4 + [True]
    assert (frame_of(y[:1])["reason"] == module.TOO_FEW_PHOTOS).all()
    assert (frame_of(y[:0])["reason"] == module.TOO_FEW_PHOTOS).all()


def test_identical_photos_give_the_exact_sign_test():
    y = np.zeros((10, 5, 1))
    y[:, 2:] = 1
    row = frame_of(y).iloc[0]
    # No photo differs in the sample, but some may in the population.
    assert 0 < row["slope_low"] < row["slope"] < row["slope_high"]
    assert row["p"] == 2.0**-9


def test_ols_of_a_line_and_a_constant():
    slope, p = ols(np.array([0.1 + 0.05 * FIVE, np.full(5, 0.3), np.zeros(5)]), FIVE)
    np.testing.assert_allclose(slope, [0.05, 0, 0], atol=1e-15)
    assert p[0] == 0
    assert np.isnan(p[1:]).all()


# Invariances


@settings(max_examples=25, deadline=None)
@given(response_arrays, st.integers(0, 5))
def test_label_is_independent_of_other_labels_and_block_size(y, seed):
    together = frame_of(y, seed=seed).drop(columns=["q", "label"])
    backwards = frame_of(y[:, :, ::-1], seed=seed, block=1).drop(columns=["q", "label"])
    pd.testing.assert_frame_equal(together, backwards.iloc[::-1].reset_index(drop=True), check_exact=True)


@pytest.mark.parametrize("confidence", [False, True])
def test_same_seed_gives_identical_results_for_any_block_size(confidence):
    random = np.random.default_rng(0)
    y = random.uniform(size=(57, 7, 23))
    y = y if confidence else y > 0.5
    whole = frame_of(y, SEVEN, confidence=confidence, seed=4)
    for block in (1, 2, 5, 22):
        parts = frame_of(y, SEVEN, confidence=confidence, seed=4, block=block)
        pd.testing.assert_frame_equal(whole, parts, check_exact=True)
    other = frame_of(y, SEVEN, confidence=confidence, seed=5)
    assert (other["slope_low"] == whole["slope_low"]).all()
    assert (other["bootstrap_low"] != whole["bootstrap_low"]).any()


@settings(max_examples=25, deadline=None)
@given(response_arrays, st.randoms(use_true_random=False))
def test_analytic_columns_are_invariant_to_photo_order(y, random):
    order = list(range(len(y)))
    random.shuffle(order)
    drawn = ["permutation_p", "bootstrap_low", "bootstrap_high"]
    pd.testing.assert_frame_equal(frame_of(y).drop(columns=drawn), frame_of(y[order]).drop(columns=drawn), rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(response_arrays)
def test_duplicated_photos_do_not_change_slopes(y):
    columns = ["slope", "rd_slope", "inner_slope", "ols_p"]
    pd.testing.assert_frame_equal(frame_of(y)[columns], frame_of(np.concatenate([y, y]))[columns], rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(response_arrays, st.floats(0.25, 1))
def test_scaling_the_values_divides_the_slopes(y, factor):
    plain, stretched = frame_of(y), frame_of(y, FIVE * factor)
    for column in ("slope", "rd_slope", "slope_low", "slope_high", "rd_low", "rd_high", "bootstrap_low"):
        np.testing.assert_allclose(stretched[column] * factor, plain[column], rtol=1e-9, atol=1e-12)
    for column in ("p", "ols_p", "permutation_p"):
        np.testing.assert_allclose(stretched[column], plain[column], rtol=1e-6)


@settings(max_examples=25, deadline=None)
@given(response_arrays)
def test_reversing_the_values_flips_the_sign_and_keeps_p(y):
    plain, turned = frame_of(y), frame_of(y, FIVE[::-1])
    np.testing.assert_allclose(turned["slope"], -plain["slope"], atol=1e-12)
    np.testing.assert_allclose(turned["slope_low"], -plain["slope_high"], atol=1e-9)
    np.testing.assert_allclose(turned["inner_slope"], -plain["inner_slope"], atol=1e-12)
    for column in ("p", "ols_p", "permutation_p", "inner_p"):
        np.testing.assert_allclose(turned[column], plain[column], rtol=1e-9)


@settings(max_examples=25, deadline=None)
@given(response_arrays)
def test_complementary_label_has_the_negative_risk_difference(y):
    plain, opposite = frame_of(y), frame_of(1 - y)
    both = (plain["estimable"] & opposite["estimable"]).to_numpy()
    for one, other in (("rd_slope", "rd_slope"), ("rd_low", "rd_high")):
        np.testing.assert_allclose(opposite[other][both], -plain[one][both], atol=1e-12)
    np.testing.assert_allclose(opposite["p"][both], plain["p"][both], rtol=1e-9)


def test_constant_labels_do_not_change_q():
    y = simulate_presence(photos=80, labels=6, base=0.3, effect=0.1, spread=0.2, noise=0.5, seed=1)
    more = np.concatenate([y, np.ones((80, 7, 1), dtype=np.int8)], axis=2)
    assert frame_of(more, SEVEN)["q"][:6].tolist() == frame_of(y, SEVEN)["q"].tolist()


# Inference


def test_interval_contains_zero_if_and_only_if_p_is_not_significant():
    y = simulate_presence(photos=70, labels=300, base=0.2, effect=0.06, spread=0.1, noise=0.3, seed=8)
    frame = frame_of(y, SEVEN)
    assert 30 < (frame["p"] < 0.05).sum() < 270
    assert ((frame["slope_low"] > 0) | (frame["slope_high"] < 0)).equals(frame["p"] < 0.05)


@pytest.mark.parametrize(
    ("photos", "base", "effect", "spread", "noise"),
    [
        (50, 0.5, 0.2, 0.3, 0.3),  # few photos
        (200, -0.8, 0.1, 0.1, 0.3),  # a fifth has the label
        (1000, -1.6, -0.2, 0.2, 0.2),  # rare
        (1000, 0.0, 0.0, 0.2, 0.0),  # smooth classifier, faces that react differently, no effect on average
    ],
)
def test_intervals_cover_the_true_slope(photos, base, effect, spread, noise):
    truth = true_slope(base=base, effect=effect, spread=spread, noise=noise)
    y = simulate_presence(photos=photos, labels=1200, base=base, effect=effect, spread=spread, noise=noise, seed=11)
    frame = frame_of(y, SEVEN, min_count=30, resamples=400)
    frame = frame[frame["estimable"]]
    assert len(frame) > 600
    covered = ((frame["slope_low"] <= truth) & (truth <= frame["slope_high"])).mean()
    resampled = ((frame["bootstrap_low"] <= truth) & (truth <= frame["bootstrap_high"])).mean()
    assert 0.93 <= covered <= 0.97
    assert 0.92 <= resampled <= 0.97


def test_false_positive_rate_is_nominal():
    y = simulate_presence(photos=500, labels=3000, base=-0.5, effect=0.0, spread=0.1, noise=0.1, seed=12)
    frame = frame_of(y, SEVEN, min_count=30, resamples=400)
    for column in ("p", "inner_p", "permutation_p"):
        assert 0.03 <= (frame[column] < 0.05).mean() <= 0.07, column
    assert (frame["q"] < 0.05).mean() <= 0.05
    assert (frame["ols_p"] < 0.05).mean() > 0.12, "OLS over steps ignores the sampling of photos"


def test_clustered_inference_equals_inference_on_one_photo_per_person():
    people, photos_each = 60, 8
    y = np.repeat(
        simulate_presence(photos=people, labels=400, base=0, effect=0.0, spread=0.2, noise=0.0, seed=5),
        photos_each,
        axis=0,
    )
    sweeps = Sweeps.from_array(y, SEVEN)
    person = {photo: int(photo) // photos_each for photo in sweeps.photos}
    naive = slope_table(sweeps, **QUICK)
    clustered = slope_table(sweeps, clusters=person, **QUICK)
    alone = slope_table(Sweeps.from_array(y[::photos_each], SEVEN), **QUICK)
    for column in ("p", "slope_low", "bootstrap_low", "permutation_p"):
        np.testing.assert_allclose(clustered[column], alone[column], rtol=1e-9)
    assert (naive.p < 0.05).mean() > 0.3
    assert 0.02 <= (clustered.p < 0.05).mean() <= 0.08


def test_clusters_of_different_sizes_keep_the_slope():
    y = simulate_presence(photos=90, labels=4, base=0.5, effect=0.1, spread=0.2, noise=0.2, seed=5)
    sweeps = Sweeps.from_array(y, SEVEN)
    person = {photo: int(int(photo) ** 0.7) for photo in sweeps.photos}
    frame = slope_table(sweeps, clusters=person, **QUICK)
    np.testing.assert_allclose(frame["slope"], frame_of(y, SEVEN)["slope"])
    assert (frame["bootstrap_low"] < frame["slope"]).all()
    assert (frame["slope"] < frame["bootstrap_high"]).all()
    with pytest.raises(ValueError, match="no cluster for the photo '0'"):
        slope_table(sweeps, clusters={}, **QUICK)


def test_label_with_zero_slope_in_every_photo_has_an_interval():
    """All 36 photos have the label at every step, except one photo at a = 0: every photo's own slope is zero."""
    y = np.ones((36, 7, 1), dtype=int)
    y[0, 3, 0] = 0
    row = slope_table(Sweeps.from_array(y, SEVEN), resamples=50).iloc[0]
    assert row["estimable"]
    assert (row["slope"], row["p"]) == (0, 1)
    # At most 1 - .025 ** (1 / 36) = 9.7 % of photos have a slope, of at most 6 steps of 2 / 3 over 112 / 9.
    reach = (1 - 0.025 ** (1 / 36)) * 6 * (2 / 3) / (112 / 9)
    assert [row["rd_low"], row["rd_high"]] == pytest.approx([-reach, reach])
    assert [row["slope_low"], row["slope_high"]] == pytest.approx([-reach * 36 / 35, reach * 36 / 35])
    assert row["bootstrap_low"] < 0 < row["bootstrap_high"]
    assert row["inner_low"] < 0 < row["inner_high"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"min_count": float("nan")}, "min_count must be 0 or more, not nan"),
        ({"min_count": -1}, "min_count must be 0 or more, not -1"),
        ({"level": 95}, "level must lie between 0 and 1"),
        ({"level": 1.0}, "level"),
        ({"resamples": 0}, "resamples"),
        ({"resamples": 2.5}, "resamples must be a whole number of 1 or more, not 2.5"),
        ({"clusters": {"0": None, "1": 1}}, "clusters has no cluster for the photo '0'"),
        ({"clusters": {"0": float("nan"), "1": 1}}, "clusters has no cluster for the photo '0'"),
    ],
)
def test_invalid_options_raise(options, message):
    y = np.ones((2, 3, 1), dtype=int)
    with pytest.raises(ValueError, match=message):
        slope_table(Sweeps.from_array(y, [-1, 0, 1]), **options)
