"""An address of an object store where a folder belongs is refused, and no folder of its name is made."""

import pytest


@pytest.mark.parametrize("url", ["s3://bucket/photos", "gs://bucket"])
def test_what_is_written_to_a_disk_has_a_folder_there(url, sample_folder, tmp_path, monkeypatch, invoke):
    photos = sample_folder(1)
    monkeypatch.chdir(tmp_path)
    result = invoke("audit", photos, "--out", url, "--quiet")
    assert result.exit_code == 2
    assert f"{url.partition(':')[0]}:// is an object store" in (said := " ".join(result.stderr.split()))
    assert "name a folder with --out" in said
    assert not list(tmp_path.iterdir())
