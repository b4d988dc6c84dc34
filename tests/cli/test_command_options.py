"""Options of commands, made from the fields of settings and analyses; their checks; output of ``status``."""

import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import typer
from pydantic import BaseModel, Field
from typer.testing import CliRunner

from pipeline.cli.console import show_run
from pipeline.cli.options import NOT_GIVEN, Given, with_options
from pipeline.config.flags import flag_of
from pipeline.config.options import QueryOptions, Settings, StatisticsOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.report.card import card_title, check_results
from pipeline.run.folder import Run
from pipeline.run.record import Stage


def command_of(function):
    """A program with this one command, as a function from its arguments to its result."""
    program = typer.Typer()
    program.command()(function)
    return lambda *words: CliRunner().invoke(program, list(words))


@pytest.fixture
def given():
    """A function from command-line arguments to the options that a command receives."""
    options = {}

    @with_options(SweepOptions, QueryOptions, StatisticsOptions)
    def command(given: Given = NOT_GIVEN) -> None:
        options.update(given)

    def run(*words):
        options.clear()
        result = command_of(command)(*words)
        assert result.exit_code == 0, result.output
        return options

    return run


# From fields to options


def test_every_flag_is_an_option_of_audit_or_generate(invoke):
    shown = invoke("audit", "--help").output + invoke("generate", "--help").output
    for section in Settings.model_fields.values():
        for name, field in section.annotation.model_fields.items():
            flag = flag_of(field)
            if flag is not None:
                flags = [text.format(key) for text in flag.names for key in (flag.keys or ("",))]
                assert all(f"{text} " in shown for text in flags or [f"--{name.replace('_', '-')}"]), name


@pytest.mark.parametrize("words", [["-a", "gender,race"], ["-a", "gender", "--attribute", "race"]])
def test_lists_are_repeated_or_separated_by_commas(given, words):
    assert given(*words)["sweep"] == {"attributes": ["gender", "race"]}
    assert given("--placebo", "random,colour")["sweep"] == {"placebos": ["random", "colour"]}


def test_tables_are_given_key_by_key(given):
    assert given("--steps", "gender=7,race=5")["sweep"]["steps"] == {"gender": "7", "race": "5"}
    assert given("--race-pair", "Asian, White")["sweep"]["poles"] == {"race": ["Asian", "White"]}
    query = given(
        "--rate", "3", "--rate", "google=5", "--adapter-option", "clip.top_k=1", "--adapter-option", "clip.model=ViT"
    )["query"]  # fmt: skip
    assert query["rate"] == {"*": "3", "google": "5"}
    assert query["options"] == {"clip": {"top_k": 1, "model": "ViT"}}


def test_only_given_options_are_passed(given):
    assert given() == {}
    assert given("--min-slope", "0.05", "--family", "all")["statistics"] == {"min_slope": 0.05, "family": []}


class WidthOptions(BaseModel):
    width: float = Field(0.05, gt=0, description="wanted width of an interval, end to end")
    kinds: tuple[str, ...] = Field((), description="kinds of intervals")
    exact: bool = Field(False, description="exact intervals")


