import json

import numpy as np
import pandas as pd
import pytest
from run_tables import write_tables

from pipeline.analyses.inputs import InputError
from pipeline.analyses.registry import compute
from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import Settings
from pipeline.run.folder import Run
from pipeline.statistics.amplification.directional import attribute_to_task, task_to_attribute

VALUES = np.linspace(-2, 2, 7)


@pytest.fixture
def amplification(run_command):
    """Run the command and return what it prints."""
    return lambda *words: run_command("amplification", *words).stdout


def predictions(seed=0, rows=80):
    random = np.random.default_rng(seed)
    women = random.integers(0, 2, size=rows)
    cook = (random.random(rows) < np.where(women, 0.6, 0.3)).astype(int)
    return pd.DataFrame(
        {
            "gender": np.where(women, "woman", "man"),
            "cook": cook,
            "drive": random.integers(0, 2, size=rows),
            "cook_score": np.clip(0.6 * cook + 0.2 * women + 0.2 * random.random(rows), 0, 1),
            "drive_score": random.random(rows).round(3),
            "guess": np.where(random.random(rows) < 0.8, np.where(women, "woman", "man"), "man"),
            "person": np.arange(rows) // 2,
        }
    )


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "test.csv"
    predictions().to_csv(path, index=False)
    predictions(1).to_csv(tmp_path / "train.csv", index=False)
    predictions(2).to_parquet(tmp_path / "validation.parquet")
    return path


LABELS_AND_SCORES = (
    *("--attribute", "gender", "--task", "cook", "--task", "drive"),
    *("--prediction", "cook_score", "--prediction", "drive_score"),
)  # fmt: skip


def labels_of(frame):
    return (frame["gender"].to_numpy()[:, None] == ["man", "woman"]).astype(int), frame[["cook", "drive"]]


def test_file_with_all_columns_gives_every_measure(amplification, file):
    options = [*LABELS_AND_SCORES, "--predicted-attribute", "guess", "--train", file.with_name("train.csv")]
    output = amplification(
        file, *options, "--threshold", "0.5", "--sets", "paper", "--cluster", "person", "--format", "json"
    )
    rows = {row["measure"]: row for row in json.loads(output)}
    frame = predictions()
    guessed = (frame[["cook_score", "drive_score"]] >= 0.5).astype(int)
    inputs = {"train": labels_of(predictions(1)), "clusters": frame["person"].tolist()}
    expected = attribute_to_task(*labels_of(frame), predictions=guessed, **inputs)
    assert rows["BiasAmp A->T"]["value"] == pytest.approx(expected.value)
    assert rows["BiasAmp A->T"]["high"] == pytest.approx(expected.high)
    guess = (frame["guess"].to_numpy()[:, None] == ["man", "woman"]).astype(int)
    other = task_to_attribute(*labels_of(frame), predictions=guess, **inputs)
    assert rows["BiasAmp T->A"]["value"] == pytest.approx(other.value)
    assert {"BiasAmp MALS", "Multi A->T, 3 sets, absolute", "Multi MALS, 3 sets, signed"} <= set(rows)


def test_uncertain_signs_are_noted_in_the_table(amplification, file):
    output = amplification(file.with_name("train.csv"), *LABELS_AND_SCORES, "--format", "json")
    value, either, precision = json.loads(output)
    assert precision["measure"].startswith("mAP")
    assert "signs unsure" in value["note"]
    assert either["measure"] == "BiasAmp A->T, unsure signs either way"
    assert (either["value"], either["low"] <= value["low"], either["high"] >= value["high"]) == (value["value"], 1, 1)


def test_pairs_and_rates_are_printed(amplification, file):
    output = amplification(file, *LABELS_AND_SCORES, "--table", "pairs", "--format", "csv")
    assert output.startswith("direction,attribute,task,sign")
    assert output.count("\n") == 5
    output = amplification(file, *LABELS_AND_SCORES, "--threshold", "0.5", "--table", "rates")
    assert "mean group accuracy" in output


