import json

import numpy as np
import pandas as pd
import pytest
from run_tables import write_tables
from typer.testing import CliRunner

from pipeline.analyses.inputs import InputError
from pipeline.analyses.registry import compute
from pipeline.cli.app import app
from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import Settings
from pipeline.run.folder import Run
from pipeline.statistics.amplification.directional import attribute_to_task, task_to_attribute

VALUES = np.linspace(-2, 2, 7)


def call(*arguments):
    result = CliRunner().invoke(app, ["amplification", *map(str, arguments)])
    # What is said about a result goes to standard error; here the result itself counts, or why there is none.
    return result.exit_code, result.stdout if result.exit_code == 0 else result.output


def people(seed=0, rows=80):
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
def table(tmp_path):
    path = tmp_path / "test.csv"
    people().to_csv(path, index=False)
    people(1).to_csv(tmp_path / "train.csv", index=False)
    people(2).to_parquet(tmp_path / "validation.parquet")
    return path


LABELS_AND_SCORES = (
    *("--attribute", "gender", "--task", "cook", "--task", "drive"),
    *("--prediction", "cook_score", "--prediction", "drive_score"),
)  # fmt: skip


def arrays(frame):
    return (frame["gender"].to_numpy()[:, None] == ["man", "woman"]).astype(int), frame[["cook", "drive"]]


def test_a_file_with_all_that_its_columns_allow(table):
    options = [*LABELS_AND_SCORES, "--predicted-attribute", "guess", "--train", table.with_name("train.csv")]
    code, output = call(
        table, *options, "--threshold", "0.5", "--sets", "paper", "--cluster", "person", "--format", "json"
    )
    assert code == 0
    rows = {row["measure"]: row for row in json.loads(output)}
    frame = people()
    guessed = (frame[["cook_score", "drive_score"]] >= 0.5).astype(int)
    own = {"train": arrays(people(1)), "clusters": frame["person"].tolist()}
    expected = attribute_to_task(*arrays(frame), predictions=guessed, **own)
    assert rows["BiasAmp A->T"]["value"] == pytest.approx(expected.value)
    assert rows["BiasAmp A->T"]["high"] == pytest.approx(expected.high)
    guess = (frame["guess"].to_numpy()[:, None] == ["man", "woman"]).astype(int)
    other = task_to_attribute(*arrays(frame), predictions=guess, **own)
    assert rows["BiasAmp T->A"]["value"] == pytest.approx(other.value)
    assert {"BiasAmp MALS", "Multi A->T, 3 sets, absolute", "Multi MALS, 3 sets, signed"} <= set(rows)


def test_signs_that_are_not_sure_are_stated_in_the_table(table):
    code, output = call(table.with_name("train.csv"), *LABELS_AND_SCORES, "--format", "json")
    assert code == 0
    value, either, precision = json.loads(output)
    assert precision["measure"].startswith("mAP")
    assert "signs unsure" in value["note"]
    assert either["measure"] == "BiasAmp A->T, unsure signs either way"
    assert (either["value"], either["low"] <= value["low"], either["high"] >= value["high"]) == (value["value"], 1, 1)


def test_pairs_and_rates(table):
    code, output = call(table, *LABELS_AND_SCORES, "--table", "pairs", "--format", "csv")
    assert code == 0
    assert output.startswith("direction,attribute,task,sign")
    assert output.count("\n") == 5
    code, output = call(table, *LABELS_AND_SCORES, "--threshold", "0.5", "--table", "rates")
    assert code == 0
    assert "mean group accuracy" in output


def test_thresholds_calibrated_or_none(table):
    validation = ("--validation", table.with_name("validation.parquet"))
    train = ("--train", table.with_name("train.csv"))
    found = {}
    for name, options in {
        "code": validation,
        "paper": (*validation, *train, "--rule", "paper"),
        "scores": ("--over", "scores"),
        "ranks": ("--over", "ranks"),
    }.items():
        code, output = call(table, *LABELS_AND_SCORES, *options, "--resamples", "0", "--format", "json")
        assert code == 0
        found[name] = json.loads(output)[0]["value"]
    assert len(set(found.values())) == 4


def test_labour_statistics_as_the_base(table, tmp_path):
    base = tmp_path / "base.tsv"
    base.write_text("job\tpercent\ncook\t20\ndrive\t10\nread\t15\n")
    options = ("--base", base, "--base-columns", "job,percent,woman", "--table", "pairs", "--format", "json")
    code, output = call(table, *LABELS_AND_SCORES, *options)
    assert code == 0
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
def test_what_cannot_be_is_refused_with_what_to_do(table, options, message):
    code, output = call(table, *options)
    assert code == 2
    assert message in output


