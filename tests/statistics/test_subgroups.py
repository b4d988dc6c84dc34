import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated_sweeps import SEVEN, dense, simulate_presence, true_slope

from pipeline.statistics.multiplicity import benjamini_hochberg
from pipeline.statistics.photo_slopes import TOO_FEW_PHOTOS
from pipeline.statistics.slopes import slope_table
from pipeline.statistics.subgroups import DIFFERENCE_COLUMNS, SUBGROUP_COLUMNS, subgroup_frames, subgroup_slopes
from pipeline.statistics.sweeps import Sweeps

QUICK = {"min_count": 1, "resamples": 200}


def sweeps_in(groups, *, seed=1, labels=4, **options):
    """Sweeps of groups with these numbers of photos, and the group of each photo."""
    parts = [
        simulate_presence(photos=count, labels=labels, seed=seed + place, **options)
        for place, count in enumerate(groups)
    ]
    names = [f"p{i:04d}" for i in range(sum(groups))]
    member = np.repeat([f"group {place}" for place in range(len(groups))], groups)
    return Sweeps.from_array(np.concatenate(parts), SEVEN, photos=names), dict(zip(names, member.tolist(), strict=True))


OPTIONS = {"base": 0.3, "effect": 0.1, "spread": 0.2, "noise": 0.3}


def test_group_slopes_equal_slopes_of_the_groups_photos():
    sweeps, groups = sweeps_in([60, 90], **OPTIONS)
    frame, _ = subgroup_slopes(sweeps, groups, **QUICK)
    of_family = ["q", "tested"]
    for group, table in frame.drop(columns=of_family).groupby("group"):
        members = sweeps.of_photos([photo for photo in sweeps.photos if groups[photo] == group])
        alone = slope_table(members, **QUICK).drop(columns=of_family)
        found = table.drop(columns="group").reset_index(drop=True)
        pd.testing.assert_frame_equal(found, alone, check_exact=True)
    assert list(frame.columns) == list(SUBGROUP_COLUMNS)
    assert frame["group"].tolist() == ["group 0"] * 4 + ["group 1"] * 4
    assert frame["q"].tolist() == benjamini_hochberg(frame["p"]).tolist()


def test_difference_equals_the_difference_of_slopes():
    sweeps, groups = sweeps_in([60, 90], **OPTIONS)
    slopes, frame = subgroup_slopes(sweeps, groups, **QUICK)
    assert list(frame.columns) == list(DIFFERENCE_COLUMNS)
    of_group = slopes.set_index("label").groupby("group")
    last, two = (of_group.get_group(group) for group in ("group 1", "group 0"))  # last - first
    np.testing.assert_allclose(frame["difference"], last["slope"] - two["slope"])
    np.testing.assert_allclose(frame["rd_difference"], last["rd_slope"] - two["rd_slope"], atol=1e-15)
    assert (frame["difference_low"] < frame["difference"]).all()
    assert (frame["difference"] < frame["difference_high"]).all()


def test_with_a_constant_centre_the_test_is_welchs():
    from scipy import stats

    scores = np.random.default_rng(0).uniform(0.1, 0.9, size=(70, 7, 2))
    scores[:, 3] = 0.5
    sweeps = Sweeps.from_array(scores, SEVEN, confidence=True)
    groups = {photo: "a" if int(photo) < 25 else "b" for photo in sweeps.photos}
    frame = subgroup_slopes(sweeps, groups, **QUICK)[1]
    photo_slopes = scores.transpose(0, 2, 1) @ SEVEN / (SEVEN @ SEVEN) / 0.5
    expected = stats.ttest_ind(photo_slopes[25:], photo_slopes[:25], equal_var=False)
    np.testing.assert_allclose(frame["p"], expected.pvalue, rtol=1e-9)
    np.testing.assert_allclose(frame["difference_low"], expected.confidence_interval().low, rtol=1e-9)


