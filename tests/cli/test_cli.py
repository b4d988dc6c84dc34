"""The command line: help, exit codes, messages, JSON."""

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from pipeline.cli.app import app

COMMANDS = ("audit", "generate", "plan", "query", "slopes", "report", "adapters", "status")
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_an_example(invoke, command):
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"counterslope {command}" in " ".join(result.output.split())


def test_help_lists_commands_in_groups(invoke):
    from pipeline.cli.options import PANELS

    shown = invoke("--help").output
    known = set(typer.main.get_command(app).commands)
    for panel, names in PANELS.items():
        assert panel in shown
        assert set(names) <= known
    assert shown.index("From photos") < shown.index(" audit ") < shown.index("Classifiers") < shown.index(" query ")
    assert shown.index("Analyses") < shown.index(" leakage ")


def test_package_and_help_import_no_heavy_package():
    check = (
        "import sys, pipeline, pipeline.cli.app; "
        "heavy = {'torch', 'pandas', 'pyarrow', 'cv2', 'altair', 'pydantic_settings', 'statsmodels'}; "
        "heavy &= set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    subprocess.run([sys.executable, "-c", check], check=True, cwd=ROOT)


def test_no_usable_photo_sets_exit_code_2(error_of, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "broken.jpg").write_bytes(b"\xff\xd8\xff broken")
    assert "none of the 1 files can be used" in error_of("audit", tmp_path / "in", "--out", tmp_path / "out")


@pytest.mark.parametrize("words", [("--placebo", "random,shape"), ("--placebo", "random", "--placebo", "random")])
def test_unknown_or_repeated_placebo_is_refused(error_of, tmp_path, words):
    error = error_of("generate", tmp_path, *words, "--out", tmp_path / "out")
    assert "sweep" in error
    assert "placebo" in error
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["audit", "generate"])
def test_bisenet_parser_needs_weights(error_of, tmp_path, command):
    assert "--weights" in error_of(command, tmp_path, "--parser", "bisenet", "--out", tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", ["audit", "generate"])
def test_unknown_parser_weights_are_refused(error_of, one_portrait, tmp_path, command):
    (tmp_path / "mine.pth").write_bytes(b"weights of my own")
    words = (command, one_portrait, "--parser", "bisenet", "--out", tmp_path / "out", "--quiet", "--weights")
    assert "is not the public BiSeNet weights" in error_of(*words, tmp_path / "mine.pth")
    assert "cannot be read" in error_of(*words, tmp_path / "gone.pth")


def test_damaged_recognition_weights_are_explained(error_of, one_portrait, tmp_path, monkeypatch):
    from models.identity import FILE

    (tmp_path / "torch" / "checkpoints").mkdir(parents=True)
    (tmp_path / "torch" / "checkpoints" / FILE).write_bytes(b"half a download")
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    assert FILE in error_of("generate", one_portrait, "--out", tmp_path / "out", "--quiet")


@pytest.fixture(scope="module")
def one_portrait(sample_folder) -> Path:
    return sample_folder(1)


LENIENT = (
    "effect = 0\nmonotone = 0\noff_target = 1\nlightness = 99\nclipped = 1\nseam = 99\nidentity = -1\n"
    "falls = 1\ndead = 1\nyears = 99\nmost_years = 99\ntone = 99\nneck_gap = 99\nasymmetry = 2\n"
)
# No edit has an effect of 1.
CARDS = {"lenient": LENIENT, "impossible": LENIENT.replace("effect = 0", "effect = 1")}


@pytest.fixture(scope="module")
def audit_with(one_portrait: Path, tmp_path_factory: pytest.TempPathFactory):
    """Audit the portrait with the thresholds of a card, always in the same run."""
    folder, runner = tmp_path_factory.mktemp("strict"), CliRunner()

    def audit(card: str, *words: str):
        config = folder / f"{card}.toml"
        config.write_text(f"[validity]\n{CARDS[card]}\n[statistics]\nresamples = 100\n")
        fixed = ["--attribute", "gender", "--steps", "gender=3", "--placebo", "random,colour", "--adapter", "opencv"]
        out = ["--out", str(folder / "run"), "--config", str(config), "--quiet"]
        return runner.invoke(app, ["audit", str(one_portrait), *fixed, *out, *words])

    return audit


@pytest.mark.parametrize(
    ("card", "words", "code"),
    [("impossible", [], 0), ("impossible", ["--strict"], 3), ("lenient", ["--strict"], 0), ("lenient", [], 0)],
)
def test_strict_sets_exit_code_3_where_the_card_fails(audit_with, card, words, code):
    result = audit_with(card, *words)
    assert result.exit_code == code, result.output
    assert ("the validity card fails (--strict)" in result.output) == (code == 3)
    # In all cases the run is complete and printed.
    assert "Validity card" in result.output
    assert ("failed gender, effect" in " ".join(result.output.split())) == (card == "impossible")
    # A run that is continued has the same exit code.
    assert audit_with(card, *words).exit_code == code


def test_audit_json_is_valid_json(audit_with):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    printed = json.loads(audit_with("lenient", "--json").stdout, parse_constant=refuse)
    names = [check["name"] for check in printed["validity"]]
    assert {"null edit", "effect", "placebo: random", "placebo: colour"} <= set(names)
    assert all(check["passed"] in (True, False, None) for check in printed["validity"])


def test_status_of_a_folder_without_run(error_of, tmp_path):
    assert "no run" in error_of("status", tmp_path / "nothing")
    assert not (tmp_path / "nothing").exists()


def test_configuration_of_the_readme_is_valid():
    from pipeline.config.options import Settings

    text = (ROOT / "README.md").read_text(encoding="utf-8").split("```toml")[1].split("```")[0]
    settings = Settings.model_validate(tomllib.loads(text))
    assert settings.sweep.poles["race"] == ("Asian", "White")
