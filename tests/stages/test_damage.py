"""A damaged run: what costs nothing is made again, what was paid for is never sent again unseen, and no traceback."""

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
# Of each table: the command that makes it again, as the message names it.
REMEDIES = {**dict.fromkeys(TABLES, "the command that made the run"), "answers": "labels", "labels": "labels"}


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def remove(path: Path) -> None:
    path.unlink()


@pytest.fixture(scope="module")
def photos(sample_folder) -> Path:
    return sample_folder(2, every=1)


@pytest.fixture(scope="module")
def whole(photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(photos, tmp_path_factory.mktemp("runs") / "whole")


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "run"))


def make(photos: Path, folder: Path) -> Path:
    given = {
        "sweep": {"attributes": ["gender"], "steps": {"gender": 3}, "placebos": []},
        "query": {"adapters": ["opencv"]},
        "statistics": {"min_count": 1, "resamples": 100},
    }
    audit([photos], folder, settings=load_settings(given=given, environment={}), given=given)
    return folder


def invoke(*words: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(map(str, words)))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, " ".join(result.output.split())


def content_of(folder: Path) -> dict[str, bytes]:
    files = [*folder.glob("*.parquet"), *folder.glob("tables/*"), folder / "report.html"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.mark.parametrize("damage", [cut, remove])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_is_gone_or_damaged_is_named_with_what_makes_it_again(
    folder: Path, table: str, damage: Callable[[Path], None]
) -> None:
    damage(folder / f"{table}.parquet")
    code, message = invoke("report", folder, "--quiet")
    assert code == 2
    assert f"{table}.parquet is gone or damaged" in message
    assert REMEDIES[table] in message
    assert invoke("status", folder)[0] == 0
    assert "damaged" in {stage["state"] for stage in summary(folder)["stages"].values()}
    code, message = invoke("repair", folder)
    assert code == 0
    assert f"{table}.parquet is gone or damaged" in message


@pytest.mark.parametrize("table", ["answers", "labels"])
def test_labels_that_are_gone_are_derived_again_from_the_answers(folder: Path, whole: Path, table: str) -> None:
    remove(folder / f"{table}.parquet")
    assert invoke("labels", folder, "--quiet")[0] == 0
    assert content_of(folder) == content_of(whole)


def test_the_same_command_makes_all_damaged_tables_again_and_sends_nothing(
    folder: Path, whole: Path, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for table in TABLES:
        cut(folder / f"{table}.parquet")
    cut(folder / "tables/slopes.csv")
    remove(folder / "report.html")
    monkeypatch.setattr("adapters.local.opencv.OpenCV.send", None)
    make(photos, folder)
    assert content_of(folder) == content_of(whole)
    counts = Run(folder).record.stages["query"].counts
    assert (counts["answered_now"], counts["known_before"]) == (0, 6)


def test_a_table_of_results_is_written_again_by_the_report(folder: Path, whole: Path) -> None:
    cut(folder / "tables/slopes.csv")
    remove(folder / "tables/validity.csv")
    for command in ("status", "slopes", "validity"):
        code, message = invoke(command, folder)
        assert code == 0 or "counterslope report" in message
    assert invoke("report", folder, "--quiet")[0] == 0
    assert content_of(folder) == content_of(whole)


@pytest.mark.parametrize(
    "content",
    ['{"schema": 2, "stages": []}', '{"schema": 2, "settings": 3}', "[]", "", '{"schema": 2', '{"schema": 99}'],
)
def test_a_record_of_another_shape_stops_every_command_in_one_line(folder: Path, photos: Path, content: str) -> None:
    (folder / "run.json").write_text(content)
    for words in (["status", folder], ["report", folder], ["repair", folder], ["audit", photos, "--out", folder]):
        code, message = invoke(*words)
        assert code == 2
        assert "run.json" in message or "schema" in message
    assert (folder / "run.json").read_text() == content


def test_a_lock_that_is_a_folder_is_named(folder: Path) -> None:
    (folder / ".lock").unlink(missing_ok=True)
    (folder / ".lock").mkdir()
    code, message = invoke("report", folder)
    assert code == 2
    assert "cannot be written" in message


def test_a_damaged_file_of_answers_stops_the_query_and_is_repaired(folder: Path, whole: Path) -> None:
    for ending in ("-wal", "-shm"):
        Path(f"{folder / 'responses.sqlite'}{ending}").unlink(missing_ok=True)
    content = bytearray((folder / "responses.sqlite").read_bytes())
    content[4096 : 2 * 4096] = b"\xa5" * 4096
    (folder / "responses.sqlite").write_bytes(bytes(content))
    code, message = invoke("labels", folder, "--quiet")
    assert code == 2
    assert "counterslope repair" in message
    code, message = invoke("repair", folder)
    assert (folder / "responses.damaged.sqlite").exists() == (code == 0)
    assert "saved into a new file" in message or "nothing in" in message


def test_paid_answers_that_are_gone_are_not_paid_for_again_unseen(folder: Path) -> None:
    record = json.loads((folder / "run.json").read_text())
    record["query"]["opencv"]["service"] = {
        "provider": "P",
        "host": "cloud.example",
        "retention": "none",
        "version": "1",
    }
    record["query"]["opencv"]["service"]["version"] = None
    record["stages"]["query"]["state"] = "incomplete"
    (folder / "run.json").write_text(json.dumps(record))
    for ending in ("", "-wal", "-shm"):
        Path(f"{folder / 'responses.sqlite'}{ending}").unlink(missing_ok=True)
    code, message = invoke("query", folder, "--adapter", "opencv", "--quiet")
    assert code == 2
    assert "is gone, with paid answers: 6 of opencv" in message
    assert invoke("query", folder, "--adapter", "opencv", "--retry", "failed", "--quiet")[0] == 0
