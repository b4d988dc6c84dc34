import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import stats
from simulated_sweeps import SEVEN, simulate_presence, true_slope

from pipeline.statistics.comparison import COMPARISON_COLUMNS, compare, comparison_frame, only_in
from pipeline.statistics.photo_slopes import CONSTANT, NEVER_AT_CENTRE
from pipeline.statistics.sweeps import Sweeps

FIVE = np.linspace(-2, 2, 5)
QUICK = {"min_count": 1}
responses = hnp.arrays(
    np.int8, st.tuples(st.integers(2, 12), st.just(5), st.integers(1, 3)), elements=st.integers(0, 1)
)


def as_sweeps(y, values=SEVEN, **options):
    return Sweeps.from_array(y, values, photos=[f"p{i:04d}" for i in range(len(y))], **options)


@settings(max_examples=25)
@given(responses)
def test_identical_sweeps_have_a_difference_of_exactly_zero(y):
    frame = compare(as_sweeps(y, FIVE), as_sweeps(y, FIVE), **QUICK)
    estimable = frame[frame["estimable"]]
    for column in ("difference", "difference_low", "difference_high", "rd_difference", "rd_low", "rd_high"):
        assert (estimable[column] == 0).all()
    assert (estimable["p"] == 1).all()


@settings(max_examples=25)
@given(responses, st.randoms(use_true_random=False))
def test_swapping_sweeps_flips_the_sign_and_photo_order_is_irrelevant(y, random):
    order = list(range(len(y)))
    random.shuffle(order)
    first, second = as_sweeps(y, FIVE), as_sweeps(y[:, ::-1], FIVE)
    frame = compare(first, second, **QUICK)
    swapped = compare(second, first, **QUICK)
    np.testing.assert_allclose(frame["difference"], -swapped["difference"], atol=1e-12)
    np.testing.assert_allclose(frame["difference_low"], -swapped["difference_high"], atol=1e-12)
    np.testing.assert_allclose(frame["p"], swapped["p"], rtol=1e-6)
    shuffled = second.of_photos([second.photos[place] for place in order])
    again = compare(first, shuffled, **QUICK)
    pd.testing.assert_frame_equal(frame, again, rtol=1e-9)


@settings(max_examples=25)
@given(responses, st.floats(0.25, 1))
def test_reversing_values_flips_and_scaling_values_divides_the_difference(y, factor):
    first, second = as_sweeps(y, FIVE), as_sweeps(y[::-1], FIVE)
    plain = compare(first, second, **QUICK)
    reversed_values = compare(as_sweeps(y[:, ::-1], FIVE), as_sweeps(y[::-1, ::-1], FIVE), **QUICK)
    stretched = compare(as_sweeps(y, FIVE * factor), as_sweeps(y[::-1], FIVE * factor), **QUICK)
    np.testing.assert_allclose(reversed_values["difference"], -plain["difference"], atol=1e-12)
    np.testing.assert_allclose(stretched["difference"] * factor, plain["difference"], rtol=1e-9, atol=1e-12)


def test_with_a_constant_centre_the_test_is_the_paired_t_test():
    random = np.random.default_rng(0)
    scores = random.uniform(0.1, 0.9, size=(2, 60, 7, 3))
    scores[:, :, 3] = 0.5  # y_c without noise
    first, second = (as_sweeps(part, confidence=True) for part in scores)
    frame = compare(first, second, **QUICK)
    photo_slopes = scores.transpose(0, 1, 3, 2) @ SEVEN / (SEVEN @ SEVEN) / 0.5
    expected = stats.ttest_rel(photo_slopes[0], photo_slopes[1], axis=0)
    interval = expected.confidence_interval(0.95)
    np.testing.assert_allclose(frame["p"], expected.pvalue, rtol=1e-9)
    np.testing.assert_allclose(frame["difference_low"], interval.low, rtol=1e-9)
    np.testing.assert_allclose(frame["difference_high"], interval.high, rtol=1e-9)


def test_pairing_by_photo_narrows_the_interval():
    y = simulate_presence(photos=300, labels=60, base=0.0, effect=0.1, spread=0.3, noise=0.3, seed=1)
    other = y.copy()
    other[::40, 6] = 1
    frame = compare(as_sweeps(y), as_sweeps(other), **QUICK)
    alone = compare(as_sweeps(y), as_sweeps(np.roll(other, 150, axis=0)), **QUICK)
    width = (frame["difference_high"] - frame["difference_low"]).mean()
    assert width < 0.5 * (alone["difference_high"] - alone["difference_low"]).mean()


