"""``counterslope adapters``: the list, ``info`` and ``doctor``."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from adapters import registry
from adapters.doctor import Probe

ROOT = Path(__file__).parents[2]
CREDENTIALS = ("GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "IMAGGA_API_KEY", "IMAGGA_API_SECRET")


@pytest.fixture
def invoke(monkeypatch: pytest.MonkeyPatch, invoke):
    for name in CREDENTIALS:
        monkeypatch.delenv(name, raising=False)
    return lambda *words: invoke("adapters", *words)


def test_adapters_are_listed_with_lifecycle_and_price(invoke):
    result = invoke()
    assert result.exit_code == 0
    for name in registry.BUILT_IN:
        assert name in result.output
    assert "ends 2028-09-25" in result.output
    rows = {row["name"]: row for row in json.loads(invoke("--json").output)}
    assert {"opencv", "face-attributes", "planted", "python"} <= set(rows)
    assert rows["google"]["usd_per_1000"] == 1.5
    assert "watson" not in rows
    assert rows["onnx"]["remote"] is False
    assert rows["onnx"]["lifecycle"] is None


@pytest.mark.parametrize("name", registry.BUILT_IN)
def test_info_needs_no_credentials(invoke, name):
    result = invoke("info", name)
    assert result.exit_code == 0, result.output
    content = json.loads(invoke("info", name, "--json").output)
    for option in content["options"]:
        assert option["name"] in result.output
    service = content["capabilities"]["service"]
    assert ("no image leaves this machine" in result.output) == (service is None)


def test_list_and_info_import_no_heavy_package():
    heavy = {"torch", "onnxruntime", "open_clip", "transformers", "requests", "pandas", "cv2"}
    code = (
        "import sys; from typer.testing import CliRunner; from pipeline.cli.app import app\n"
        "for words in (['adapters'], ['adapters', 'info', 'clip'], ['adapters', 'info', 'onnx']):\n"
        "    assert CliRunner().invoke(app, words).exit_code == 0\n"
        f"print(sorted({heavy} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert found.stdout.strip() == "[]"


def test_doctor_of_a_working_local_classifier(invoke):
    result = invoke("doctor", "opencv", "--json")
    assert result.exit_code == 0
    content = json.loads(result.output)
    assert content["usable"]
    assert [check["name"] for check in content["checks"]] == ["package", "set-up", "limits", "canary", "repeat"]
    assert {check["state"] for check in content["checks"]} == {"ok"}


@pytest.fixture
def reachable(monkeypatch):
    monkeypatch.setattr("adapters.doctor._probe", lambda _: Probe(status=404))


def test_doctor_reports_missing_credentials(invoke, reachable):
    result = invoke("doctor", "google")
    assert result.exit_code == 1
    assert "not set: GOOGLE_API_KEY" in result.output
    assert "export GOOGLE_API_KEY=..." in result.output


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["opencv", "--adapter-option", "opencv.short_side=3"], 1, "must be in 24-1024"),
        (["opencv", "--adapter-option", "google.region=eu"], 2, "does not belong to 'opencv'"),
        (["opncv"], 2, "did you mean 'opencv'?"),
    ],
)
def test_doctor_checks_options_and_names(invoke, words, code, message):
    result = invoke("doctor", *words)
    assert result.exit_code == code
    assert message in result.output


def test_unknown_adapter_is_one_line_of_output(invoke):
    result = invoke("doctor", "nope")
    assert result.exit_code == 2
    assert result.output.strip().count("\n") == 0
    assert "there is no adapter 'nope'" in result.output
    assert "counterslope adapters" in result.output


def test_crash_of_the_classifier_is_a_finding(invoke, tmp_path):
    (tmp_path / "doctored_module.py").write_text("def look(image): raise RuntimeError('no [bold]weights')")
    adapter = "python:doctored_module:look"
    result = invoke("doctor", adapter, "--adapter-option", f"{adapter}.path={tmp_path}")
    assert result.exit_code == 1
    assert "RuntimeError: no [bold]weights" in result.output


def test_name_between_colons_is_not_an_emoji(invoke, reachable):
    options = ["http:x.url=https://clinic.example", "http:x.label=[*].name"]
    result = invoke("doctor", "http:x", *(word for option in options for word in ("--adapter-option", option)))
    assert "set-up: http:x: version not told" in result.output
