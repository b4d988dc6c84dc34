"""The Python API, on a run generated without photos."""

import shutil
import subprocess
import sys
from pathlib import Path
from uuid import uuid4

import pandas as pd
import pytest
from finished_run import responses, write_run
from typer.testing import CliRunner

import pipeline
from pipeline import AdapterError, ConfigError, InputError, PlanError, RunError, audit, open_run
from pipeline.cli.app import app
from pipeline.run.tables import column_types, frame_from_csv


@pytest.fixture
def run(tmp_path: Path):
    parts = [
        ("opencv", "gender", "edit", responses(effect=0.3, seed=1)),
        ("mine", "gender", "edit", responses(effect=0.1, seed=3)),
    ]
    return open_run(write_run(tmp_path / "may", parts)).estimate()


def command_output(*arguments, like: pd.DataFrame | None = None) -> pd.DataFrame:
    """The CSV that a command prints; its columns have the types of ``like``."""
    result = CliRunner().invoke(app, [*map(str, arguments), "--format", "csv"])
    assert result.exit_code == 0, result.output
    return frame_from_csv(result.stdout, {} if like is None else column_types(like))


def assert_prints(frame: pd.DataFrame, *arguments) -> None:
    expected = command_output(*arguments, like=frame)
    pd.testing.assert_frame_equal(frame.reset_index(drop=True), expected, check_dtype=False)


def test_api_and_commands_give_the_same_numbers(run):
    assert_prints(run.power(width=0.1), "power", run.folder, "--width", 0.1)
    assert_prints(run.compare(adapters=["opencv", "mine"]), "compare", run.folder, "--adapters", "opencv,mine")
    assert_prints(run.validity(), "validity", run.folder)
    found = run.findings()
    listed = command_output("slopes", run.folder)
    assert list(found["slope"]) == list(listed["slope"])
    assert list(found["label"]) == list(listed["label"])


def test_amplification_accepts_base_shares(run, tmp_path):
    (tmp_path / "base.csv").write_text("task,share\nl0,0.7\nl1,0.2\n")
    words = ["--base", tmp_path / "base.csv", "--base-columns", "task,share,female", "--resamples", 50]
    frame = run.amplification(base={"l0": 0.7, "l1": 0.2}, base_group="female", resamples=50)
    pd.testing.assert_series_equal(
        frame["amplification"], command_output("amplification", run.folder, *words)["amplification"]
    )


def test_notebook_view_shows_card_and_findings(run):
    shown = run._repr_html_()
    assert shown.count("<table") >= 2
    assert "Validity card" in shown
    assert "Labels of opencv that change with perceived gender" in shown
    (run.folder / "tables/slopes.csv").unlink()
    assert "tables" in run._repr_html_(), "a run without estimates shows its stages"


def test_run_view_reads_tables_and_stages(run):
    assert set(run.slopes()["label"]) == {"l0", "l1", "l2"}
    assert set(run.labels()["adapter"]) == {"opencv", "mine"}
    assert {"z", "z_low", "z_high"} <= set(run.curves().columns)
    assert len(run.photos()) == len(run.faces()) == 90
    stages = run.status().set_index("stage")
    assert stages.loc["tables", "state"] == "done"
    assert repr(run) == f"open_run({str(run.folder)!r})"


def test_estimate_replaces_the_tables(run):
    assert run.estimate(max_p=0.5, min_slope=0.0).findings().shape[0] > run.estimate(max_p=1e-30).findings().shape[0]
    assert run.report().is_file()


def test_errors_have_specific_types(run, tmp_path):
    with pytest.raises(RunError, match="holds no run"):
        open_run(tmp_path / "nothing")
    with pytest.raises(ConfigError, match="max_q"):
        run.estimate(max_q=0.1)
    with pytest.raises(RunError, match="no adapter 'yours'"):
        run.figures(tmp_path, adapters=["yours"])
    with pytest.raises(InputError, match="no label 'hat'"):
        run.local(adapter="opencv", label="hat")
    with pytest.raises(ValueError, match="there is no format 'docx'"):
        run.table("docx")
    (run.folder / "tables/slopes.csv").unlink()
    with pytest.raises(RunError, match="has no table 'slopes'"):
        run.slopes()


def test_invalid_adapter_is_refused_before_any_work(tmp_path):
    out = tmp_path / "out"
    with pytest.raises(AdapterError, match="is no classifier"):
        audit(tmp_path, out=out, adapters=[3])
    with pytest.raises(AdapterError, match="there is no adapter 'opencvv'"):
        audit(tmp_path, out=out, adapters=["opencvv"])
    with pytest.raises(ConfigError, match="opencv is named twice"):
        audit(tmp_path, out=out, adapters=["opencv", "opencv"])
    assert not out.exists()


def test_run_in_a_store_is_continued_without_its_local_folder(sample_folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    url, sent = f"memory://{uuid4()}/run", []

    def bright(image: bytes) -> dict[str, float]:
        sent.append(image)
        return {"bright": image[-20] / 255}

    options = {"sweep": {"steps": {"gender": 3}, "placebos": []}, "engine": {"workers": 1}}
    first = audit(sample_folder(1), out=url, adapters=[bright], attributes=["gender"], options=options).labels()
    assert len(sent) == len(first) == 3
    shutil.rmtree("runs")
    pd.testing.assert_frame_equal(open_run(url).labels(), first)
    shutil.rmtree("runs")
    again = audit(sample_folder(1), out=url, adapters=[bright], attributes=["gender"], options=options)
    pd.testing.assert_frame_equal(again.labels(), first)
    assert len(sent) == 3


def test_remote_adapter_needs_consent(tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "none")
    with pytest.raises(PlanError):
        audit(tmp_path, out=tmp_path / "out", adapters=["google"])


def test_public_names_are_listed_and_documented():
    assert set(pipeline.__all__) <= set(dir(pipeline))
    for name in pipeline.__all__:
        assert getattr(pipeline, name).__doc__
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        pipeline.nothing  # noqa: B018 - looking it up is the test


def test_importing_the_package_imports_no_module_of_it():
    check = (
        "import sys, pipeline; own = {'pipeline.config', 'pipeline.config.lazy'}; "
        "sys.exit(str([m for m in sys.modules if m.startswith('pipeline.') and m not in own] or '') or 0)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, cwd=Path(__file__).parents[1])


def test_placebo_slopes_are_not_findings(tmp_path):
    parts = [
        ("opencv", "gender", "edit", responses(effect=0.0, seed=1)),
        ("opencv", "gender", "random", responses(effect=0.3, seed=2)),
    ]
    run = open_run(write_run(tmp_path / "june", parts)).estimate()
    moved = run.slopes().query("arm == 'random'")
    assert ((moved["p"] < 0.001) & (moved["slope"].abs() > 0.03)).any()
    assert run.findings().empty
    shown = CliRunner().invoke(app, ["status", str(run.folder)])
    assert "0 findings among 3 slopes that could be estimated" in " ".join(shown.output.split())
