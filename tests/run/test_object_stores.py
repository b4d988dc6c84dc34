"""Files in stores of every protocol: what is written there is listed, read and removed as on a disk."""

from uuid import uuid4

import pytest
from fakes.azure_blobs import azure_blobs
from fakes.google_storage import google_storage
from fakes.object_store import object_store

from pipeline.run.checkpoint import RECORD, copy_run, fetch_run
from pipeline.run.image_store import ImageStore
from pipeline.run.storage import location

STORES = {"s3": object_store, "gs": google_storage, "abfs": azure_blobs}
# More than a page of a listing, a name with a space, and a file beyond what gcsfs sends in one request.
FILES = {f"images/a/step {number}.png": bytes([number]) * 1000 for number in range(8)} | {
    "masks/a.png": b"m" * 6 * 2**20
}


@pytest.fixture(scope="module", params=STORES)
def store(request):
    with STORES[request.param]() as store, pytest.MonkeyPatch.context() as patch:
        for name, value in store.environment.items():
            patch.setenv(name, value)
        yield store


@pytest.fixture
def folder(store):
    """A folder of its own in the store."""
    return location(f"{store.url}/{uuid4()}")


def written(images, files=FILES):
    """Write files; name -> the name under which each is read."""
    with images.writing("key") as writing:
        for name, content in files.items():
            path = writing.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
    return {name: writing.names.get(name, name) for name in files}


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")  # gcsfs does
@pytest.mark.parametrize("shards", [None, "tar", "parquet"])
def test_images_are_read_as_they_were_written_and_only_stale_ones_are_removed(store, folder, shards):
    images = ImageStore(folder, shards=shards)
    names = written(images)
    assert {name: images.file(read).read_bytes() for name, read in names.items()} == FILES
    there = {file.url.removeprefix(f"{folder.url}/"): file.size for file in folder.files()}
    assert there == {file.removeprefix(f"{folder.name}/"): len(store.read(file)) for file in store.names(folder.name)}
    if not shards:
        kept = "images/a/step 3.png"
        assert images.prune(("images", "masks"), keep=kept.__eq__) == len(FILES) - 1
        assert [file.url for file in folder.files()] == [f"{folder}/{kept}"]


def test_a_file_and_a_folder_are_told_apart_and_what_is_not_there_is_said_to_be(folder, tmp_path):
    file, missing = folder / "in" / "a.jpg", folder / "in" / "b.jpg"
    assert not file.exists()
    assert folder.files() == []
    (tmp_path / "a.jpg").write_bytes(b"a photo")
    (folder / "in").put({"a.jpg": tmp_path / "a.jpg"})
    assert (file.exists(), file.is_file()) == (True, True)
    assert ((folder / "in").exists(), (folder / "in").is_file()) == (True, False)
    assert (file.read_bytes(2, 5), file.listed().size) == (b"pho", 7)
    assert (missing.exists(), missing.listed().size) == (False, None)
    with pytest.raises(FileNotFoundError):
        missing.read_bytes()


def test_a_file_that_is_written_again_is_another(folder, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"a photo")
    folder.put({"a.jpg": tmp_path / "a.jpg"})
    before, (listed,) = (folder / "a.jpg").listed().mark, folder.files()
    assert before == listed.mark != ""
    (tmp_path / "a.jpg").write_bytes(b"another")
    folder.put({"a.jpg": tmp_path / "a.jpg"})
    assert (folder / "a.jpg").listed().mark != before


def test_another_machine_fetches_a_run_without_its_images(folder, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    (here / "tables").mkdir(parents=True)
    (here / RECORD).write_text('{"created": "today"}')
    (here / "tables" / "slopes.csv").write_text("label,slope\n")
    copy_run(here, folder, copied={})
    written(ImageStore(folder), {"images/a/step1.png": b"one"})
    there.mkdir()
    fetch_run(there, folder)
    found = {path.relative_to(there).as_posix() for path in there.rglob("*") if path.is_file()}
    assert found == {RECORD, "tables/slopes.csv"}
