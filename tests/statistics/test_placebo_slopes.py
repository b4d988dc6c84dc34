import numpy as np
import pytest
from simulated_sweeps import faces, run_of

from pipeline.statistics.multiplicity import benjamini_hochberg
from pipeline.statistics.placebos import with_placebos
from pipeline.statistics.slopes import SLOPE_COLUMNS, slope_frame
from pipeline.statistics.sweeps import sweeps_of

OPTIONS = {"photos": 120, "labels": 4, "base": 0.3, "spread": 0.1, "noise": 0.3}


@pytest.fixture(scope="module")
def sweeps():
    edit = faces(effect=0.3, seed=1, **OPTIONS)
    parts = [
        ("one", "gender", "edit", edit),
        ("one", "gender", "random", faces(effect=0.0, seed=3, **OPTIONS)),
        ("one", "gender", "colour", edit),
        ("two", "gender", "edit", faces(effect=-0.1, seed=2, **OPTIONS)),
    ]
    return sweeps_of(*run_of(parts))


def test_every_edit_has_its_placebos_beside_it(sweeps):
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


def test_others_have_nothing_beside_them(sweeps):
    frame = with_placebos(slope_frame(sweeps, resamples=100), sweeps)
    others = frame[(frame["adapter"] == "two") | (frame["arm"] != "edit")]
    assert others.filter(regex="^(random|colour)_").isna().all(axis=None)


def test_without_placebos_nothing_is_added(sweeps):
    edits = [each for each in sweeps if each.arm == "edit"]
    frame = slope_frame(edits, resamples=100)
    assert list(with_placebos(frame, edits).columns) == list(SLOPE_COLUMNS)
    assert with_placebos(slope_frame([]), []).empty