def test_calibrated_and_threshold_free_values_differ(amplification, file):
    validation = ("--validation", file.with_name("validation.parquet"))
    train = ("--train", file.with_name("train.csv"))
    found = {}
    for name, options in {
        "code": validation,
        "paper": (*validation, *train, "--rule", "paper"),
        "scores": ("--over", "scores"),
        "ranks": ("--over", "ranks"),
    }.items():
        output = amplification(file, *LABELS_AND_SCORES, *options, "--resamples", "0", "--format", "json")
        found[name] = json.loads(output)[0]["value"]
    assert len(set(found.values())) == 4


def test_external_shares_give_the_signs(amplification, file, tmp_path):
    base = tmp_path / "base.tsv"
    base.write_text("job\tpercent\ncook\t20\ndrive\t10\nread\t15\n")
    options = ("--base", base, "--base-columns", "job,percent,woman", "--table", "pairs", "--format", "json")
    output = amplification(file, *LABELS_AND_SCORES, *options)
    assert {(row["attribute"], row["task"]): row["sign"] for row in json.loads(output)} == {
        ("man", "cook"): -1, ("man", "drive"): 1, ("woman", "cook"): 1, ("woman", "drive"): -1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "name the columns of groups and tasks"),
        (("--attribute", "gender", "--task", "cook"), "name columns of predictions"),
        (("--attribute", "sex", "--task", "cook"), "has no column 'sex'"),
        ((*LABELS_AND_SCORES, "--cluster", "family"), "has no column 'family'"),
        ((*LABELS_AND_SCORES, "--rule", "mine"), "rule: must be code | paper"),
        (("--attribute", "gender", "--task", "cook_score", "--prediction", "cook"), "column 'cook_score' of tasks"),
        ((*LABELS_AND_SCORES[:6], "--prediction", "cook_score"), "1 columns are named as predicted tasks"),
        ((*LABELS_AND_SCORES, "--base", "x.csv"), "--base needs --base-columns"),
        ((*LABELS_AND_SCORES, "--validation", "x.csv", "--rule", "paper"), "needs --train for the share of positives"),
    ],
)
def test_invalid_options_of_a_file_exit_with_advice(error_of, file, options, message):
    assert message in error_of("amplification", file, *options)


# A run


@pytest.fixture
def run(tmp_path):
    """40 photos; "nurse" is returned more often for feminine faces, "driver" for masculine ones."""
    run = Run(tmp_path / "run")
    run.note(settings=Settings(), presence_thresholds={"fake": 0.5})
    random = np.random.default_rng(0)
    photos = [f"{number:02d}.png" for number in range(40)]
    steps = [(photo, k + 1, a) for photo in photos for k, a in enumerate(VALUES)]
    shared = {"adapter": "fake", "attribute": "gender", "arm": EDIT_ARM}
    asked = [shared | {"photo": p, "step": k, "value": a, "status": "ok"} for p, k, a in steps]
    seen = [
        shared | {"photo": p, "step": k, "value": a, "label": label, "score": 1.0, "returned": True}
        for p, k, a in steps
        for label, lean in (("nurse", -0.2), ("driver", 0.2))
        if random.random() < 0.5 + lean * a
    ]
    write_tables(run.folder, answers=asked, labels=seen)
    photos_table = pd.DataFrame(
        {"photo": photos, "sha256": photos, "sex": ["female", "male"] * 20, "job": ["care", "road"] * 20}
    )
    photos_table.to_parquet(run.path("photos.parquet"))
    return run.folder


def test_run_with_external_shares(amplification, run, tmp_path):
    base = tmp_path / "base.csv"
    base.write_text("job,women\nnurse,90\ndriver,10\n")
    output = amplification(run, "--base", base, "--base-columns", "job,women,female", "--format", "json")
    rows = json.loads(output)
    assert [row["task"] for row in rows] == ["", "driver", "nurse"]
    assert [row["sign"] for row in rows[1:]] == [1, -1]
    assert all(row["low"] > 0.2 for row in rows)
    assert {row["value_low"] for row in rows} == {-2}


