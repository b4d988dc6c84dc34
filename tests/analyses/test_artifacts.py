"""Results kept in a run: tables, their inputs, and when they become stale."""

import json
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from finished_run import PHOTO_COUNT, responses, write_parquet, write_run

from pipeline.analyses.artifacts import Inputs, add, artifacts_of
from pipeline.analyses.comparison import COMPARISON
from pipeline.analyses.inputs import run_sweeps
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame

MANIFEST = {
    "keyword": ["ceo" if index % 2 else "nurse" for index in range(PHOTO_COUNT)],
    "sex": ["male" if index % 2 else "female" for index in range(PHOTO_COUNT)],
}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    parts = [
        ("opencv", "gender", "edit", responses(effect=0.3, seed=1)),
        ("mine", "gender", "edit", responses(effect=0.1, seed=3)),
    ]
    return write_run(tmp_path / "may", parts, manifest=MANIFEST)


@pytest.fixture
def base(tmp_path: Path) -> Path:
    labels = sorted(set(read_frame(tmp_path / "may" / "labels.parquet")["label"]))
    path = tmp_path / "jobs.csv"
    pd.DataFrame({"job": labels, "women": [20 + 30 * place for place in range(len(labels))]}).to_csv(path, index=False)
    return path


def amplify(run_command, run, base, *words):
    return run_command(
        "amplification", run, "--base", base, "--base-columns", "job,women,female", "--resamples", 20, *words
    )


def test_result_is_kept_with_its_inputs(run_command, run, base):
    result = amplify(run_command, run, base)
    assert "tables/amplification.csv" in result.stderr
    kept = artifacts_of(Run(run))
    assert set(kept.tables["amplification"]["adapter"]) == {"opencv", "mine"}
    assert kept.about["amplification"]["base"] == "the shares of female in jobs.csv"
    assert not kept.stale


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda run, base: drop_first_row(run / "labels.parquet"), "labels.parquet"),
        (lambda run, base: base.write_text(base.read_text() + "other,5\n"), "jobs.csv has changed"),
        (lambda run, base: base.unlink(), "jobs.csv no longer exists"),
        (lambda run, base: (run / "tables/amplification.csv").write_text("adapter\n"), "amplification.csv has changed"),
        (lambda run, base: set_option(run, "presence_threshold", 0.7), "option presence_threshold"),
    ],
)
def test_table_is_stale_after_its_sources_change(run_command, run, base, change, reason):
    amplify(run_command, run, base)
    before = artifacts_of(Run(run)).fingerprint
    change(run, base)
    kept = artifacts_of(Run(run))
    assert reason in kept.stale["amplification"]
    assert not kept.tables
    assert kept.fingerprint != before


def test_explicit_and_unused_options_do_not_make_a_table_stale(run_command, run, base):
    amplify(run_command, run, base, "--response", "confidence")
    set_option(run, "response", "confidence")
    set_option(run, "max_p", 0.01)
    assert not artifacts_of(Run(run)).stale


def test_results_of_several_labels_are_kept_until_the_labels_change(run):
    def kept(label, gap):
        frame = pd.DataFrame({"adapter": ["mine"], "label": [label], "gap": [gap]})
        add(Run(run), "local", {"local_clusters": frame}, inputs=Inputs(), by=("adapter", "label"))
        return artifacts_of(Run(run)).tables["local_clusters"][["label", "gap"]].values.tolist()

    kept("smile", 0.1)
    kept("=hat", 0.2)
    assert kept("smile", 0.3) == [["=hat", 0.2], ["smile", 0.3]]
    drop_first_row(run / "labels.parquet")
    assert kept("tie", 0.4) == [["tie", 0.4]]


def test_comparison_of_runs_is_kept_in_the_first_run(run_command, run, tmp_path):
    other = write_run(tmp_path / "june", [("opencv", "gender", "edit", responses(effect=0.1, seed=2))])
    run_command("compare", run, other)
    kept = artifacts_of(Run(run))
    assert set(kept.tables["comparison"]["first"]) == {"may: opencv"}
    assert kept.about["comparison"]["other"] == "june"
    assert not Run(other).record.artifacts
    drop_first_row(other / "labels.parquet")
    assert "labels.parquet has changed" in artifacts_of(Run(run)).stale["comparison"]


def test_two_adapters_of_a_run_are_compared_by_default(run):
    sweeps_of_run = run_sweeps(run)
    frame = COMPARISON.of_every_run(sweeps_of_run)["adapter_comparison"]
    assert frame[["first", "second"]].drop_duplicates().values.tolist() == [["mine", "opencv"]]
    alone = replace(sweeps_of_run, sweeps=tuple(sweeps for sweeps in sweeps_of_run.sweeps if sweeps.adapter == "mine"))
    assert COMPARISON.of_every_run(alone)["adapter_comparison"].empty


def test_representation_is_kept_without_changing_the_settings(run_command, error_of, run):
    before = json.loads((run / "run.json").read_text())["settings"]
    result = run_command("represent", run, "--by", "keyword", "--format", "csv")
    assert result.stdout == (run / "tables/representation.csv").read_text()
    kept = artifacts_of(Run(run))
    assert kept.about["representation"]["by"] == "keyword"
    assert set(kept.tables["representation"]["group"]) == {"ceo", "nurse"}
    assert Run(run).record.plain()["settings"] == before
    assert "cannot be used with a run's folder" in error_of("represent", run, "--out", run)


def test_power_and_dpa_are_kept(run_command, run, tmp_path):
    run_command("power", run)
    assert len(artifacts_of(Run(run)).tables["power"]) == 6
    rows = pd.DataFrame({"sex": [0, 1] * 20, "cook": [0, 1, 1, 1] * 10, "guess": [0, 1] * 20})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    run_command(
        "dpa", tmp_path / "rows.csv", "--attribute", "sex", "--task", "cook", "--prediction", "guess", "--run", run
    )
    kept = artifacts_of(Run(run))
    assert set(kept.tables) == {"power", "dpa", "dpa_grid"}
    assert len(kept.tables["dpa_grid"]) == 121
    assert {"bias_amplification", "multi_amplification"} <= set(kept.tables["dpa_grid"].columns)


def drop_first_row(table: Path) -> None:
    write_parquet(read_frame(table)[1:], table)


def set_option(run: Path, name: str, value) -> None:
    path = run / "run.json"
    record = json.loads(path.read_text())
    record["settings"]["statistics"][name] = value
    path.write_text(json.dumps(record))
