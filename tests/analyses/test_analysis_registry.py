"""The registry: one entry gives an analysis its command, its Python method and its section of the report."""

import json
from inspect import signature
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest
import typer
from finished_run import responses, write_run
from pydantic import Field
from typer.testing import CliRunner

from pipeline import analyse, open_run, statistics
from pipeline.analyses.base import Analysis, Options, Result, option_of_run
from pipeline.analyses.inputs import run_sweeps
from pipeline.analyses.registry import ANALYSES, analyses
from pipeline.analyses.sections import Section, Subsection, Table
from pipeline.cli.analyses import add_analyses
from pipeline.cli.options import Commands
from pipeline.config.options import ConfigError
from pipeline.stages.audit import estimate_run
from pipeline.statistics.predictability.attacks import Plan


class MeanOptions(Options):
    renamed: ClassVar = {"factor": "times"}

    times: float = Field(1.0, ge=0, description="factor of every mean")
    cluster: str | None = option_of_run("cluster")


class MeanRates(Analysis[MeanOptions]):
    """The mean rate of every classifier: a minimal analysis."""

    name = "mean_rates"
    command = "means"
    options = MeanOptions
    uses = ("presence_threshold", "cluster")
    examples = ("counterslope means runs/portraits",)

    def compute(self, source, options, *, watch=None):
        rows = [(sweeps.adapter, float(sweeps.rates().mean()) * options.times) for sweeps in run_sweeps(source).edits]
        frame = pd.DataFrame(rows, columns=["adapter", "mean_rate"])
        notes = [f"times {options.times:g}"]
        return Result("Mean rates", {"mean_rates": frame}, notes=notes, inputs=self.inputs(options))

    def sections(self, kept):
        columns = [("Adapter", "adapter", "text"), ("Mean rate", "mean_rate", "share")]
        part = Subsection("All", ["A toy."], tables=[Table("Mean rates", kept.tables["mean_rates"], columns)])
        return [Section("means", "Mean rates of everything", "How much is returned?", [part])]


MEAN_RATES = MeanRates()


@pytest.fixture
def mean_rates_registered(monkeypatch):
    monkeypatch.setitem(ANALYSES, "mean_rates", f"{__name__}:MEAN_RATES")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "may", [("opencv", "gender", "edit", responses(effect=0.3, seed=1))])
    estimate_run(folder, changes={})
    return folder


def call(*words):
    program = typer.Typer(cls=Commands)
    add_analyses(program)
    return CliRunner().invoke(program, [str(word) for word in words])


def test_registered_analysis_has_a_command_a_method_and_a_section(mean_rates_registered, folder):
    printed = call("means", folder, "--times", 2, "--format", "json")
    assert printed.exit_code == 0, printed.output
    (row,) = json.loads(printed.stdout)
    run = open_run(folder)
    frame = run.means(times=2)
    assert row["mean_rate"] == frame["mean_rate"][0] == pytest.approx(2 * run.mean_rates()["mean_rate"][0])
    assert frame.attrs["notes"] == ("times 2",)
    assert "times 2" in printed.stderr
    assert pd.read_csv(folder / "tables/mean_rates.csv")["mean_rate"][0] == row["mean_rate"]
    page = (folder / "report.html").read_text()
    assert "Mean rates of everything" in page
    assert f"{100 * row['mean_rate']:.1f} %" in page
    assert "How much is returned?" in page


def test_options_appear_in_help_and_signature(mean_rates_registered, folder):
    help_text = " ".join(call("means", "--help").output.replace("│", " ").split())
    for text in ("--times", "Factor of every mean.", "[default: (1.0)]", "--cluster", "counterslope means"):
        assert text in help_text
    method = open_run(folder).means
    assert list(signature(method).parameters) == ["source", "times", "cluster"]
    assert signature(method).parameters["times"].default == 1.0
    assert "factor of every mean" in method.__doc__
    assert "means" in dir(open_run(folder))
    with pytest.raises(AttributeError):
        open_run(folder).no_such_metric  # noqa: B018 - looking it up is the test


