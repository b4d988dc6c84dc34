"""URLs of object stores on the command line."""

from uuid import uuid4

import pytest
from finished_run import responses, write_run

from pipeline.run.checkpoint import RunCopy
from pipeline.run.storage import location


@pytest.mark.parametrize("url", ["s3://bucket/photos", "gs://bucket"])
def test_local_output_in_an_object_store_is_refused(url, sample_folder, tmp_path, monkeypatch, error_of):
    photos = sample_folder(1)
    monkeypatch.chdir(tmp_path)
    error = error_of("represent", photos, "--out", url, "--quiet")
    assert f"{url.partition(':')[0]}:// is an object store" in error
    assert "name a folder with --out" in error
    assert not list(tmp_path.iterdir())


@pytest.fixture
def stored(tmp_path):
    """A run's folder, and the URL of its copy."""
    run = write_run(tmp_path / "run", [("mine", "gender", "edit", responses(effect=0.1, seed=1))])
    url = f"memory://{uuid4()}/run"
    RunCopy(run, location(url)).update()
    return run, url


@pytest.mark.parametrize("command", [["slopes", "--format", "csv"], ["power", "--format", "csv"], ["status"]])
def test_commands_read_a_run_by_its_url(command, stored, tmp_path, monkeypatch, invoke):
    run, url = stored
    monkeypatch.chdir(tmp_path)
    if command != ["status"]:
        assert invoke("slopes", run).exit_code == 0
        RunCopy(run, location(url)).update()
    local, remote = invoke(*command, run), invoke(*command, url)
    assert (local.exit_code, remote.exit_code) == (0, 0)
    assert remote.stdout == local.stdout != ""
    assert (tmp_path / "runs" / url.replace("://", "/") / "run.json").is_file()


@pytest.mark.parametrize("command", ["status", "report", "slopes", "query"])
def test_url_without_run_is_explained(command, tmp_path, monkeypatch, error_of):
    monkeypatch.chdir(tmp_path)
    assert "there is no run at memory://nothing/here" in error_of(command, "memory://nothing/here")
    assert not list(tmp_path.iterdir())


def test_audit_in_a_store_refuses_images_to(sample_folder, error_of):
    words = ("audit", sample_folder(1), "--out", "memory://one", "--images-to", "memory://two", "--quiet")
    assert "omit --images-to" in error_of(*words)