@settings(max_examples=15)
@given(st.integers(0, 50), st.booleans())
def test_reversing_values_flips_differences_and_photo_order_is_irrelevant(seed, shuffle):
    sweeps, groups = sweeps_in([20, 25, 15], seed=seed, labels=2, **OPTIONS)
    frame = subgroup_slopes(sweeps, groups, **QUICK)[1]
    y = dense(sweeps)
    order = np.random.default_rng(seed).permutation(len(y)) if shuffle else np.arange(len(y))
    photos = [sweeps.photos[place] for place in order]
    reversed_sweeps = Sweeps.from_array(y[order][:, ::-1], SEVEN, photos=photos)
    other = subgroup_slopes(reversed_sweeps, groups, **QUICK)[1]
    np.testing.assert_allclose(other["difference"], -frame["difference"], atol=1e-12)
    np.testing.assert_allclose(other["difference_high"], -frame["difference_low"], atol=1e-9)
    np.testing.assert_allclose(other["p"], frame["p"], rtol=1e-6)


def test_small_groups_and_photos_without_group_are_reported():
    sweeps, groups = sweeps_in([60, 60, 1], **OPTIONS)
    del groups["p0003"]
    slopes, differences = subgroup_slopes(sweeps, groups, **QUICK)
    assert slopes.groupby("group")["photos"].first().tolist() == [59, 60, 1]
    assert (slopes.loc[slopes["group"] == "group 2", "reason"] == TOO_FEW_PHOTOS).all()
    assert differences[["group", "other"]].drop_duplicates().values.tolist() == [["group 1", "group 0"]]
    without_groups = subgroup_slopes(sweeps, {}, **QUICK)
    slopes, differences = subgroup_frames([without_groups])
    assert slopes.empty
    assert differences.empty
    assert list(slopes.columns) == list(SUBGROUP_COLUMNS)


def test_false_positive_rate_and_coverage_are_nominal():
    options = {"base": -0.3, "spread": 0.2, "noise": 0.3, "labels": 1500}
    same, groups = sweeps_in([60, 150], effect=0.1, **options)
    quick = {"min_count": 10, "resamples": 100}
    frame = subgroup_slopes(same, groups, **quick)[1]
    assert 0.03 <= (frame["p"] < 0.05).mean() <= 0.07
    apart = np.concatenate([dense(same)[:60], simulate_presence(photos=150, effect=-0.1, seed=9, **options)])
    frame = subgroup_slopes(Sweeps.from_array(apart, SEVEN, photos=same.photos), groups, **quick)[1]
    truth = np.subtract(*(true_slope(base=-0.3, effect=effect, spread=0.2, noise=0.3) for effect in (-0.1, 0.1)))
    assert 0.925 <= frame["difference_low"].le(truth).mul(frame["difference_high"].ge(truth)).mean() <= 0.975


def test_clusters_across_groups_are_paired():
    people = simulate_presence(photos=80, labels=300, base=0.0, effect=0.0, spread=0.3, noise=0.0, seed=4)
    y = np.concatenate([people, people])
    sweeps = Sweeps.from_array(y, SEVEN)
    groups = {photo: "first" if int(photo) < 80 else "second" for photo in sweeps.photos}
    person = {photo: int(photo) % 80 for photo in sweeps.photos}
    frame = subgroup_slopes(sweeps, groups, clusters=person, **QUICK)[1]
    assert (frame["difference"] == 0).all()
    assert (frame["difference_high"] == 0).all(), "both groups have the same people and answers"


def test_families_are_named_and_counted():
    sweeps, groups = sweeps_in([60, 90], **OPTIONS)
    found = subgroup_slopes(sweeps, groups, **QUICK)
    slopes, differences = subgroup_frames([found], family=["group"])
    assert slopes["tested"].tolist() == [4] * 8
    assert slopes["family"].unique().tolist() == ["group group 0, arm edit", "group group 1, arm edit"]
    assert differences["tested"].tolist() == [4] * 4
    with pytest.raises(ValueError, match="declared by 'keyword'"):
        subgroup_frames([found], family=["keyword"])
