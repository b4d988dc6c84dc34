"""The command line as people and programs meet it: help, exit codes, messages, JSON."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli import app

COMMANDS = ("audit", "generate", "query", "slopes", "report", "adapters", "status")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def invoke():
    runner = CliRunner()
    return lambda *words: runner.invoke(app, list(words))


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(invoke, command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"counterslope {command}" in " ".join(result.output.split())


def test_the_package_and_its_help_load_nothing_heavy() -> None:
    check = (
        "import sys, pipeline, pipeline.cli; "
        "heavy = {'torch', 'pandas', 'pyarrow', 'cv2', 'altair', 'pydantic', 'statsmodels'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, cwd=ROOT)


def test_adapters_are_listed_for_machines(invoke) -> None:
    result = invoke("adapters", "--json")
    rows = json.loads(result.output)
    assert {"opencv", "face-attributes", "planted", "python"} <= {row["name"] for row in rows}


def test_no_usable_photo_ends_with_two(invoke, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    result = invoke("audit", str(tmp_path / "in"), "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "none of the 1 files can be used" in result.output


def test_a_misspelt_adapter_is_found_before_any_work(invoke, tmp_path: Path) -> None:
    result = invoke("audit", str(tmp_path), "--adapter", "opencvv", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "opencv" in result.output
    assert not (tmp_path / "out").exists()


def test_a_wrong_option_names_its_source(invoke, tmp_path: Path) -> None:
    config = tmp_path / "audit.toml"
    config.write_text("[sweep]\ngender_steps = 4\n")
    result = invoke("audit", str(tmp_path), "--config", str(config), "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "sweep.gender_steps" in result.output
    assert "audit.toml" in result.output.replace("\n", "")


def test_status_of_a_folder_that_is_no_run(invoke, tmp_path: Path) -> None:
    result = invoke("status", str(tmp_path / "nothing"))
    assert result.exit_code == 2
    assert "no run" in result.output
    assert not (tmp_path / "nothing").exists()


def test_a_malformed_adapter_option_is_explained(invoke, tmp_path: Path) -> None:
    result = invoke("audit", str(tmp_path), "--adapter-option", "opencv:short_side", "--out", str(tmp_path / "out"))
    assert result.exit_code == 2
    assert "NAME.OPTION=VALUE" in result.output


def test_the_readme_s_configuration_is_valid() -> None:
    from pipeline.config import Settings

    text = (ROOT / "README.md").read_text(encoding="utf-8").split("```toml")[1].split("```")[0]
    settings = Settings.model_validate(tomllib.loads(text))
    assert settings.sweep.race_pair == ("Asian", "White")