def test_fields_of_an_analysis_are_options_of_its_command(monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    calls = []

    @with_options(WidthOptions, StatisticsOptions, only=("width", "kinds", "exact", "cluster"))
    def measure(run: str, options: WidthOptions = None, given: Given = NOT_GIVEN) -> None:
        """Measure."""
        calls.append((run, options, given.get("statistics", {}).get("cluster")))

    measuring = command_of(measure)
    assert measuring("here", "--width", "0.1", "--kinds", "a,b", "--exact", "--cluster", "person").exit_code == 0
    assert measuring("here").exit_code == 0
    first = WidthOptions(width=0.1, kinds=("a", "b"), exact=True)
    assert calls == [("here", first, "person"), ("here", WidthOptions(), None)]
    wrong = measuring("here", "--width", "0")
    assert wrong.exit_code == 2
    assert "width: must be more than 0, not 0" in wrong.output
    shown = " ".join(measuring("--help").output.split())
    assert "Wanted width of an interval, end to end." in shown
    assert "--no-exact" in shown


# Errors before any work


@pytest.mark.parametrize(
    ("words", "now"),
    [
        (["audit", "--gender-steps", "7"], "--steps gender=K"),
        (["generate", "--race-steps=3"], "--steps race=K"),
        (["plan", "--gender-steps", "7"], "--steps gender=K"),
        (["audit", "--confidence"], "--response confidence"),
        (["slopes", "runs/may", "--presence"], "--response presence; the score from which a label is present is"),
    ],
)
def test_old_flag_names_the_new_one(error_of, words, now):
    old = next(word for word in words if word.startswith("-")).partition("=")[0]
    assert f"{old} is now {now}" in error_of(*words)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--steps", "gender=1000001"], "sweep.steps.gender (from the command line): must be in 3-201, not "),
        (["--min-slope", "inf"], "statistics.min_slope (from the command line): must be a finite number"),
        (["--adapter", "opencvv"], "there is no adapter 'opencvv'; did you mean 'opencv'?"),
        (["--adapter", "opencv", "--adapter", "opencv"], "opencv is named twice"),
        (["--steps", "7"], "--steps: '7' is not of the form NAME=VALUE"),
        (["--adapter-option", "opencv:short_side"], "NAME.OPTION=VALUE"),
        (["--rate", "opencv=fast"], "query.rate.opencv (from the command line): must be a number"),
        (["--race-pair", "Black"], "sweep.poles.race"),
        (["--race-pair", "Black,Blak"], "race has no category 'Blak'"),
        (["--mode", "dleta"], "must be delta | reconstruction, not 'dleta'; did you mean 'delta'?"),
        (["--quality", "20"], "sweep.jpeg_quality (from the command line, --quality): must be in 50-100, not "),
    ],
)
def test_options_are_checked_before_any_work(error_of, tmp_path, words, message):
    (tmp_path / "in").mkdir()
    assert message in error_of("audit", tmp_path / "in", "--out", tmp_path / "out", *words)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("toml", "message"),
    [
        ("[sweep]\nsteps.gender = 4", "sweep.steps (from options.toml"),
        ("[sweep]\nregion = []", "sweep.region (from options.toml): must be a list of at least 1"),
        ('[sweep]\nregion = ["skin", "skn"]', "there is no face class 'skn'"),
        ('[sweep]\nregion = ["eyes", "l_eye"]', "each face class may be named only once"),
        ("[query]\nadapters = []", "query.adapters (from options.toml): must be a list of at least 1"),
        ('[query]\nadapters = ["opncv"]', "there is no adapter 'opncv'; did you mean 'opencv'?"),
        ("[statistics]\nresamples = 1000000000000", "statistics.resamples (from options.toml): must be in 100-100000"),
        ("[statistics]\nmin_slope = inf", "statistics.min_slope (from options.toml): must be a finite number"),
        ("[statistics]\nconfidence = true", 'this is now statistics.response = "confidence"'),
        ("[statistics]\npresence = 0.5", "this is now statistics.presence_threshold"),
        ("[sweep]\nrace_steps = 5", "this is now sweep.steps.race"),
        ("[sweep]\nfeathre = 0.1", "there is no such option; did you mean 'feather'?"),
        ("[swep]\nfeather = 0.1", "there is no such section; did you mean 'sweep'?"),
        (f"a = {'[' * 20_000}{']' * 20_000}", "options.toml"),
        (f"[query.options.opencv]\nx = {'{a=' * 900}1{'}' * 900}", "options.toml"),
    ],
)  # fmt: skip
def test_options_of_a_file_are_checked_before_any_work(error_of, tmp_path, monkeypatch, toml, message):
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    Path("options.toml").write_text(toml)
    for command in ("audit", "generate"):
        assert message in error_of(command, "in", "--config", "options.toml", "--out", "out")
        assert not Path("out").exists()


@pytest.mark.parametrize("command", ["audit", "generate", "plan"])
def test_missing_photos_are_named_before_any_work(tmp_path, command):
    check = (
        "import sys; from typer.testing import CliRunner; from pipeline.cli.app import app\n"
        f"result = CliRunner().invoke(app, [{command!r}, 'nosuch/'])\n"
        "assert result.exit_code == 2, result.output\n"
        "assert 'there is no file or folder nosuch' in result.output, result.output\n"
        "assert 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", check], check=True, cwd=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_out_file_needs_an_existing_folder(error_of, tmp_path):
    for command in ("slopes", "validity"):
        error = error_of(command, tmp_path, "--out", tmp_path / "gone" / "x.csv")
        assert f"there is no folder {tmp_path / 'gone'}" in error
    assert not (tmp_path / "gone").exists()


def test_version_and_completion(invoke):
    from importlib.metadata import version

    result = invoke("--version")
    assert (result.exit_code, result.output.strip()) == (0, f"counterslope {version('counterslope')}")
    assert "--install-completion" in invoke("--help").output


