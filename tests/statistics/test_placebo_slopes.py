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


def test_every_edit_has_its_placebos_next_to_it(sweeps):
    plain = slope_frame(sweeps, resamples=100)
    frame = with_placebos(plain, sweeps)
    assert list(frame.columns[: len(SLOPE_COLUMNS)]) == list(SLOPE_COLUMNS)
    assert len(frame) == len(plain)
    edit = frame[(frame["adapter"] == "one") & (frame["arm"] == "edit")]
    own = plain[plain["arm"] == "random"]
    assert edit["random_slope"].tolist() == own["slope"].tolist()
    assert edit["random_q"].tolist() == own["q"].tolist()
    np.testing.assert_allclose(edit["random_difference"], edit["slope"].to_numpy() - own["slope"].to_numpy())
    assert (edit["random_difference_low"] > 0).all()
    assert edit["random_difference_q"].tolist() == benjamini_hochberg(edit["random_difference_p"]).tolist()
    assert (edit["colour_difference"] == 0).all(), "the placebo shows the same"
    assert (edit["colour_difference_p"] == 1).all()


def test_others_have_nothing_next_to_them(sweeps):
    frame = with_placebos(slope_frame(sweeps, resamples=100), sweeps)
    others = frame[(frame["adapter"] == "two") | (frame["arm"] != "edit")]
    assert others.filter(regex="^(random|colour)_").isna().all(axis=None)


def test_without_placebos_nothing_is_added(sweeps):
    edits = [each for each in sweeps if each.arm == "edit"]
    frame = slope_frame(edits, resamples=100)
    assert list(with_placebos(frame, edits).columns) == list(SLOPE_COLUMNS)
    assert with_placebos(slope_frame([]), []).empty


def placebo_run(effect, placebo, *, attribute="gender", arm="random", steps=slice(None)):
    """The frame of one edit and its placebo; each is an effect, or the responses themselves."""
    parts = [
        ("one", attribute, "edit", simulate_presence(effect=effect, seed=1, **OPTIONS)),
        (
            "one",
            attribute,
            arm,
            placebo if isinstance(placebo, np.ndarray) else simulate_presence(effect=placebo, seed=3, **OPTIONS),
        ),
    ]
    sweeps = sweeps_of(*simulated_run(parts))
    sweeps = [each if each.arm == "edit" else each.of_values(each.values[steps]) for each in sweeps]
    frame = with_placebos(slope_frame(sweeps, resamples=100), sweeps)
    return frame[frame["arm"] == "edit"]


def test_a_finding_must_exceed_its_placebo():
    beyond, shown = placebo_run(0.3, 0.0), placebo_run(0.3, 0.3)
    assert len(findings(beyond)) == len(beyond)
    assert set(beyond["placebo"]) == {"random"}
    np.testing.assert_allclose(beyond["net_slope"].astype(float), beyond["random_difference"])
    assert (beyond["net_low"] > 0).all()
    assert findings(shown).empty
    assert (shown["p"] < 0.001).all(), "the slope alone would be one"
    opposite = placebo_run(0.3, 0.6)
    assert findings(opposite).empty, "less than the placebo is not more"


def test_a_label_that_a_placebo_leaves_alone_keeps_its_whole_slope():
    still = simulate_presence(effect=0.0, seed=3, **(OPTIONS | {"noise": 0.0}))
    still[:] = still[:, :1]
    frame = placebo_run(0.3, still)
    np.testing.assert_allclose(frame["random_difference"], frame["slope"])
    assert len(findings(frame)) == len(frame)


def test_where_skin_colour_belongs_to_the_attribute_its_placebo_is_no_hurdle():
    assert len(findings(placebo_run(0.3, 0.3, attribute="race", arm="colour"))) == OPTIONS["labels"]
    assert findings(placebo_run(0.3, 0.3, attribute="gender", arm="colour")).empty


def test_a_placebo_with_fewer_values_is_compared_at_these():
    frame = placebo_run(0.3, 0.0, steps=[0, 3, 6])
    assert (frame["random_difference"] > 0.1).all()
    own = placebo_run(0.3, 0.3, steps=[0, 3, 6])
    assert not own["exceeds_placebos"].any()


def test_the_record_on_disk_says_the_same():
    frame = placebo_run(0.3, 0.3)
    read = frame_from_csv(frame_to_csv(frame), column_types(frame))
    assert findings(read).empty
