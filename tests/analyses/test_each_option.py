"""The option ``--each``: measures for the rows of each value of a column, in one table."""

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


def test_rows_of_each_value_are_measured_separately(file, tmp_path):
    combined = compute_each("amplification", file, OPTIONS, column="condition").tables["summary"]
    assert combined.columns[0] == "condition"
    for value in ("full", "box"):
        subset = tmp_path / f"{value}.csv"
        frame = pd.read_csv(file)
        frame[frame["condition"] == value].to_csv(subset, index=False)
        alone = compute("amplification", subset, OPTIONS).tables["summary"]
        part = combined[combined["condition"] == value].drop(columns="condition").reset_index(drop=True)
        pd.testing.assert_frame_equal(part, alone, check_dtype=False)


def test_error_names_the_value_whose_rows_are_invalid(file):
    frame = pd.read_csv(file)
    frame.loc[frame["condition"] == "box", "guess"] = np.nan
    frame.to_csv(file, index=False)
    with pytest.raises(InputError, match=r"condition 'box' of .*guess"):
        compute_each("amplification", file, OPTIONS, column="condition")


def test_each_prints_one_table_and_excludes_run(run_command, error_of, file):
    words = ["amplification", file, "--attribute", "gender", "--task", "cooking", "--prediction", "guess"]
    done = run_command(*words, "--resamples", 20, "--each", "condition")
    assert "by condition" in done.output
    error_of(*words, "--each", "condition", "--run", file.parent)
    error_of(*words, "--each", "nothing")
