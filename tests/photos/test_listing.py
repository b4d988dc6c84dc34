"""Listing of photos from folders, files and manifests."""

import contextlib
import os
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from image_files import encode, png_claiming, tricolour

from pipeline.config.options import PhotoOptions
from pipeline.photos.decoding import PhotoError, Reason, read_photo
from pipeline.photos.listing import NoUsablePhotos, check_photos, find_photos, photo_rows
from pipeline.run.tables import PHOTOS

OPTIONS = PhotoOptions()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    tricolour().save(tmp_path / "b.png")
    tricolour(64, 64).save(tmp_path / "a.jpg")
    (tmp_path / "deep").mkdir()
    tricolour(50, 70).save(tmp_path / "deep" / "c.webp")
    return tmp_path


def test_folder_is_listed_recursively_without_hidden_files(folder: Path) -> None:
    (folder / ".hidden.png").write_bytes(b"")
    (folder / ".git").mkdir()
    (folder / ".git" / "d.png").write_bytes(b"")
    (folder / "notes.txt").write_text("not a photo")
    found = find_photos([folder])
    assert found.names == ("a.jpg", "b.png", "deep/c.webp", "notes.txt")
    table = check_photos(found, options=OPTIONS).to_pylist()
    assert [row["status"] for row in table] == ["ok", "ok", "ok", "failed"]
    assert table[3]["reason"] == Reason.NOT_AN_IMAGE
    assert (table[2]["width"], table[2]["height"]) == (50, 70)
    assert Path(table[2]["path"]) == folder / "deep" / "c.webp"


def test_files_are_named_relative_to_their_common_folder(folder: Path) -> None:
    found = find_photos([folder / "deep" / "c.webp", folder / "a.jpg", folder / "a.jpg"])
    assert found.names == ("deep/c.webp", "a.jpg")


