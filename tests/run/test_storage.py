"""Local and remote files, and images as files and in shards."""

import tarfile
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from image_writing import write_files

from pipeline.config.options import ConfigError
from pipeline.run.image_store import ImageStore
from pipeline.run.storage import RemoteFile, Slice, StorageError, location, sizes_of

FILES = {"images/gender/a/step1.png": b"one", "images/gender/a/step2.png": b"two" * 400, "masks/a.png": b"mask"}


@pytest.fixture(params=["disk", "memory"])
def root(request, tmp_path):
    return tmp_path if request.param == "disk" else location(f"memory://{uuid4()}")


@pytest.mark.parametrize("shards", [None, "tar", "parquet"])
def test_files_are_read_as_written(root, shards):
    store = ImageStore(root, shards=shards)
    for name, read in write_files(store, FILES).items():
        assert store.file(read).read_bytes() == FILES[name]
        with store.file(read).open("rb") as file:
            assert file.read() == FILES[name]
        assert store.file(read).exists()
        assert sizes_of([store.file(read)]) == [len(FILES[name])]
        assert isinstance(store.file(read), Slice) == bool(shards)
    assert not store.file("images/none.png").exists()


def members_of_tar(path):
    with tarfile.open(path) as tar:
        return {member.name: tar.extractfile(member).read() for member in tar}


def members_of_parquet(path):
    return {one["path"]: one["bytes"] for one in pq.read_table(path)["image"].to_pylist()}


@pytest.mark.parametrize(("kind", "members"), [("tar", members_of_tar), ("parquet", members_of_parquet)])
def test_shards_are_reproducible_and_standard(tmp_path, kind, members):
    names = [write_files(ImageStore(tmp_path / one, shards=kind), FILES) for one in "ab"]
    assert names[0] == names[1]
    found = {}
    for folder in ("images", "masks"):
        shards = [tmp_path / one / folder / f"some.{kind}" for one in "ab"]
        assert shards[0].read_bytes() == shards[1].read_bytes()
        found |= {f"{folder}/{name}": content for name, content in members(shards[0]).items()}
    assert found == FILES


def test_equal_and_large_images_in_parquet(tmp_path):
    files = {f"images/{number}.png": bytes([number // 2]) * 700_000 for number in range(8)} | {"images/x.png": b""}
    store = ImageStore(tmp_path, shards="parquet")
    assert {name: store.file(read).read_bytes() for name, read in write_files(store, files).items()} == files


def test_exception_leaves_no_shard(tmp_path):
    def failing():
        with ImageStore(tmp_path, shards="tar").writing("some") as writing:
            (writing.folder / "a.png").write_bytes(b"half")
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert not list(tmp_path.iterdir())


def test_prune_removes_files_that_are_not_kept(root):
    store = ImageStore(root)
    write_files(store, FILES)
    assert store.prune(("images", "masks"), keep="images/gender/a/step1.png".__eq__) == 2
    assert [store.file(name).exists() for name in FILES] == [True, False, False]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ftp://host/photos", "choose from file://, s3://, gs://, abfs://, memory://"),
        ("s3://key:secret@bucket/photos", "contains a password"),
    ],
)
def test_invalid_urls_raise(text, message):
    with pytest.raises(ConfigError, match=message) as refused:
        location(text)
    assert "secret@" not in str(refused.value)


def test_missing_package_raises_with_the_command_to_install(monkeypatch):
    import fsspec

    def missing(*_, **__):
        raise ImportError("Install gcsfs to access Google Storage")

    monkeypatch.setattr(fsspec, "url_to_fs", missing)
    with pytest.raises(ConfigError, match=r"pip install 'counterslope\[gs\]'"):
        RemoteFile("gs://bucket/a.jpg").read_bytes()


def test_outage_raises_a_storage_error(monkeypatch):
    import fsspec

    def out(*_, **__):
        raise TimeoutError("nobody answers")

    monkeypatch.setattr(fsspec, "url_to_fs", out)
    with pytest.raises(StorageError, match="repeat the command to continue"):
        RemoteFile("s3://bucket/a.jpg").read_bytes()


def test_local_paths_stay_paths():
    assert location("photos/a.jpg") == Path("photos/a.jpg")
    assert location("file:///photos/a.jpg") == Path("/photos/a.jpg")
