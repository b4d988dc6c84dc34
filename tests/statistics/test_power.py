import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from simulated_sweeps import SEVEN, dense, simulate_presence

from pipeline.statistics.photo_slopes import TOO_RARE
from pipeline.statistics.power import POWER_COLUMNS, power_table
from pipeline.statistics.slopes import slope_table
from pipeline.statistics.sweeps import Sweeps

OPTIONS = {"base": 0.2, "effect": 0.1, "spread": 0.2, "noise": 0.3}


def pilot(*, photos=200, labels=5, seed=1, **changes):
    return Sweeps.from_array(simulate_presence(photos=photos, labels=labels, seed=seed, **(OPTIONS | changes)), SEVEN)


def test_photos_for_width_give_intervals_of_that_width():
    needed = int(np.median(power_table(pilot(labels=60), width=0.08).photos_for_width))
    table = slope_table(pilot(photos=needed, labels=200, seed=9), resamples=100)
    assert np.mean(table["slope_high"] - table["slope_low"]) == pytest.approx(0.08, rel=0.1)


def test_photos_to_detect_give_the_requested_power():
    truth = np.mean(slope_table(pilot(photos=3000, labels=20), resamples=100)["slope"])
    needed = int(np.median(power_table(pilot(labels=60), slope=truth, power=0.8, max_p=0.01).photos_to_detect))
    table = slope_table(pilot(photos=needed, labels=400, seed=9), resamples=100, min_count=1)
    assert np.mean(table.p < 0.01) == pytest.approx(0.8, abs=0.08)


def test_width_equals_that_of_the_pilots_intervals():
    sweeps = pilot()
    table, power = slope_table(sweeps, resamples=100), power_table(sweeps)
    np.testing.assert_allclose(power.width, table["slope_high"] - table["slope_low"], rtol=0.1)


@settings(max_examples=20)
@given(st.floats(0.02, 0.3), st.floats(1e-4, 0.1), st.floats(0.5, 0.95))
def test_photos_to_detect_equal_those_of_the_noncentral_t_test(slope, max_p, power):
    sweeps = pilot(labels=2)
    table = power_table(sweeps, slope=slope, max_p=max_p, power=power, min_count=12)
    photo_slopes = dense(sweeps).transpose(2, 0, 1) @ SEVEN / (SEVEN @ SEVEN)
    for label in range(2):
        effect = slope * table["y_c"][label] / photo_slopes[label].std(ddof=1)
        photos = table.photos_to_detect[label]
        critical = stats.t.isf(max_p / 2, photos - 1)
        assert stats.nct.sf(critical, photos - 1, effect * np.sqrt(photos)) >= power - 0.04
        assert photos <= 25 or stats.nct.sf(critical, photos - 3, effect * np.sqrt(photos - 2)) < power


def test_detectable_slope_needs_all_photos_of_the_pilot():
    sweeps = pilot()
    for label, slope in enumerate(power_table(sweeps, min_count=1).detectable):
        again = power_table(sweeps, slope=slope * (1 + 1e-9), min_count=1)
        assert again.photos_to_detect[label] == 200


@settings(max_examples=20)
@given(st.floats(0.01, 0.5), st.floats(1.1, 5))
def test_smaller_targets_need_more_photos(target, factor):
    sweeps = pilot(labels=2)
    coarse = power_table(sweeps, width=target * factor, slope=target * factor)
    fine = power_table(sweeps, width=target, slope=target)
    assert (fine.photos_for_width >= coarse.photos_for_width).all()
    assert (fine.photos_to_detect >= coarse.photos_to_detect).all()


def test_min_count_bounds_the_photos_and_rare_labels_have_none():
    sweeps = pilot(base=-0.8)
    table = power_table(sweeps, width=10, slope=10)
    np.testing.assert_allclose(table.photos_for_width, np.ceil(30 / table["y_c"]))
    rare = power_table(sweeps, min_count=150)
    assert (rare.reason == TOO_RARE).all()
    assert np.isnan(rare.photos_for_width).all()
    assert list(rare.columns) == list(POWER_COLUMNS)


def test_clusters_increase_the_number_of_photos():
    y = np.repeat(simulate_presence(photos=60, labels=3, seed=1, **OPTIONS), 5, axis=0)
    sweeps = Sweeps.from_array(y, SEVEN)
    person = {photo: int(photo) // 5 for photo in sweeps.photos}
    alone = power_table(Sweeps.from_array(y[::5], SEVEN), min_count=1)
    together = power_table(sweeps, clusters=person, min_count=1)
    np.testing.assert_allclose(together.photos_for_width, 5 * alone.photos_for_width)
    np.testing.assert_allclose(together.width, alone.width)


@pytest.mark.parametrize("options", [{"width": 0}, {"slope": -1}, {"power": 1}, {"max_p": 0}, {"level": 2}])
def test_targets_out_of_range_raise(options):
    with pytest.raises(ValueError, match=next(iter(options))):
        power_table(pilot(), **options)
