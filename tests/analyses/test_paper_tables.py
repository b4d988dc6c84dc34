"""slopes, validity, figures and --out: tables and figures as files for a paper, on a run made without photos."""

import json
from pathlib import Path

import pandas as pd
import pytest
from finished_run import responses, write_run
from typer.testing import CliRunner

from pipeline import open_run
from pipeline.cli.app import app
from pipeline.report.markup import FORMATS

MANIFEST = {"keyword": ["ceo" if index % 2 else "nurse" for index in range(90)]}


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    parts = [
        ("opencv", "gender", "edit", responses(effect=0.3, seed=1)),
        ("a b", "race", "edit", responses(effect=-0.4, seed=3)),
    ]
    folder = write_run(tmp_path_factory.mktemp("runs") / "may", parts, manifest=MANIFEST)
    assert CliRunner().invoke(app, ["slopes", str(folder), "--quiet"]).exit_code == 0
    return folder


@pytest.mark.parametrize("format", FORMATS)
def test_the_findings_are_printed_in_the_published_layout(invoke, run, format):
    before = (run / "run.json").read_bytes()
    result = invoke("slopes", run, "--format", format)
    assert result.exit_code == 0, result.output
    assert result.stdout.rstrip("\n") == open_run(run).table(format).rstrip("\n")
    assert "l0" in result.stdout
    assert (run / "run.json").read_bytes() == before, "nothing is estimated again"


def test_other_thresholds_are_stated_and_hold_for_this_table_only(invoke, run):
    result = invoke("slopes", run, "--max-p", 0.01, "--min-slope", 0.05, "--format", "md", "--quiet")
    assert r"p \< 0.01 and \|slope\| \> 0.05" in result.stdout
    assert open_run(run).settings.statistics.max_p == 0.001
    assert invoke("slopes", run, "--format", "md").stdout == open_run(run).table("md")


def test_a_file_s_ending_says_the_format(invoke, run, tmp_path):
    for name, start in (
        ("t.tex", "% needs"),
        ("t.html", "<table"),
        ("t.md", "**Labels"),
        ("t.json", "["),
        ("t.csv", "adapter,"),
    ):
        result = invoke("slopes", run, "--out", tmp_path / name)
        assert result.exit_code == 0, result.output
        assert (tmp_path / name).read_text().startswith(start)
        assert result.stdout == ""
    wrong = invoke("slopes", run, "--out", tmp_path / "t.docx")
    assert wrong.exit_code == 2
    assert "is not one of" in wrong.output


@pytest.mark.parametrize("command", ["validity", "power"])
def test_other_tables_go_into_files_too(invoke, run, tmp_path, command):
    result = invoke(command, run, "--out", tmp_path / "table.tex")
    assert result.exit_code == 0, result.output
    assert r"\toprule" in (tmp_path / "table.tex").read_text()
    frame = getattr(open_run(run), command)()
    assert invoke(command, run, "--format", "json").stdout.count('"attribute"') == len(frame)


def test_figures_have_stable_names_bytes_and_captions(invoke, run, tmp_path):
    names = ["opencv-gender-curves", "opencv-gender-intervals", "a-b-race-curves", "a-b-race-intervals"]
    for folder in ("one", "two"):
        result = invoke("figures", run, "--format", "svg", "--out", tmp_path / folder)
        assert result.exit_code == 0, result.output
        assert len(result.stdout.splitlines()) == 8
    files = {file.name: file.read_bytes() for file in (tmp_path / "one").iterdir()}
    assert set(files) == {f"{name}.{ending}" for name in names for ending in ("svg", "txt")}
    assert files == {file.name: file.read_bytes() for file in (tmp_path / "two").iterdir()}
    assert b"95 % intervals" in files["a-b-race-curves.txt"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "gif"], "no format 'gif' for figures; choose from pdf, svg, png"),
        (["--columns", "3"], "a figure is 1 or 2 columns wide, not 3"),
        (["--photo", "nobody.jpg"], "no complete sweep of 'nobody.jpg'"),
        (["--label", "hat"], "no label with a curve 'hat'"),
        (["--adapter", "yours"], "no adapter 'yours'"),
        (["--label", "l0", "--attribute", "age"], "no attribute 'age'"),
    ],
)
def test_figures_that_there_are_not(invoke, run, tmp_path, words, message):
    result = invoke("figures", run, "--out", tmp_path / "figures", *words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.split())
    assert not (tmp_path / "figures").exists()


def test_a_folder_that_cannot_be_made_is_one_clear_line(invoke, run, tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke("figures", run, "--label", "l2", "--out", tmp_path / "file" / "figures")
    assert result.exit_code == 2
    assert result.output == f"counterslope: {tmp_path / 'file' / 'figures'}: Not a directory\n"


def test_chosen_figures(invoke, run, tmp_path):
    words = ["--adapter", "opencv", "--label", "l2", "--format", "png", "--out", tmp_path]
    assert invoke("figures", run, *words).exit_code == 0
    assert {file.name for file in tmp_path.glob("*.png")} == {"opencv-gender-curves.png", "opencv-gender-intervals.png"}
    assert "selected labels: “l2”" in (tmp_path / "opencv-gender-curves.txt").read_text()


def test_a_run_that_is_not_estimated_yet(invoke, tmp_path):
    fresh = write_run(tmp_path / "fresh", [("opencv", "gender", "edit", responses(effect=0.3, seed=1))])
    for command in ("validity", "figures"):
        result = invoke(command, fresh)
        assert result.exit_code == 2
        assert "counterslope report" in result.output
    assert invoke("slopes", fresh, "--format", "csv").stdout.startswith("adapter,"), "it is estimated first"
    assert invoke("validity", tmp_path / "nothing").exit_code == 2


def test_who_is_in_a_run(invoke, run):
    result = invoke("represent", run, "--by", "keyword", "--format", "json")
    assert result.exit_code == 0, result.output
    frame = open_run(run).representation(by="keyword")
    pd.testing.assert_frame_equal(pd.DataFrame(json.loads(result.stdout)), frame, check_dtype=False)
    assert set(frame["group"]) == {"ceo", "nurse"}
