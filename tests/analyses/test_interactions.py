"""Intersections: differences of slopes between faces edited to either pole of a second attribute."""

import io

import numpy as np
import pandas as pd
from finished_run import responses, write_run

from pipeline.analyses.interactions import INTERACTIONS
from pipeline.analyses.registry import compute, sections
from pipeline.config.sweep_options import SweepOptions

SWEEP = {"attributes": ["gender*race"]}


def write_intersection_run(folder, *, at_black, at_white, seeds=(1, 2)):
    """A run in which gender's effect differs between faces edited to either pole."""
    parts = [
        ("opencv", "gender", "edit", responses(effect=0.2, seed=7)),
        ("opencv", "gender@Black", "edit", responses(effect=at_black, seed=seeds[0])),
        ("opencv", "gender@White", "edit", responses(effect=at_white, seed=seeds[1])),
        ("opencv", "gender@Black", "random", responses(effect=0.0, seed=3)),
        ("opencv", "gender@White", "random", responses(effect=0.0, seed=4)),
    ]
    return write_run(folder / "run", parts, sweep=SWEEP)


def test_known_interaction_is_found(run_command, tmp_path):
    run = write_intersection_run(tmp_path, at_black=0.0, at_white=0.4)
    result = run_command("interactions", run, "--format", "csv")
    frame = pd.read_csv(io.StringIO(result.stdout))
    edits = frame[frame["arm"] == "edit"]
    assert set(frame["attribute"]) == {"gender*race"}
    assert edits[["first", "second"]].drop_duplicates().values.tolist() == [["gender@White", "gender@Black"]]
    np.testing.assert_allclose(edits["first_slope"] - edits["second_slope"], edits["difference"])
    slopes_of_z = [edits[f"{side}_slope"] / edits[f"{side}_y_c"] for side in ("first", "second")]
    np.testing.assert_allclose(slopes_of_z[0] - slopes_of_z[1], edits["z_difference"])
    assert (edits["difference_low"] > 0).all()
    assert (edits["q"] < 0.05).all()
    placebos = frame[frame["arm"] == "random"]
    assert (placebos["difference"].abs() < 0.2).all()


def test_equal_slopes_have_no_interaction(tmp_path):
    run = write_intersection_run(tmp_path, at_black=0.3, at_white=0.3)
    frame = compute("interactions", run, {}).value
    edits = frame[frame["arm"] == "edit"]
    assert ((edits["difference_low"] < 0) & (edits["difference_high"] > 0)).all()
    assert (edits["q"] > 0.05).all()
    same = compute(
        "interactions", write_intersection_run(tmp_path / "same", at_black=0.3, at_white=0.3, seeds=(1, 1)), {}
    ).value
    assert (same.loc[same["arm"] == "edit", "difference"] == 0).all(), "identical answers"


def test_section_names_both_poles_and_the_unconditional_slope(tmp_path):
    run = write_intersection_run(tmp_path, at_black=0.0, at_white=0.4)
    tables = {name: compute(name, run, {"min_count": 5}).value for name in ("interactions", "slopes")}
    swept = SweepOptions.model_validate(SWEEP).chosen()
    found = sections(tables, about={}, stale={}, swept=swept)
    (section,) = [section for section in found if section.key == "interactions"]
    (part,) = section.parts
    assert part.heading == "opencv, perceived gender on faces edited to perceived White less Black"
    assert part.sentences[0].endswith("3 of 3 differ (q < 0.05).")
    assert "on faces edited to perceived White" in part.sentences[1]
    headings = [column[0] for column in part.tables[0].columns]
    assert headings[:4] == ["Label", "Slope, White", "Slope, as is", "Slope, Black"]
    assert part.tables[0].rows["as_is"].notna().all()
    assert section.attributes == ("gender@White", "gender@Black")


def test_run_without_an_intersection_exits_with_advice(invoke, tmp_path):
    run = write_run(tmp_path / "run", [("opencv", "gender", "edit", responses(effect=0.2, seed=1))])
    result = invoke("interactions", run)
    assert result.exit_code != 0
    assert "--attribute gender*race" in result.output
    assert INTERACTIONS.examples