def test_run_with_manifest_columns(amplification, run):
    options = ("--attribute", "sex", "--task", "job", "--map", "nurse=care", "--map", "driver=road")
    output = amplification(run, *options, "--values", "-0.6666666667,0.6666666667", "--format", "json")
    rows = json.loads(output)
    assert {row["task"]: row["sign"] for row in rows[1:]} == {"road": 1, "care": -1}
    assert rows[0]["amplification"] > 0
    assert rows[0]["value_high"] == pytest.approx(2 / 3)


def test_mapping_from_a_file(amplification, run, tmp_path):
    mapping = tmp_path / "tasks.csv"
    mapping.write_text("label,task\nnurse,care\n")
    output = amplification(run, "--attribute", "sex", "--task", "job", "--map", mapping, "--format", "csv")
    assert output.count("\n") == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "the signs of the tasks need a base"),
        (("--attribute", "gender", "--task", "job"), "there is no column 'gender' to find the signs by"),
        (("--attribute", "sex", "--task", "job", "--map", "pilot=road"), "returned the label 'pilot'"),
        (("--attribute", "sex", "--task", "job", "--values", "-1,1"), "values must be two steps of the sweep"),
        (("--attribute", "sex", "--task", "job", "--values", "one"), "takes LOW,HIGH"),
        (("--attribute", "job", "--task", "sex"), "no complete sweep with poles named as in the column 'job'"),
    ],
)
def test_invalid_options_of_a_run_exit_with_advice(error_of, run, options, message):
    assert message in error_of("amplification", run, *options)


def test_external_rates_replace_labels(tmp_path):
    jobs = ["nurse"] * 10 + ["pilot"] * 10
    guess = ["she"] * 10 + ["she"] * 1 + ["he"] * 9
    pd.DataFrame({"job": jobs, "pronoun": guess}).to_csv(tmp_path / "guesses.csv", index=False)
    (tmp_path / "base.tsv").write_text("job\twomen\nnurse\t90\npilot\t20\n")
    given = {
        "task": ["job"], "predicted_attribute": ["pronoun"], "base": tmp_path / "base.tsv",
        "base_columns": "job,women,she", "base_rates": True, "resamples": 200,
    }  # fmt: skip
    found = compute("amplification", tmp_path / "guesses.csv", given)
    assert found.tables["summary"]["value"][0] == pytest.approx(0.1), "predictions exceed the base by 10 %"
    assert set(found.tables["pairs"]["label_rate"].round(2)) == {0.1, 0.2, 0.8, 0.9}
    shares = pd.DataFrame({"who": ["she", "he"] * 10, "nurse": [0, 1] * 10, "guess": [1, 0] * 10})
    shares.to_csv(tmp_path / "tasks.csv", index=False)
    given |= {"attribute": ["who"], "task": ["nurse"], "prediction": ["guess"], "predicted_attribute": []}
    assert len(compute("amplification", tmp_path / "tasks.csv", given).tables["pairs"]) == 2, "matched by column name"
    with pytest.raises(InputError, match="--base-rates takes --base"):
        compute("amplification", tmp_path / "guesses.csv", {"task": ["job"], "base_rates": True})


def test_scores_have_average_precision(tmp_path):
    frame = pd.DataFrame({"g": list("abab") * 5, "t": [0, 1, 1, 0] * 5, "s": [0.1, 0.9, 0.8, 0.3] * 5})
    frame.to_csv(tmp_path / "p.csv", index=False)
    given = {"attribute": ["g"], "task": ["t"], "prediction": ["s"], "threshold": 0.5, "resamples": 100}
    found = compute("amplification", tmp_path / "p.csv", given).tables
    assert found["summary"]["measure"].iloc[-1].startswith("mAP")
    assert found["precision"]["average_precision"].tolist() == [1.0, 1.0]
