"""The measures of a file for the rows of each value of a column, in one table."""

import numpy as np
import pandas as pd
import pytest

from pipeline.analyses.inputs import InputError
from pipeline.analyses.registry import compute, compute_each

OPTIONS = {"attribute": "gender", "task": "cooking", "prediction": "guess", "resamples": 20}


@pytest.fixture
def file(tmp_path):
    random = np.random.default_rng(0)
    gender, cooking = random.choice(["woman", "man"], 400), random.integers(0, 2, 400)
    frame = pd.DataFrame({"gender": gender, "cooking": cooking, "condition": ["full", "box"] * 200})
    frame["guess"] = np.where(frame["condition"] == "box", cooking, gender == "woman").astype(int)
    frame.to_csv(tmp_path / "masked.csv", index=False)
    return tmp_path / "masked.csv"


def test_each_values_rows_are_measured_apart(file, tmp_path):
    found = compute_each("amplification", file, OPTIONS, column="condition").tables["summary"]
    assert found.columns[0] == "condition"
    for value in ("full", "box"):
        own = tmp_path / f"{value}.csv"
        frame = pd.read_csv(file)
        frame[frame["condition"] == value].to_csv(own, index=False)
        alone = compute("amplification", own, OPTIONS).tables["summary"]
        part = found[found["condition"] == value].drop(columns="condition").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, alone, check_dtype=False)


def test_rows_that_cannot_be_measured_are_named(file):
    frame = pd.read_csv(file)
    frame.loc[frame["condition"] == "box", "guess"] = np.nan
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match=r"condition 'box' of .*guess"):
        compute_each("amplification", file, OPTIONS, column="condition")


def test_the_command_prints_one_table_and_leaves_none_in_a_run(file, invoke):
    words = ["amplification", file, "--attribute", "gender", "--task", "cooking", "--prediction", "guess"]
    done = invoke(*words, "--resamples", 20, "--each", "condition")
    assert done.exit_code == 0, done.output
    assert "by condition" in done.output
    assert invoke(*words, "--each", "condition", "--run", file.parent).exit_code == 2
    assert invoke(*words, "--each", "nothing").exit_code == 2
