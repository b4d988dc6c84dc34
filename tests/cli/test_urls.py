"""Addresses of object stores on the command line: what is fetched, and what is refused without making a folder."""

from uuid import uuid4

import pytest
from finished_run import responses, write_run

from pipeline.run.checkpoint import RunCopy
from pipeline.run.storage import location


@pytest.mark.parametrize("url", ["s3://bucket/photos", "gs://bucket"])
def test_what_is_written_to_a_disk_has_a_folder_there(url, sample_folder, tmp_path, monkeypatch, invoke):
    photos = sample_folder(1)
    monkeypatch.chdir(tmp_path)
    result = invoke("represent", photos, "--out", url, "--quiet")
    assert result.exit_code == 2
    assert f"{url.partition(':')[0]}:// is an object store" in (said := " ".join(result.stderr.split()))
    assert "name a folder with --out" in said
    assert not list(tmp_path.iterdir())


@pytest.fixture
def stored(tmp_path):
    """A run's folder, and the address of its copy."""
    run = write_run(tmp_path / "run", [("mine", "gender", "edit", responses(effect=0.1, seed=1))])
    url = f"memory://{uuid4()}/run"
    RunCopy(run, location(url)).update()
    return run, url


@pytest.mark.parametrize("command", [["slopes", "--format", "csv"], ["power", "--format", "csv"], ["status"]])
def test_commands_read_a_run_by_its_address(command, stored, tmp_path, monkeypatch, invoke):
    run, url = stored
    monkeypatch.chdir(tmp_path)
    if command != ["status"]:
        assert invoke("slopes", run).exit_code == 0
        RunCopy(run, location(url)).update()
    here, there = invoke(*command, run), invoke(*command, url)
    assert (here.exit_code, there.exit_code) == (0, 0)
    assert there.stdout == here.stdout != ""
    assert (tmp_path / "runs" / url.replace("://", "/") / "run.json").is_file()


@pytest.mark.parametrize("command", ["status", "report", "slopes", "query"])
def test_an_address_without_a_run_says_so(command, tmp_path, monkeypatch, invoke):
    monkeypatch.chdir(tmp_path)
    result = invoke(command, "memory://nothing/here")
    assert result.exit_code == 2
    assert "there is no run at memory://nothing/here" in result.stderr
    assert not list(tmp_path.iterdir())


def test_images_of_an_audit_in_a_store_have_one_place(sample_folder, invoke):
    result = invoke("audit", sample_folder(1), "--out", "memory://one", "--images-to", "memory://two", "--quiet")
    assert result.exit_code == 2
    assert "omit --images-to" in result.stderr