def test_photos_missing_from_one_sweep_are_listed_and_excluded():
    y = simulate_presence(photos=80, labels=3, base=0.3, effect=0.1, spread=0.1, noise=0.3, seed=2)
    whole = as_sweeps(y)
    part = whole.of_photos(whole.photos[5:60])
    compared = compare(whole, part, **QUICK)
    assert only_in(whole, part) == whole.photos[:5] + whole.photos[60:]
    assert only_in(part, whole) == ()
    assert (compared["photos"] == 55).all()
    assert (compared["difference"] == 0).all()


def test_label_of_one_sweep_only_has_a_reason_and_no_difference():
    y = simulate_presence(photos=50, labels=3, base=0.3, effect=0.1, spread=0.1, noise=0.3, seed=2)
    y[:, :, 1] = 1
    first = as_sweeps(y, labels=["a", "b", "c"])
    second = as_sweeps(y[:, :, [0, 1]], labels=["a", "b"])
    frame = compare(first, second, names=("old", "new"), **QUICK).set_index("label")
    assert list(frame.reset_index().columns.intersection(COMPARISON_COLUMNS)) != []
    assert frame.loc["c", "reason"] == f"new: {NEVER_AT_CENTRE}"
    assert frame.loc["b", "reason"] == f"old: {CONSTANT}; new: {CONSTANT}"
    assert frame["estimable"].tolist() == [True, False, False]
    assert frame["difference"].isna().tolist() == [False, True, True]
    assert frame["tested"].tolist() == [1, 1, 1]


@pytest.mark.parametrize("photos", [50, 400])
def test_false_positive_rate_and_coverage_are_nominal(photos):
    options = {"photos": photos, "labels": 1500, "base": -0.4, "spread": 0.15, "noise": 0.3}
    left, right = simulate_presence(effect=0.1, seed=3, **options), simulate_presence(effect=0.1, seed=4, **options)
    frame = compare(as_sweeps(left), as_sweeps(right), min_count=15)
    assert 0.03 <= (frame.loc[frame["estimable"], "p"] < 0.05).mean() <= 0.07
    far = simulate_presence(effect=-0.05, seed=5, **options)
    truth = np.subtract(*(true_slope(base=-0.4, effect=effect, spread=0.15, noise=0.3) for effect in (0.1, -0.05)))
    frame = compare(as_sweeps(left), as_sweeps(far), min_count=15)
    frame = frame[frame["estimable"]]
    covered = (frame["difference_low"] <= truth) & (truth <= frame["difference_high"])
    assert 0.925 <= covered.mean() <= 0.975


def test_clusters_widen_intervals_and_family_counts_all_frames():
    options = {"photos": 40, "labels": 3, "base": 0.2, "effect": 0.1, "spread": 0.3, "noise": 0.1}
    y, other = (np.repeat(simulate_presence(seed=seed, **options), 6, axis=0) for seed in (5, 6))
    person = {f"p{i:04d}": i // 6 for i in range(240)}
    naive, clustered = (
        compare(as_sweeps(y), as_sweeps(other), clusters=cluster, **QUICK) for cluster in (None, person)
    )
    alone = compare(as_sweeps(y[::6]), as_sweeps(other[::6]), **QUICK)
    np.testing.assert_allclose(clustered["difference"], naive["difference"])
    np.testing.assert_allclose(clustered["difference_low"], alone["difference_low"])
    assert (clustered["difference_low"] < naive["difference_low"]).all()
    together = comparison_frame([naive, clustered], family=())
    assert (together["tested"] == 6).all()
    assert comparison_frame([]).empty


def test_sweeps_of_other_values_raise():
    y = np.ones((3, 5, 1))
    with pytest.raises(ValueError, match="column 'value' of old holds -2, -1, 0, 1, 2, but that of new"):
        compare(as_sweeps(y, FIVE), as_sweeps(y, FIVE / 2), names=("old", "new"))
    with pytest.raises(ValueError, match="both be presence"):
        compare(as_sweeps(y, FIVE), as_sweeps(y, FIVE, confidence=True))
