"""Damaged runs: tables are restored, paid answers are never requested again silently, and errors are messages."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli.app import app
from pipeline.config.sources import load_settings
from pipeline.run.folder import Run
from pipeline.stages.audit import audit
from pipeline.stages.status import summary

TABLES = ("photos", "faces", "counterfactuals", "answers", "labels")
# The command that restores a table, as named in the message.
REMEDIES = {**dict.fromkeys(TABLES, "the command that made the run"), "answers": "labels", "labels": "labels"}


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture(scope="module")
def photos(sample_folder) -> Path:
    return sample_folder(2, every=1)


@pytest.fixture(scope="module")
def intact(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(photos, tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture
def folder(intact: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(intact, tmp_path / "run"))


def make_run(photos: Path, folder: Path) -> Path:
    given = {
        "sweep": {"attributes": ["gender"], "steps": {"gender": 3}, "placebos": []},
        "query": {"adapters": ["opencv"]},
        "statistics": {"min_count": 1, "resamples": 100},
    }
    audit([photos], folder, settings=load_settings(given=given, environment={}), given=given)
    return folder


def run_command(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def content_of(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("*.parquet"), *folder.glob("tables/*"), folder / "report.html"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("damage", [truncate, remove])
@pytest.mark.parametrize("table", TABLES)
def test_missing_or_damaged_table_is_reported_with_a_remedy(
    folder: Path, table: str, damage: Callable[[Path], None]
) -> None:
    damage(folder / f"{table}.parquet")
    code, message = run_command("report", folder, "--quiet")
    assert code == 2
    assert f"{table}.parquet is gone or damaged" in message
    assert REMEDIES[table] in message
    assert run_command("status", folder)[0] == 0
    assert "damaged" in {stage["state"] for stage in summary(folder)["stages"].values()}
    code, message = run_command("repair", folder)
    assert code == 0
    assert f"{table}.parquet is gone or damaged" in message


@pytest.mark.parametrize("table", ["answers", "labels"])
def test_missing_labels_are_derived_from_the_answers(folder: Path, intact: Path, table: str) -> None:
    remove(folder / f"{table}.parquet")
    assert run_command("labels", folder, "--quiet")[0] == 0
    assert content_of(folder) == content_of(intact)


def test_repeated_audit_restores_damaged_tables_without_queries(
    folder: Path, intact: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in TABLES:
        truncate(folder / f"{table}.parquet")
    truncate(folder / "tables/slopes.csv")
    remove(folder / "report.html")
    monkeypatch.setattr("adapters.local.opencv.OpenCV.send", None)
    make_run(photos, folder)
    assert content_of(folder) == content_of(intact)
    counts = Run(folder).record.stages["query"].counts
    assert (counts["answered_now"], counts["known_before"]) == (0, 6)


def test_report_restores_damaged_result_tables(folder: Path, intact: Path) -> None:
    truncate(folder / "tables/slopes.csv")
    remove(folder / "tables/validity.csv")
    for command in ("status", "slopes", "validity"):
        code, message = run_command(command, folder)
        assert code == 0 or "counterslope report" in message
    assert run_command("report", folder, "--quiet")[0] == 0
    assert content_of(folder) == content_of(intact)


@pytest.mark.parametrize(
    "content",
    ['{"schema": 2, "stages": []}', '{"schema": 2, "settings": 3}', "[]", "", '{"schema": 2', '{"schema": 99}'],
)
def test_invalid_record_stops_every_command(folder: Path, photos: Path, content: str) -> None:
    (folder / "run.json").write_text(content)
    for words in (["status", folder], ["report", folder], ["repair", folder], ["audit", photos, "--out", folder]):
        code, message = run_command(*words)
        assert code == 2
        assert "run.json" in message or "schema" in message
    assert (folder / "run.json").read_text() == content


def test_lock_that_is_a_folder_is_reported(folder: Path) -> None:
    (folder / ".lock").unlink(missing_ok=True)
    (folder / ".lock").mkdir()
    code, message = run_command("report", folder)
    assert code == 2
    assert "cannot be written" in message


def test_damaged_answer_file_is_reported_and_repaired(folder: Path, intact: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{folder / 'responses.sqlite'}{ending}").unlink(missing_ok=True)
    content = bytearray((folder / "responses.sqlite").read_bytes())
    content[4096 : 2 * 4096] = b"\xa5" * 4096
    (folder / "responses.sqlite").write_bytes(bytes(content))
    code, message = run_command("labels", folder, "--quiet")
    assert code == 2
    assert "counterslope repair" in message
    code, message = run_command("repair", folder)
    assert (folder / "responses.damaged.sqlite").exists() == (code == 0)
    assert "saved into a new file" in message or "nothing in" in message


def test_missing_paid_answers_are_not_queried_again_silently(folder: Path) -> None:
    record = json.loads((folder / "run.json").read_text())
    service = {"provider": "P", "host": "cloud.example", "retention": "none", "version": None}
    record["query"]["opencv"]["service"] = service
    record["stages"]["query"]["state"] = "incomplete"
    (folder / "run.json").write_text(json.dumps(record))
    for ending in ("", "-wal", "-shm"):
        Path(f"{folder / 'responses.sqlite'}{ending}").unlink(missing_ok=True)
    code, message = run_command("query", folder, "--adapter", "opencv", "--quiet")
    assert code == 2
    assert "is gone, with paid answers: 6 of opencv" in message
    assert run_command("query", folder, "--adapter", "opencv", "--retry", "failed", "--quiet")[0] == 0
