"""Files, images and copies of runs in object stores of every protocol."""

import shutil
import sqlite3
from contextlib import closing
from uuid import uuid4

import pytest
from fakes.azure_blobs import azure_blobs
from fakes.google_storage import google_storage
from fakes.object_store import object_store
from image_writing import write_files

from pipeline.run.checkpoint import RECORD, RunCopy
from pipeline.run.image_store import ImageStore
from pipeline.run.record import RunError
from pipeline.run.storage import location

STORES = {"s3": object_store, "gs": google_storage, "abfs": azure_blobs}
# More than one page of a listing, a name with a space, and a file larger than one request of gcsfs.
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
    """A new folder in the store."""
    return location(f"{store.url}/{uuid4()}")


@pytest.mark.filterwarnings("ignore:Sending a large body directly:ResourceWarning")  # gcsfs does
@pytest.mark.parametrize("shards", [None, "tar", "parquet"])
def test_images_are_read_as_written_and_pruned(store, folder, shards):
    images = ImageStore(folder, shards=shards)
    names = write_files(images, FILES)
    assert {name: images.file(read).read_bytes() for name, read in names.items()} == FILES
    there = {file.url.removeprefix(f"{folder.url}/"): file.size for file in folder.files()}
    assert there == {file.removeprefix(f"{folder.name}/"): len(store.read(file)) for file in store.names(folder.name)}
    if not shards:
        kept = "images/a/step 3.png"
        assert images.prune(("images", "masks"), keep=kept.__eq__) == len(FILES) - 1
        assert [file.url for file in folder.files()] == [f"{folder}/{kept}"]


def test_files_folders_and_missing_files_are_distinguished(folder, tmp_path):
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


def test_rewritten_file_has_another_mark(folder, tmp_path):
    (tmp_path / "a.jpg").write_bytes(b"a photo")
    folder.put({"a.jpg": tmp_path / "a.jpg"})
    before, (listed,) = (folder / "a.jpg").listed().mark, folder.files()
    assert before == listed.mark != ""
    (tmp_path / "a.jpg").write_bytes(b"another")
    folder.put({"a.jpg": tmp_path / "a.jpg"})
    assert (folder / "a.jpg").listed().mark != before


def write_run(path):
    """A run with a table, a part and one answer."""
    for name, text in ((RECORD, '{"created": "today"}'), ("tables/slopes.csv", "label\n"), ("parts/faces/a", "a part")):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    answer(path, "yes")
    return path


def answer(path, text):
    with closing(sqlite3.connect(path / "responses.sqlite")) as store, store:
        store.execute("CREATE TABLE IF NOT EXISTS answers (answer)")
        store.execute("INSERT INTO answers VALUES (?)", (text,))


def answers(path):
    with closing(sqlite3.connect(path / "responses.sqlite")) as store:
        return [text for (text,) in store.execute("SELECT answer FROM answers")]


def files_in(path):
    return {file.relative_to(path).as_posix() for file in path.rglob("*") if file.is_file()} - {"checkpoint.json"}


def test_another_machine_fetches_a_run_without_its_images(folder, tmp_path):
    RunCopy(write_run(tmp_path / "here"), folder).update()
    write_files(ImageStore(folder), {"images/a/step1.png": b"one"})
    there = tmp_path / "there"
    there.mkdir()
    RunCopy(there, folder).fetch()
    assert files_in(there) == {RECORD, "tables/slopes.csv", "parts/faces/a", "responses.sqlite"}
    assert answers(there) == ["yes"]


def test_diverged_copies_raise_and_no_answer_is_overwritten(folder, tmp_path):
    here, there = write_run(tmp_path / "here"), tmp_path / "there"
    shutil.copytree(here, tmp_path / "backup")
    RunCopy(here, folder).update()
    RunCopy(there, folder).fetch()
    answer(there, "no")
    RunCopy(there, folder).update()
    (here / RECORD).write_text('{"created": "today", "stages": {}}')
    with pytest.raises(RunError, match="continued from another folder after the last copy"):
        RunCopy(here, folder).update()
    RunCopy(here, folder).fetch()  # all its answers are in the copy
    assert answers(here) == answers(there) == ["yes", "no"]
    RunCopy(there, folder).fetch()  # both are in sync

    for path, text in ((here, "perhaps"), (there, "never")):
        answer(path, text)
    RunCopy(here, folder).update()
    for old in (there, tmp_path / "backup"):  # including a restored backup
        before = answers(old)
        with pytest.raises(RunError, match=r"has answers that are not there \(responses.sqlite\)"):
            RunCopy(old, folder).fetch()
        assert answers(old) == before
    RunCopy(new := tmp_path / "new", folder).fetch()
    assert answers(new) == ["yes", "no", "perhaps"]


def test_removed_files_are_removed_from_the_copy_and_foreign_files_kept(folder, tmp_path):
    here, there = write_run(tmp_path / "here"), tmp_path / "there"
    (tmp_path / "note.txt").write_text("of somebody")
    RunCopy(here, folder).update()
    folder.put({"note.txt": tmp_path / "note.txt"})
    RunCopy(there, folder).fetch()
    (there / "figures.pdf").write_text("drawn here")
    (here / "parts/faces/a").unlink()
    RunCopy(here, folder).update()
    RunCopy(there, folder).fetch()
    assert files_in(there) == {RECORD, "tables/slopes.csv", "responses.sqlite", "note.txt", "figures.pdf"}


def test_damaged_answer_file_does_not_replace_the_copy(folder, tmp_path):
    RunCopy(here := write_run(tmp_path / "here"), folder).update()
    (here / "responses.sqlite").write_bytes(b"a" * 100_000)
    RunCopy(here, folder).update()
    RunCopy(there := tmp_path / "there", folder).fetch()
    assert answers(there) == ["yes"]