def test_missing_opt_out_list_is_named(error_of, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(b"a photo")
    words = ("audit", tmp_path / "in", "--opt-out", tmp_path / "gone.txt", "--out", tmp_path / "out")
    assert "gone.txt cannot be read" in error_of(*words)


# Output


def test_status_counts_findings_in_singular_and_plural(monkeypatch, capsys, tmp_path):
    def row(number):
        evidence = {"slope_low": 0.1, "slope_high": 0.3, "q": 0.001}
        return {"adapter": "mine", "attribute": "gender", "label": f"l{number}", "slope": 0.2, **evidence}

    def printed(findings):
        stage = {"state": "done", "counts": {"estimable": findings}, "seconds": 1.0, "peak_mib": 1.0}
        content = {
            "run": str(tmp_path), "running": False, "stages": {"tables": stage}, "query": {},
            "validity": [], "warnings": [],
            "findings": [row(number) for number in range(findings)], "no_slopes": [], "report": None, "copy": None,
        }  # fmt: skip
        monkeypatch.setattr("pipeline.stages.status.summary", lambda _: content)
        monkeypatch.setattr("pipeline.run.folder.settings_of", lambda _: Settings())
        show_run(tmp_path, as_json=False)
        return " ".join(capsys.readouterr().out.split())

    assert "1 finding among 1 slope that could be estimated" in printed(1)
    assert "more finding" not in printed(5)
    assert "1 more finding in the report" in printed(6)
    assert "8 more findings in the report" in printed(13)


def test_status_explains_missing_slopes_by_classifier(invoke, tmp_path):
    nothing = {"photos": 12, "arm": "edit", "attribute": "gender", "estimable": False, "slope": None, "p": None}
    rows = [("softmax", f"class {n}", "never present at a = 0") for n in range(9)] + [("softmax", "cat", "too rare")]
    rows += [("mine", "bright", "constant"), ("mine", "warm", "too rare"), ("half", "bright", "too few photos")]
    slopes = pd.DataFrame([nothing | dict(zip(("adapter", "label", "reason"), row, strict=True)) for row in rows])
    run = Run(tmp_path / "run")
    stage = Stage(fingerprint="", state="done", counts={"labels": 12, "estimable": 0})
    run.note(settings=Settings(), stages={"tables": stage})
    run.write_csv("slopes", slopes)
    shown = invoke("status", run.folder).output
    assert "0 findings among 0 slopes that could be estimated" in shown
    assert "softmax: no slope of 10 labels: 9 never present at a = 0, 1 too rare" in shown
    assert "mine: no slope of 2 labels: 1 constant, 1 too rare" in shown
    assert shown.count("--response confidence") == 1
    assert "two photos or more of which every version has labels" in shown
    assert f"counterslope report {run.folder} --min-count 3`" in shown
    assert f"counterslope power {run.folder} --min-count 3`" in shown
    for option in ("--response confidence --min-count 0", "--min-count 3"):
        assert invoke("report", run.folder, *option.split()).exit_code == 2  # known options; this run has no labels
    run.write_csv("slopes", slopes.assign(estimable=True))
    assert "no slope" not in invoke("status", run.folder).output


def test_audit_warns_of_too_few_photos(invoke, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jpg").write_bytes(b"not a photo")
    warning = "1 photo, but a slope needs 30 photos with the label at a = 0"
    assert warning in " ".join(invoke("audit", tmp_path / "in", "--out", tmp_path / "out").output.split())
    assert "a slope needs" not in invoke("audit", tmp_path / "in", "--min-count", 1, "--out", tmp_path / "out").output


def test_card_title_counts_checks_by_result():
    figures = [(0.5, 0.4, True), (0.1, 0.4, False), (None, 0.4, None), (0.3, None, None)]
    rows = [
        {"name": f"c{n}", "attribute": "gender", "unit": "", "words": "", "figure": f, "threshold": t, "passed": p}
        for n, (f, t, p) in enumerate(figures)
    ]
    title = card_title(check_results(rows))
    assert title == "Validity card, 4 checks: 1 hold, 1 fail, 1 not measured, 1 no threshold"
    assert card_title(check_results(rows[:1])) == "Validity card, 1 check: 1 hold, 0 fail"


def test_given_options_are_json(given):
    options = json.loads(json.dumps(given("--steps", "gender=7", "--weights", "a.pth"), default=str))
    assert options["sweep"] == {"steps": {"gender": "7"}, "parser_weights": "a.pth"}
