import numpy as np
import pytest
from simulated_sweeps import simulate_presence, simulated_run

from pipeline.run.tables import column_types, frame_from_csv, frame_to_csv
from pipeline.statistics.multiplicity import benjamini_hochberg
from pipeline.statistics.placebos import with_placebos
from pipeline.statistics.slopes import SLOPE_COLUMNS, findings, slope_frame
from pipeline.statistics.sweep_tables import sweeps_of

OPTIONS = {"photos": 120, "labels": 4, "base": 0.3, "spread": 0.1, "noise": 0.3}


@pytest.fixture(scope="module")
def sweeps():
    edit = simulate_presence(effect=0.3, seed=1, **OPTIONS)
    parts = [
        ("one", "gender", "edit", edit),
        ("one", "gender", "random", simulate_presence(effect=0.0, seed=3, **OPTIONS)),
        ("one", "gender", "colour", edit),
        ("two", "gender", "edit", simulate_presence(effect=-0.1, seed=2, **OPTIONS)),
    ]
    return sweeps_of(*simulated_run(parts))


def test_edits_have_the_columns_of_their_placebos(sweeps):
    plain = slope_frame(sweeps, resamples=100)
    frame = with_placebos(plain, sweeps)
    assert list(frame.columns[: len(SLOPE_COLUMNS)]) == list(SLOPE_COLUMNS)
    assert len(frame) == len(plain)
    edit = frame[(frame["adapter"] == "one") & (frame["arm"] == "edit")]
    placebo_slopes = plain[plain["arm"] == "random"]
    assert edit["random_slope"].tolist() == placebo_slopes["slope"].tolist()
    assert edit["random_q"].tolist() == placebo_slopes["q"].tolist()
    np.testing.assert_allclose(edit["random_difference"], edit["slope"].to_numpy() - placebo_slopes["slope"].to_numpy())
    assert (edit["random_difference_low"] > 0).all()
    assert edit["random_difference_q"].tolist() == benjamini_hochberg(edit["random_difference_p"]).tolist()
    assert (edit["colour_difference"] == 0).all(), "the placebo has the same responses"
    assert (edit["colour_difference_p"] == 1).all()


def test_other_rows_have_no_placebo_values(sweeps):
    frame = with_placebos(slope_frame(sweeps, resamples=100), sweeps)
    others = frame[(frame["adapter"] == "two") | (frame["arm"] != "edit")]
    assert others.filter(regex="^(random|colour)_").isna().all(axis=None)


def test_without_placebos_no_column_is_added(sweeps):
    edits = [sweep for sweep in sweeps if sweep.arm == "edit"]
    frame = slope_frame(edits, resamples=100)
    assert list(with_placebos(frame, edits).columns) == list(SLOPE_COLUMNS)
    assert with_placebos(slope_frame([]), []).empty


def placebo_run(effect, placebo, *, attribute="gender", arm="random", steps=slice(None)):
    """The slopes of an edit with this effect, with its placebo: an effect or an array of responses."""
    if not isinstance(placebo, np.ndarray):
        placebo = simulate_presence(effect=placebo, seed=3, **OPTIONS)
    edit = simulate_presence(effect=effect, seed=1, **OPTIONS)
    sweeps = sweeps_of(*simulated_run([("one", attribute, "edit", edit), ("one", attribute, arm, placebo)]))
    sweeps = [sweep if sweep.arm == "edit" else sweep.of_values(sweep.values[steps]) for sweep in sweeps]
    frame = with_placebos(slope_frame(sweeps, resamples=100), sweeps)
    return frame[frame["arm"] == "edit"]


def test_finding_must_exceed_its_placebo():
    larger, equal = placebo_run(0.3, 0.0), placebo_run(0.3, 0.3)
    assert len(findings(larger)) == len(larger)
    assert set(larger["placebo"]) == {"random"}
    np.testing.assert_allclose(larger["net_slope"].astype(float), larger["random_difference"])
    assert (larger["net_low"] > 0).all()
    assert findings(equal).empty
    assert (equal["p"] < 0.001).all(), "the slope alone would be a finding"
    assert findings(placebo_run(0.3, 0.6)).empty, "smaller than the placebo"


def test_label_unaffected_by_the_placebo_keeps_its_slope():
    still = simulate_presence(effect=0.0, seed=3, **(OPTIONS | {"noise": 0.0}))
    still[:] = still[:, :1]
    frame = placebo_run(0.3, still)
    np.testing.assert_allclose(frame["random_difference"], frame["slope"])
    assert len(findings(frame)) == len(frame)


def test_colour_placebo_does_not_restrict_findings_on_race():
    assert len(findings(placebo_run(0.3, 0.3, attribute="race", arm="colour"))) == OPTIONS["labels"]
    assert findings(placebo_run(0.3, 0.3, attribute="gender", arm="colour")).empty


def test_placebo_with_fewer_values_is_compared_at_those_values():
    assert (placebo_run(0.3, 0.0, steps=[0, 3, 6])["random_difference"] > 0.1).all()
    assert not placebo_run(0.3, 0.3, steps=[0, 3, 6])["exceeds_placebos"].any()


def test_findings_survive_a_csv_round_trip():
    frame = placebo_run(0.3, 0.3)
    read = frame_from_csv(frame_to_csv(frame), column_types(frame))
    assert findings(read).empty
