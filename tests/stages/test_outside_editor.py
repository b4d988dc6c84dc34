"""Counterfactuals by an outside editor: repetition after failures, and consent to remote services."""

import shutil
import sys

import pandas as pd
import pytest

from pipeline.config.sources import load_settings
from pipeline.photos import SAMPLE
from pipeline.querying.plan import PlanError
from pipeline.run.folder import Run
from pipeline.stages.audit import make_counterfactuals, start_run
from pipeline.stages.plan import plan_of_photos

EDITOR = """
from pathlib import Path

def edit(pixels, *, attribute, value, **_):
    with Path("asked.txt").open("a") as file:
        file.write(f"{value}\\n")
    if value > 0 and Path("down").exists():
        raise OSError("the service is down")
    return pixels // 2
"""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "half_editor", raising=False)
    (tmp_path / "half_editor.py").write_text(EDITOR)
    shutil.copy(sorted(SAMPLE.glob("*.jpg"))[0], tmp_path / "a.jpg")
    return tmp_path


def settings_with(editor, **options):
    sweep = {"editor": editor, "steps": {"gender": 3}, "placebos": ["colour"]} | options
    return load_settings(given={"sweep": sweep}, environment={})


def make_versions(folder, settings, **options):
    run = Run(folder / "run")
    with run.locked():
        make_counterfactuals(start_run(run, [folder / "a.jpg"], settings=settings, given={}, **options))
    return pd.read_parquet(folder / "run" / "counterfactuals.parquet")


def test_repeated_command_requests_failed_versions_only(folder):
    settings = settings_with("python:half_editor:edit")
    (folder / "down").touch()
    failed = make_versions(folder, settings)
    assert set(failed["status"]) == {"failed"}
    assert failed["reason"].str.contains("the service is down").all()
    (folder / "down").unlink()
    (folder / "asked.txt").unlink()
    versions = make_versions(folder, settings)
    assert set(versions["status"]) == {"ok"}
    assert set(versions["arm"]) == {"edit", "colour"}
    assert (folder / "asked.txt").read_text().split() == ["2.0"]
    assert (versions["background_kept"] == 1).all()
    make_versions(folder, settings)
    assert (folder / "asked.txt").read_text().split() == ["2.0"]


def test_remote_editor_needs_consent(folder):
    settings = settings_with("https://edit.example/v1", editor_price=20.0)
    with pytest.raises(PlanError, match=r"sending faces to edit\.example was not confirmed"):
        make_versions(folder, settings)
    plan = plan_of_photos([folder / "a.jpg"], [], settings)
    assert (plan.hosts, plan.calls, plan.usd) == (["edit.example"], 3, pytest.approx(0.06))