def test_relative_and_absolute_paths_have_the_same_fingerprint(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absolute = find_photos([folder])
    monkeypatch.chdir(folder.parent)
    assert find_photos([Path(folder.name)]) == absolute
    assert find_photos([Path(folder.name)]).fingerprint == absolute.fingerprint


def test_fingerprint_depends_on_the_files(folder: Path) -> None:
    before = find_photos([folder]).fingerprint
    tricolour(61, 40).save(folder / "b.png")
    changed = find_photos([folder]).fingerprint
    (folder / "a.jpg").unlink()
    assert len({before, changed, find_photos([folder]).fingerprint}) == 3


def test_every_defective_file_has_a_row_with_a_reason(folder: Path) -> None:
    (folder / "empty.jpg").touch()
    (folder / "cut.png").write_bytes((folder / "b.png").read_bytes()[:-40])
    (folder / "same.png").write_bytes((folder / "b.png").read_bytes())
    (folder / "tiny.png").write_bytes(encode(tricolour(8, 8)))
    (folder / "bomb.png").write_bytes(png_claiming(30_000, 30_000))
    (folder / "gone.png").symlink_to(folder / "nowhere.png")
    os.mkfifo(folder / "pipe.png")
    (folder / os.fsdecode(b"bad\xff.png")).write_bytes((folder / "b.png").read_bytes())
    table = check_photos(find_photos([folder]), options=OPTIONS).to_pylist()
    outcome = {row["photo"]: (row["status"], (row["reason"] or "").partition(":")[0]) for row in table}
    assert outcome == {
        "a.jpg": ("ok", ""),
        "b.png": ("ok", ""),
        "deep/c.webp": ("ok", ""),
        "empty.jpg": ("failed", "empty"),
        "cut.png": ("failed", "truncated"),
        "same.png": ("excluded", "duplicate"),
        "tiny.png": ("excluded", "too small"),
        "bomb.png": ("excluded", "oversized"),
        "gone.png": ("failed", "missing"),
        "pipe.png": ("failed", "not a file"),
        "bad\\xff.png": ("failed", "bad name"),
    }
    assert next(row for row in table if row["photo"] == "same.png")["reason"].endswith("(b.png)")


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may read everything")
def test_unreadable_file_has_a_reason(folder: Path) -> None:
    (folder / "a.jpg").chmod(0)
    row = check_photos(find_photos([folder]), options=OPTIONS).to_pylist()[0]
    assert row["reason"] == Reason.NOT_PERMITTED


def test_rows_are_streamed_and_progress_counts_files(folder: Path) -> None:
    found = find_photos([folder])
    assert next(photo_rows(found, options=OPTIONS))["photo"] == "a.jpg"
    counted: list[int] = []
    check_photos(found, options=OPTIONS, advance=counted.append)
    assert sum(counted) == len(found)


def test_inputs_without_usable_photos_raise_with_counts(tmp_path: Path) -> None:
    with pytest.raises(NoUsablePhotos, match=r"holds no file; accepted are JPEG, PNG"):
        find_photos([tmp_path])
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("no photo")
    (tmp_path / "c.jpg").touch()
    with pytest.raises(NoUsablePhotos, match=r"none of the 3 files can be used: 1 empty, 2 not an image; accepted are"):
        check_photos(find_photos([tmp_path]), options=OPTIONS)
    with pytest.raises(NoUsablePhotos, match="1 missing"):
        check_photos(find_photos([tmp_path / "nowhere"]), options=OPTIONS)
    with pytest.raises(NoUsablePhotos, match="folder among other inputs"):
        find_photos([tmp_path, tmp_path / "a.txt"])
    with pytest.raises(NoUsablePhotos, match="no photos were given"):
        find_photos([])


def test_read_photo_agrees_with_the_table(folder: Path) -> None:
    photo = read_photo(folder / "deep" / "c.webp", options=OPTIONS)
    assert photo.pixels.shape == (photo.height, photo.width, 3) == (70, 50, 3)
    with pytest.raises(PhotoError, match="missing"):
        read_photo(folder / "nowhere.jpg", options=OPTIONS)


# Manifests


def test_manifest_columns_are_kept(folder: Path) -> None:
    (folder / "list.csv").write_text(f"photo,task,score\ndeep/c.webp,cook,1\n{folder / 'a.jpg'},,2\nnone.png,judge,3\n")
    table = check_photos(find_photos([folder / "list.csv"]), options=OPTIONS)
    assert table.column_names == [*PHOTOS, "task", "score"]
    assert table["photo"].to_pylist() == ["deep/c.webp", "a.jpg", "none.png"]
    assert table["task"].to_pylist() == ["cook", None, "judge"]
    assert table["score"].to_pylist() == [1, 2, 3]
    assert table["status"].to_pylist() == ["ok", "ok", "failed"]
    assert table["reason"].to_pylist()[2] == Reason.MISSING


def test_parquet_and_csv_manifests_are_equal_and_numeric_names_stay_text(folder: Path) -> None:
    tricolour().save(folder / "007", "PNG")
    pq.write_table(pa.table({"task": ["x"], "photo": ["007"]}), folder / "list.parquet")
    (folder / "list.csv").write_text("task,photo\nx,007\n")
    parquet, csv = (find_photos([folder / f"list.{ending}"]) for ending in ("parquet", "csv"))
    assert parquet.names == csv.names == ("007",)
    assert check_photos(parquet, options=OPTIONS) == check_photos(csv, options=OPTIONS)


def test_fingerprint_depends_on_manifest_columns(folder: Path) -> None:
    fingerprints = set()
    for task in ("cook", "judge"):
        (folder / "list.csv").write_text(f"photo,task\na.jpg,{task}\n")
        fingerprints.add(find_photos([folder / "list.csv"]).fingerprint)
    assert len(fingerprints) == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "cannot be read"),
        ("photo\n", "lists no photo"),
        ("file\na.jpg\n", "no column 'photo'; its columns are 'file'"),
        ("photo,task,status\na.jpg,x,y\n", "column 'status', a name reserved for the table"),
        ("photo,task,task\na.jpg,x,y\n", "more than one column 'task'"),
        ("photo,task\na.jpg,x\nb.png,y\n./a.jpg,z\n", r"names './a.jpg' twice, in rows 1 and 3"),
        ("photo,task\na.jpg,x\n,y\n", "row 2 .* names no photo"),
        ("photo\na.jpg,x\n", "cannot be read"),
    ],
)
def test_invalid_manifests_raise(folder: Path, text: str, message: str) -> None:
    (folder / "list.csv").write_text(text)
    with pytest.raises(NoUsablePhotos, match=message):
        find_photos([folder / "list.csv"])


def test_invalid_parquet_manifest_raises(folder: Path) -> None:
    (folder / "list.parquet").write_bytes(b"photo\na.jpg\n")
    with pytest.raises(NoUsablePhotos, match="cannot be read"):
        find_photos([folder / "list.parquet"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_manifest_may_have_any_unicode_encoding(folder: Path, encoding: str) -> None:
    (folder / "list.csv").write_bytes("photo,who\nb.png,Zoë\n".encode(encoding))
    found = find_photos([folder / "list.csv"])
    assert found.names == ("b.png",)
    assert found.columns is not None
    assert found.columns.to_pydict() == {"who": ["Zoë"]}


@pytest.mark.parametrize(
    "content",
    [b"photo,who\nb.png,ok\na.png,Zo\xeb\n", b"\xff\xfep\0h\0o\0t\0o\0\n\0b", b"\xff\xfe\0\0a"],
    ids=["latin-1", "utf-16", "utf-32"],
)
def test_undecodable_manifest_raises_with_the_line(folder: Path, content: bytes) -> None:
    (folder / "list.csv").write_bytes(content)
    message = r"^the manifest .*list\.csv cannot be read: line \d is not UTF-.* text; .*$"
    with pytest.raises(NoUsablePhotos, match=message):
        find_photos([folder / "list.csv"])


@given(st.binary(max_size=60))
@settings(max_examples=200)
def test_manifest_of_random_bytes_is_read_or_raises(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "list.csv"
        path.write_bytes(b"photo,note\n" + content)
        with contextlib.suppress(NoUsablePhotos):
            find_photos([path])