# A run, the attribute intervened on


@pytest.fixture
def run(tmp_path):
    """40 photos; "nurse" is returned for faces shown as feminine, "driver" for those shown as masculine."""
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
    known = pd.DataFrame(
        {"photo": photos, "sha256": photos, "sex": ["female", "male"] * 20, "job": ["care", "road"] * 20}
    )
    known.to_parquet(run.path("photos.parquet"))
    return run.folder


def test_a_run_against_labour_statistics(run, tmp_path):
    base = tmp_path / "base.csv"
    base.write_text("job,women\nnurse,90\ndriver,10\n")
    code, output = call(run, "--base", base, "--base-columns", "job,women,female", "--format", "json")
    assert code == 0
    rows = json.loads(output)
    assert [row["task"] for row in rows] == ["", "driver", "nurse"]
    assert [row["sign"] for row in rows[1:]] == [1, -1]
    assert all(row["low"] > 0.2 for row in rows)
    assert {row["value_low"] for row in rows} == {-2}


def test_a_run_against_what_is_known_of_its_photos(run):
    options = ("--attribute", "sex", "--task", "job", "--map", "nurse=care", "--map", "driver=road")
    code, output = call(run, *options, "--values", "-0.6666666667,0.6666666667", "--format", "json")
    assert code == 0
    rows = json.loads(output)
    assert {row["task"]: row["sign"] for row in rows[1:]} == {"road": 1, "care": -1}
    assert rows[0]["amplification"] > 0
    assert rows[0]["value_high"] == pytest.approx(2 / 3)


def test_a_mapping_from_a_file(run, tmp_path):
    mapping = tmp_path / "tasks.csv"
    mapping.write_text("label,task\nnurse,care\n")
    code, output = call(run, "--attribute", "sex", "--task", "job", "--map", mapping, "--format", "csv")
    assert code == 0
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
def test_a_run_refuses_with_what_to_do(run, options, message):
    code, output = call(run, *options)
    assert code == 2
    assert message in output


def test_rates_of_a_table_in_place_of_labels(tmp_path):
    jobs = ["nurse"] * 10 + ["pilot"] * 10
    guess = ["she"] * 10 + ["she"] * 1 + ["he"] * 9
    pd.DataFrame({"job": jobs, "pronoun": guess}).to_csv(tmp_path / "guesses.csv", index=False)
    (tmp_path / "base.tsv").write_text("job\twomen\nnurse\t90\npilot\t20\n")
    given = {
        "task": ["job"], "predicted_attribute": ["pronoun"], "base": tmp_path / "base.tsv",
        "base_columns": "job,women,she", "base_rates": True, "resamples": 200,
    }  # fmt: skip
    found = compute("amplification", tmp_path / "guesses.csv", given)
    assert found.tables["summary"]["value"][0] == pytest.approx(0.1), "each job leans 10 % further than its workers"
    assert set(found.tables["pairs"]["label_rate"].round(2)) == {0.1, 0.2, 0.8, 0.9}
    shares = pd.DataFrame({"who": ["she", "he"] * 10, "nurse": [0, 1] * 10, "guess": [1, 0] * 10})
    shares.to_csv(tmp_path / "tasks.csv", index=False)
    given |= {"attribute": ["who"], "task": ["nurse"], "prediction": ["guess"], "predicted_attribute": []}
    assert len(compute("amplification", tmp_path / "tasks.csv", given).tables["pairs"]) == 2, "by the task's own name"
    with pytest.raises(InputError, match="--base-rates takes --base"):
        compute("amplification", tmp_path / "guesses.csv", {"task": ["job"], "base_rates": True})


def test_scores_have_their_average_precision_next_to_the_amplification(tmp_path):
    frame = pd.DataFrame({"g": list("abab") * 5, "t": [0, 1, 1, 0] * 5, "s": [0.1, 0.9, 0.8, 0.3] * 5})
    frame.to_csv(tmp_path / "p.csv", index=False)
    given = {"attribute": ["g"], "task": ["t"], "prediction": ["s"], "threshold": 0.5, "resamples": 100}
    found = compute("amplification", tmp_path / "p.csv", given).tables
    assert found["summary"]["measure"].iloc[-1].startswith("mAP")
    assert found["precision"]["average_precision"].tolist() == [1.0, 1.0]
