"""The run record: round trip, upgrade from version 1, and damage."""

import json
from pathlib import Path

import pytest

from pipeline.config.options import Settings
from pipeline.run.folder import Run, settings_of
from pipeline.run.record import RunError, RunRecord, Stage, read_record, write_record

VERSION_1 = Path(__file__).with_name("version_1_run.json")


def test_record_round_trip(tmp_path):
    record = RunRecord(
        settings=Settings(),
        stages={"photos": Stage(fingerprint="f", state="done", counts={"planned": 3})},
        query={"opencv": {"images": 3, "known_before": 0, "calls_planned": 1}},
    )
    write_record(record, tmp_path / "run.json")
    assert read_record(tmp_path / "run.json") == record
    assert record.is_done("photos")
    assert not record.is_done("faces")


def test_plain_record_omits_empty_fields(tmp_path):
    record = RunRecord(query={"opencv": {"images": 3, "known_before": 0, "calls_planned": 1}})
    assert set(record.plain()["query"]["opencv"]).isdisjoint({"service", "price", "stopped", "drift"})


def test_version_1_run_is_read_and_upgraded(tmp_path):
    old = json.loads(VERSION_1.read_text())
    (tmp_path / "run.json").write_bytes(VERSION_1.read_bytes())
    run = Run(tmp_path)
    assert run.record.presence_thresholds == old["presence"]
    assert run.record.stages["query"].counts == old["stages"]["query"]["counts"]
    assert run.record.query["face-attributes"].service.host == "vision.example.org"
    assert run.record.artifacts["power"].written == old["additions"]["power"]["written"]
    assert [check.name for check in run.record.validity] == [check["name"] for check in old["validity"]]
    assert settings_of(run).statistics.min_count == old["settings"]["statistics"]["min_count"]
    run.note(precision="float32")
    assert json.loads((tmp_path / "run.json").read_text())["schema"] == 2
    assert Run(tmp_path).record == run.record


@pytest.mark.parametrize(
    "damage",
    [
        {"stages": []},
        {"stages": {"faces": "done"}},
        {"stages": {"faces": {"state": "done"}}},
        {"settings": {"sweep": {"reach": "far"}}},
        {"settings": []},
        {"query": [1]},
        {"presence_thresholds": "0.5"},
        {"validity": {"name": "effect"}},
        {"surprise": 1},
    ],
)
@pytest.mark.parametrize("version", [1, 2])
def test_damaged_record_raises_in_one_line(tmp_path, damage, version):
    path = tmp_path / "run.json"
    path.write_text(json.dumps({"schema": version, **damage}))
    with pytest.raises(RunError) as caught:
        Run(tmp_path)
    message = str(caught.value)
    assert "\n" not in message
    assert next(iter(damage)) in message
    assert str(path) in message
    assert json.loads(path.read_text()) == {"schema": version, **damage}