def test_renamed_misspelt_and_invalid_options_are_explained(mean_rates_registered, folder):
    refused = call("means", folder, "--factor", 2)
    assert refused.exit_code == 2
    assert "--factor is now --times" in refused.output
    run = open_run(folder)
    for given, message in (
        ({"factor": 2}, "factor is now times"),
        ({"tmies": 2}, "tmies: there is no such option; did you mean 'times'"),
        ({"times": -1}, "times: must be"),
    ):
        with pytest.raises(ConfigError, match=message):
            run.means(**given)
    with pytest.raises(ConfigError, match="there is no analysis 'rates'"):
        run.analyse("rates")


def test_kept_tables_are_stale_after_the_run_changes(mean_rates_registered, folder):
    assert call("means", folder).exit_code == 0
    estimate_run(folder, changes={"statistics": {"presence_threshold": 0.9}})
    page = (folder / "report.html").read_text()
    assert "Mean rates of everything" not in page
    assert "run counterslope means again" in page


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("amplification", "rows.csv", "--predicted-task", "x"), "--predicted-task is now --prediction"),
        (("amplification", "rows.csv", "--confidence"), "--confidence is now --response confidence"),
        (("dpa", "rows.csv", "--task-prediction", "x"), "--task-prediction is now --prediction"),
        (("local", "rows.csv", "--truth", "x"), "--truth is now --task"),
    ],
)
def test_old_option_names_refer_to_the_new_ones(invoke, words, message):
    result = invoke(*words)
    assert result.exit_code == 2
    assert message in result.output


def test_analyses_share_option_names_and_defaults():
    roles = {"attribute", "task", "prediction", "predicted_attribute", "cluster", "resamples", "seed"}
    for analysis in analyses().values():
        fields = analysis.options.model_fields
        for name in roles & set(fields):
            assert fields[name].description
        assert not {"group", "truth", "predicted_task", "task_prediction", "attribute_prediction"} & set(fields)
    fields = [analysis.options.model_fields for analysis in analyses().values()]
    defaults = {each["resamples"].default for each in fields if "resamples" in each}
    assert defaults == {2000}


def test_file_is_analysed_without_a_run_or_kept_in_one(tmp_path, folder):
    rows = pd.DataFrame({"sex": [0, 1] * 20, "cook": [0, 1, 1, 1] * 10, "guess": [0, 1] * 20})
    rows.to_csv(tmp_path / "rows.csv", index=False)
    columns = {"attribute": "sex", "task": "cook", "prediction": "guess", "resamples": 0}
    found = {name: analyse(name, tmp_path / "rows.csv", **columns) for name in ("leakage", "dpa", "amplification")}
    assert "amplification" in set(found["leakage"]["quantity"])
    assert "dpa" in set(found["dpa"]["quantity"])
    assert list(found["amplification"]) == ["summary", "pairs", "rates"]
    run = open_run(folder)
    frame = run.dpa(tmp_path / "rows.csv", **columns, keep=True)
    assert frame.equals(found["dpa"])
    assert "DPA: what predictions give away" in (folder / "report.html").read_text()
    with pytest.raises(ValueError, match=r"dpa reads a file with one row a photo, but .* is a run's folder"):
        run.dpa(**columns)
    with pytest.raises(ValueError, match=r"power reads a run's folder, but .*rows\.csv is a file"):
        analyse("power", tmp_path / "rows.csv")


@pytest.mark.parametrize(
    ("name", "of_python"),
    [("leakage", Plan), ("dpa", Plan), ("local", statistics.local_bias), ("power", statistics.power_table)],
)
def test_command_and_function_have_the_same_defaults(name, of_python):
    fields = analyses()[name].options.model_fields
    defaults = {parameter.name: parameter.default for parameter in signature(of_python).parameters.values()}
    shared = {"resamples", "permutations", "clusters", "width", "power", "level", "seed"} & set(fields) & set(defaults)
    assert len(shared) >= 2
    assert {option: fields[option].default for option in shared} == {option: defaults[option] for option in shared}
