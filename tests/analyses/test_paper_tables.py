"""The commands ``slopes``, ``validity``, ``power``, ``represent`` and ``figures``, and their output files."""

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
def test_slopes_prints_the_findings_in_every_format(run_command, run, format):
    before = (run / "run.json").read_bytes()
    result = run_command("slopes", run, "--format", format)
    assert result.stdout.rstrip("\n") == open_run(run).table(format).rstrip("\n")
    assert "l0" in result.stdout
    assert (run / "run.json").read_bytes() == before, "nothing is estimated anew"


def test_thresholds_are_printed_and_not_saved(invoke, run):
    result = invoke("slopes", run, "--max-p", 0.01, "--min-slope", 0.05, "--format", "md", "--quiet")
    assert r"p \< 0.01 and \|slope\| \> 0.05" in result.stdout
    assert open_run(run).settings.statistics.max_p == 0.001
    assert invoke("slopes", run, "--format", "md").stdout == open_run(run).table("md")


def test_format_follows_the_file_extension(run_command, error_of, run, tmp_path):
    starts = {"tex": "% needs", "html": "<table", "md": "**Labels", "json": "[", "csv": "adapter,"}
    for extension, start in starts.items():
        result = run_command("slopes", run, "--out", tmp_path / f"t.{extension}")
        assert (tmp_path / f"t.{extension}").read_text().startswith(start)
        assert result.stdout == ""
    assert "is not one of" in error_of("slopes", run, "--out", tmp_path / "t.docx")


@pytest.mark.parametrize("command", ["validity", "power"])
def test_validity_and_power_are_written_to_files(run_command, invoke, run, tmp_path, command):
    run_command(command, run, "--out", tmp_path / "table.tex")
    assert r"\toprule" in (tmp_path / "table.tex").read_text()
    frame = getattr(open_run(run), command)()
    assert invoke(command, run, "--format", "json").stdout.count('"attribute"') == len(frame)


def test_figures_are_reproducible_and_have_captions(run_command, run, tmp_path):
    names = ["opencv-gender-curves", "opencv-gender-intervals", "a-b-race-curves", "a-b-race-intervals"]
    for folder in ("one", "two"):
        result = run_command("figures", run, "--format", "svg", "--out", tmp_path / folder)
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
def test_invalid_figure_options_exit_with_2(error_of, run, tmp_path, words, message):
    assert message in error_of("figures", run, "--out", tmp_path / "figures", *words)
    assert not (tmp_path / "figures").exists()


def test_folder_that_cannot_be_created_gives_one_line(invoke, run, tmp_path):
    (tmp_path / "file").write_text("")
    result = invoke("figures", run, "--label", "l2", "--out", tmp_path / "file" / "figures")
    assert result.exit_code == 2
    assert result.output == f"counterslope: {tmp_path / 'file' / 'figures'}: Not a directory\n"


def test_figures_of_selected_adapters_and_labels(run_command, run, tmp_path):
    words = ["--adapter", "opencv", "--label", "l2", "--format", "png", "--out", tmp_path]
    run_command("figures", run, *words)
    assert {file.name for file in tmp_path.glob("*.png")} == {"opencv-gender-curves.png", "opencv-gender-intervals.png"}
    assert "selected labels: “l2”" in (tmp_path / "opencv-gender-curves.txt").read_text()


def test_commands_on_a_run_without_estimates(error_of, invoke, tmp_path):
    fresh = write_run(tmp_path / "fresh", [("opencv", "gender", "edit", responses(effect=0.3, seed=1))])
    for command in ("validity", "figures"):
        assert "counterslope report" in error_of(command, fresh)
    assert invoke("slopes", fresh, "--format", "csv").stdout.startswith("adapter,"), "slopes estimates first"
    error_of("validity", tmp_path / "nothing")


def test_represent_prints_the_frame_of_the_api(run_command, run):
    result = run_command("represent", run, "--by", "keyword", "--format", "json")
    frame = open_run(run).representation(by="keyword")
    pd.testing.assert_frame_equal(pd.DataFrame(json.loads(result.stdout)), frame, check_dtype=False)
    assert set(frame["group"]) == {"ceo", "nurse"}
