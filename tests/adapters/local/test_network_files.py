from hashlib import sha256

import pytest
from fakes.http_server import FakeServer, Response

from adapters.base import AdapterError
from adapters.local.files import digest_of, fetch, hub_snapshot


def test_digest_of_several_files_is_that_of_sha256sum_output(tmp_path):
    first, second = tmp_path / "b.bin", tmp_path / "a.bin"
    first.write_bytes(b"one")
    second.write_bytes(b"two")
    one, two = sha256(b"one").hexdigest(), sha256(b"two").hexdigest()
    assert digest_of([first]) == one
    assert digest_of([first, second]) == sha256(f"{two}  a.bin\n{one}  b.bin\n".encode()).hexdigest()
    with pytest.raises(AdapterError, match=r"gone.bin cannot be read"):
        digest_of([tmp_path / "gone.bin"])


def test_download_is_complete_and_verified_or_absent(tmp_path):
    path = tmp_path / "new" / "weights.pth"
    starts = sha256(b"weights").hexdigest()[:8]
    with FakeServer(lambda request: Response(200 if request.path == "/good" else 404, b"weights")) as server:
        with pytest.raises(AdapterError, match="404"):
            fetch(f"{server.url}/bad", path)
        with pytest.raises(AdapterError, match="cannot be downloaded: invalid hash value"):
            fetch(f"{server.url}/good", path, sha256_starts="00000000")
        assert list(path.parent.iterdir()) == []
        fetch(f"{server.url}/good", path, sha256_starts=starts)
    assert path.read_bytes() == b"weights"
    with pytest.raises(AdapterError, match="cannot be downloaded"):
        fetch("http://127.0.0.1:9/x", path)


def test_missing_repository_names_the_download_command(tmp_path, monkeypatch):
    hub = pytest.importorskip("huggingface_hub", reason="huggingface_hub is not installed")
    monkeypatch.setattr(hub.constants, "HF_HUB_CACHE", str(tmp_path))
    with pytest.raises(
        AdapterError, match=r"Download once with `hf download owner/name --revision abc`, or .*'huggingface:owner/name"
    ):
        hub_snapshot("owner/name", revision="abc", patterns=["*"], download=False, adapter="huggingface:owner/name")
    with pytest.raises(AdapterError, match="neither a folder nor the name of a repository"):
        hub_snapshot("./a/b/c", revision=None, patterns=["*"], download=False, adapter="huggingface:./a/b/c")
