"""Frames of the slopes, curves and findings of a run."""

import numpy as np
import pandas as pd
import pytest
from simulated_sweeps import dense, simulate_presence, simulated_run

from pipeline.config.attributes import EDIT_ARM
from pipeline.statistics.multiplicity import benjamini_hochberg
from pipeline.statistics.slopes import SLOPE_COLUMNS, curve_frame, findings, slopes_of
from pipeline.statistics.sweep_tables import sweeps_of
from pipeline.statistics.sweeps import Sweeps

FIVE = np.linspace(-2, 2, 5)


@pytest.fixture(scope="module")
def run():
    options = {"photos": 120, "labels": 4, "base": 0.3, "spread": 0.1, "noise": 0.3}
    return simulated_run(
        [
            ("one", "gender", EDIT_ARM, simulate_presence(effect=0.3, seed=1, **options)),
            ("two", "gender", EDIT_ARM, simulate_presence(effect=-0.1, seed=2, **options)),
            ("two", "gender", "random", simulate_presence(effect=0.0, seed=3, **options)),
        ]
    )


def test_frame_has_a_row_per_adapter_arm_and_label(run):
    frame = slopes_of(*run, resamples=200)
    assert list(frame.columns) == list(SLOPE_COLUMNS)
    sizes = frame.groupby(["adapter", "arm"]).size().to_dict()
    assert sizes == {("one", "edit"): 4, ("two", "edit"): 4, ("two", "random"): 4}
    assert (frame["photos"] == 120).all()
    assert frame["estimable"].all()
    assert (frame.loc[frame["adapter"] == "one", "slope"] > 0).all()


def test_q_is_adjusted_within_edits_and_within_placebos(run):
    frame = slopes_of(*run, resamples=200)
    for arm, family in frame.groupby("arm"):
        assert family["q"].tolist() == benjamini_hochberg(family["p"]).tolist(), arm


def test_frame_is_invariant_to_row_order(run):
    shuffled = (table.sample(frac=1, random_state=0) for table in run)
    pd.testing.assert_frame_equal(slopes_of(*run, resamples=200), slopes_of(*shuffled, resamples=200), check_exact=True)


def test_findings_are_grouped_by_direction_and_sorted_by_size(run):
    frame = slopes_of(*run, resamples=200)
    called = findings(frame)
    assert len(called) >= 5
    assert (called["p"] < 0.001).all()
    assert (called["slope"].abs() > 0.03).all()
    assert (np.sign(called["slope"]) == called["direction"]).all()
    for _, group in called.groupby(["adapter", "arm", "direction"]):
        assert group["slope"].abs().is_monotonic_decreasing
    assert len(findings(frame, min_slope=10)) == 0
    assert len(findings(frame, by="q", max_p=0.05)) >= len(findings(frame, by="q", max_p=0.001))


def test_run_without_answers_or_labels_gives_an_empty_frame(run):
    labels, answers = run
    for frame in (slopes_of(labels.iloc[:0], answers), slopes_of(labels.iloc[:0], answers.iloc[:0])):
        assert frame.empty
        assert list(frame.columns) == list(SLOPE_COLUMNS)
        assert findings(frame).empty


def test_curves_have_rates_and_bands(run):
    sweeps = sweeps_of(*run)[0]
    frame = curve_frame(sweeps, labels=["l1", "l0"])
    assert frame["label"].unique().tolist() == ["l1", "l0"]
    first = frame[frame["label"] == "l1"]
    np.testing.assert_allclose(first["y"], dense(sweeps)[:, :, 1].mean(axis=0))
    np.testing.assert_allclose(first["z"], first["y"] / first["y"].iloc[3])
    assert first[["z", "z_low", "z_high"]].iloc[3].tolist() == [1, 1, 1]
    others = first.drop(index=first.index[3])
    assert (others["z_low"] < others["z"]).all()
    assert (others["z"] < others["z_high"]).all()
    assert len(curve_frame(sweeps)) == 4 * 7
    with pytest.raises(KeyError, match="no label 'l9'"):
        curve_frame(sweeps, labels=["l9"])


def test_label_absent_at_the_centre_has_no_normalised_curve():
    y = np.zeros((4, 5, 1))
    y[:, 4] = 1
    frame = curve_frame(Sweeps.from_array(y, FIVE))
    assert frame["y"].tolist() == [0, 0, 0, 0, 1]
    assert frame[["z", "z_low", "z_high"]].isna().all(axis=None)
