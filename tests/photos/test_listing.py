"""Every file that is named gets a row: its pixels can be used, or the row says why not."""

import contextlib
import os
import struct
import tempfile
import warnings
import zlib
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from pipeline.config.options import PhotoOptions
from pipeline.photos.decoding import PhotoError, Reason, decode, read_photo
from pipeline.photos.listing import NoUsablePhotos, check_photos, find_photos, photo_rows
from pipeline.run.tables import PHOTOS

OPTIONS = PhotoOptions()
FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "GIF", "TIFF")
WIDTH, HEIGHT = 60, 40


def picture(width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """Red left half, green right half, a blue bar along the top: no turn or flip of it looks the same."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = 220
    pixels[:, width // 2 :, 1] = 220
    pixels[: height // 4] = (0, 0, 220)
    return Image.fromarray(pixels)


def encoded(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def pixels_of(data: bytes, *, long_side: int = 1280, max_megapixels: float = 100) -> np.ndarray:
    options = PhotoOptions(long_side=long_side, max_megapixels=max_megapixels)
    return decode(BytesIO(data), options=options).pixels


def reason_of(data: bytes, **options: float) -> Reason:
    with pytest.raises(PhotoError) as caught:
        pixels_of(data, **options)
    return caught.value.reason


def close(pixels: np.ndarray, expected: Image.Image, *, within: float) -> bool:
    wanted = np.asarray(expected.convert("RGB"), dtype=float)
    return pixels.shape == wanted.shape and np.abs(pixels - wanted).mean() <= within


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    picture().save(tmp_path / "b.png")
    picture(64, 64).save(tmp_path / "a.jpg")
    (tmp_path / "deep").mkdir()
    picture(50, 70).save(tmp_path / "deep" / "c.webp")
    return tmp_path


# --- decoding ---


@pytest.mark.parametrize("kind", FORMATS)
def test_every_accepted_format_gives_the_same_picture(kind: str) -> None:
    assert close(pixels_of(encoded(picture(), kind)), picture(), within=6)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_photos_stand_upright_whatever_their_orientation_tag(kind: str, orientation: int) -> None:
    turn_back = {
        2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_270,
    }  # fmt: skip
    stored = picture().transpose(turn_back[orientation]) if orientation > 1 else picture()
    exif = Image.Exif()
    exif[0x0112] = orientation
    assert close(pixels_of(encoded(stored, kind, exif=exif)), picture(), within=8)


def test_sixteen_bits_are_scaled_not_clipped() -> None:
    ramp = np.linspace(0, 65535, WIDTH).astype(np.uint16)
    image = Image.fromarray(np.tile(ramp, (HEIGHT, 1)))
    for kind in ("PNG", "TIFF"):
        pixels = pixels_of(encoded(image, kind))
        assert np.abs(pixels[0, :, 0].astype(float) - np.linspace(0, 255, WIDTH)).max() <= 1
        assert (pixels[..., 0] == pixels[..., 2]).all()


def test_floating_point_pictures_are_read_on_their_own_scale() -> None:
    grey = np.tile(np.linspace(0, 1, WIDTH, dtype=np.float32), (HEIGHT, 1))
    grey[0, 0] = np.nan
    for full in (1, 255, 65535):
        pixels = pixels_of(encoded(Image.fromarray(grey * np.float32(full)), "TIFF"))
        assert pixels[5, -1, 0] == 255
        assert abs(int(pixels[5, WIDTH // 2, 0]) - 129) <= 2


@pytest.mark.parametrize("mode", ["L", "1", "P"])
def test_grey_black_and_white_and_palette_pictures_become_rgb(mode: str) -> None:
    image = picture().convert(mode)
    assert close(pixels_of(encoded(image)), image, within=0)


def test_print_colours_are_not_inverted() -> None:
    assert close(pixels_of(encoded(picture().convert("CMYK"), "JPEG", quality=95)), picture(), within=6)


@pytest.mark.parametrize("mode", ["RGBA", "LA", "P"])
def test_transparent_parts_show_white(mode: str) -> None:
    image = picture().convert("RGBA")
    image.paste((0, 0, 0, 0), (0, 0, WIDTH, HEIGHT // 4))
    data = encoded(image.convert(mode))
    pixels = pixels_of(data)
    assert (pixels[: HEIGHT // 4] == 255).all()
    assert (pixels[HEIGHT // 2 :] < 240).all()


def test_only_the_first_frame_of_an_animation_is_read() -> None:
    data = encoded(picture(), "GIF", save_all=True, append_images=[Image.new("RGB", (WIDTH, HEIGHT), "white")])
    assert close(pixels_of(data), picture(), within=2)


@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_long_photos_are_shrunk_to_the_long_side(kind: str) -> None:
    large = picture(600, 400)
    assert close(
        pixels_of(encoded(large, kind), long_side=100), large.resize((100, 67), Image.Resampling.BOX), within=6
    )
    assert pixels_of(encoded(large, kind), long_side=600).shape == (400, 600, 3)


# --- reasons ---


def png_claiming(width: int, height: int) -> bytes:
    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("side", [20_000, 60_000])
def test_a_decompression_bomb_is_refused_by_its_header(side: int) -> None:
    assert reason_of(png_claiming(side, side)) is Reason.OVERSIZED


def test_the_users_limit_on_pixels_holds_in_both_directions() -> None:
    data = encoded(picture(400, 300))  # 0.12 megapixels
    assert reason_of(data, max_megapixels=0.119) is Reason.OVERSIZED
    assert pixels_of(data, max_megapixels=0.12).shape == (300, 400, 3)
    # Beyond what Pillow alone would refuse, the header is still read and the user's limit is what counts.
    assert reason_of(png_claiming(20_000, 20_000), max_megapixels=399) is Reason.OVERSIZED
    assert reason_of(png_claiming(20_000, 20_000)[:60], max_megapixels=500) is not Reason.OVERSIZED


@pytest.mark.parametrize("kind", FORMATS)
def test_a_file_cut_in_half_is_called_truncated_or_at_least_unreadable(kind: str) -> None:
    noise = np.random.default_rng(0).integers(0, 255, (90, 90, 3), dtype=np.uint8)
    data = encoded(Image.fromarray(noise), kind)
    allowed = {Reason.TRUNCATED, Reason.UNREADABLE} if kind == "TIFF" else {Reason.TRUNCATED}
    assert reason_of(data[: len(data) // 2]) in allowed


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", Reason.EMPTY),
        (b"hello, this is text", Reason.NOT_AN_IMAGE),
        (b"%PDF-1.7 ...", Reason.NOT_AN_IMAGE),
        (b"%!PS-Adobe-3.0 EPSF-3.0", Reason.NOT_AN_IMAGE),
        (b"GIF89a" + b"nonsense" * 20, Reason.UNREADABLE),
        (encoded(picture(20, 200)), Reason.TOO_SMALL),
    ],
)
def test_bytes_that_are_no_photo_are_named(data: bytes, reason: Reason) -> None:
    assert reason_of(data) is reason


SEEDS = [encoded(picture(), kind) for kind in FORMATS] + [
    encoded(picture().convert("P"), "GIF"),
    encoded(picture().convert("CMYK"), "JPEG"),
    encoded(picture(), "TIFF", compression="tiff_lzw"),
    encoded(picture(), "WEBP", lossless=True),
]


def reads_or_refuses(data: bytes) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with contextlib.suppress(PhotoError):
            pixels = pixels_of(data, max_megapixels=4)
            assert pixels.dtype == np.uint8
            assert pixels.shape[2] == 3


@given(start=st.sampled_from([b"", *(seed[:12] for seed in SEEDS)]), rest=st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_no_bytes_crash_the_reader(start: bytes, rest: bytes) -> None:
    reads_or_refuses(start + rest)


@given(data=st.data(), seed=st.sampled_from(SEEDS))
@settings(max_examples=250, deadline=None)
def test_no_damage_to_a_real_picture_crashes_the_reader(data: st.DataObject, seed: bytes) -> None:
    damaged = bytearray(seed)
    for place, value in data.draw(
        st.lists(st.tuples(st.integers(0, len(seed) - 1), st.integers(0, 255)), min_size=1, max_size=8)
    ):
        damaged[place] = value
    reads_or_refuses(bytes(damaged[: data.draw(st.integers(0, len(seed)))]))


# --- listing ---


def test_a_folder_is_listed_with_its_subfolders_in_order_and_without_hidden_files(folder: Path) -> None:
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


def test_files_are_named_from_the_folder_they_share(folder: Path) -> None:
    found = find_photos([folder / "deep" / "c.webp", folder / "a.jpg", folder / "a.jpg"])
    assert found.names == ("deep/c.webp", "a.jpg")


def test_a_relative_input_is_the_same_run_as_an_absolute_one(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absolute = find_photos([folder])
    monkeypatch.chdir(folder.parent)
    assert find_photos([Path(folder.name)]) == absolute
    assert find_photos([Path(folder.name)]).fingerprint == absolute.fingerprint


def test_the_fingerprint_follows_the_files(folder: Path) -> None:
    before = find_photos([folder]).fingerprint
    picture(61, 40).save(folder / "b.png")
    changed = find_photos([folder]).fingerprint
    (folder / "a.jpg").unlink()
    assert len({before, changed, find_photos([folder]).fingerprint}) == 3


def test_each_thing_that_can_be_wrong_with_a_file_gets_its_row(folder: Path) -> None:
    (folder / "empty.jpg").touch()
    (folder / "cut.png").write_bytes((folder / "b.png").read_bytes()[:-40])
    (folder / "same.png").write_bytes((folder / "b.png").read_bytes())
    (folder / "tiny.png").write_bytes(encoded(picture(8, 8)))
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
def test_a_file_that_may_not_be_read_is_named(folder: Path) -> None:
    (folder / "a.jpg").chmod(0)
    row = check_photos(find_photos([folder]), options=OPTIONS).to_pylist()[0]
    assert row["reason"] == Reason.NOT_PERMITTED


def test_rows_come_as_they_are_done_and_progress_counts_each(folder: Path) -> None:
    found = find_photos([folder])
    assert next(photo_rows(found, options=OPTIONS))["photo"] == "a.jpg"
    told: list[int] = []
    check_photos(found, options=OPTIONS, advance=told.append)
    assert sum(told) == len(found)


def test_a_folder_without_a_usable_photo_is_an_error_that_counts_the_reasons(tmp_path: Path) -> None:
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
    with pytest.raises(NoUsablePhotos, match="no photos were named"):
        find_photos([])


def test_reading_one_photo_gives_what_the_table_says(folder: Path) -> None:
    photo = read_photo(folder / "deep" / "c.webp", options=OPTIONS)
    assert photo.pixels.shape == (photo.height, photo.width, 3) == (70, 50, 3)
    with pytest.raises(PhotoError, match="missing"):
        read_photo(folder / "nowhere.jpg", options=OPTIONS)


# --- manifests ---


def test_a_manifest_keeps_its_columns_beside_the_photos_it_names(folder: Path) -> None:
    (folder / "list.csv").write_text(f"photo,task,score\ndeep/c.webp,cook,1\n{folder / 'a.jpg'},,2\nnone.png,judge,3\n")
    table = check_photos(find_photos([folder / "list.csv"]), options=OPTIONS)
    assert table.column_names == [*PHOTOS, "task", "score"]
    assert table["photo"].to_pylist() == ["deep/c.webp", "a.jpg", "none.png"]
    assert table["task"].to_pylist() == ["cook", None, "judge"]
    assert table["score"].to_pylist() == [1, 2, 3]
    assert table["status"].to_pylist() == ["ok", "ok", "failed"]
    assert table["reason"].to_pylist()[2] == Reason.MISSING


def test_parquet_manifests_work_alike_and_names_like_numbers_stay_names(folder: Path) -> None:
    picture().save(folder / "007", "PNG")
    pq.write_table(pa.table({"task": ["x"], "photo": ["007"]}), folder / "list.parquet")
    (folder / "list.csv").write_text("task,photo\nx,007\n")
    parquet, csv = (find_photos([folder / f"list.{ending}"]) for ending in ("parquet", "csv"))
    assert parquet.names == csv.names == ("007",)
    assert check_photos(parquet, options=OPTIONS) == check_photos(csv, options=OPTIONS)


def test_a_changed_column_of_a_manifest_is_another_fingerprint(folder: Path) -> None:
    seen = set()
    for task in ("cook", "judge"):
        (folder / "list.csv").write_text(f"photo,task\na.jpg,{task}\n")
        seen.add(find_photos([folder / "list.csv"]).fingerprint)
    assert len(seen) == 2


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "cannot be read"),
        ("photo\n", "lists no photo"),
        ("file\na.jpg\n", "no column 'photo'; its columns are 'file'"),
        ("photo,task,status\na.jpg,x,y\n", "column 'status', which the table of photos needs"),
        ("photo,task,task\na.jpg,x,y\n", "more than one column 'task'"),
        ("photo,task\na.jpg,x\nb.png,y\n./a.jpg,z\n", r"names './a.jpg' twice, in rows 1 and 3"),
        ("photo,task\na.jpg,x\n,y\n", "row 2 .* names no photo"),
        ("photo\na.jpg,x\n", "cannot be read"),
    ],
)
def test_a_manifest_that_cannot_be_used_says_how_to_mend_it(folder: Path, text: str, complaint: str) -> None:
    (folder / "list.csv").write_text(text)
    with pytest.raises(NoUsablePhotos, match=complaint):
        find_photos([folder / "list.csv"])


def test_a_file_that_only_claims_to_be_parquet_is_an_error(folder: Path) -> None:
    (folder / "list.parquet").write_bytes(b"photo\na.jpg\n")
    with pytest.raises(NoUsablePhotos, match="cannot be read"):
        find_photos([folder / "list.parquet"])


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_manifest_may_be_saved_in_any_unicode_encoding(folder: Path, encoding: str) -> None:
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
def test_stray_bytes_in_a_manifest_are_one_clear_line(folder: Path, content: bytes) -> None:
    (folder / "list.csv").write_bytes(content)
    with pytest.raises(
        NoUsablePhotos, match=r"^the manifest .*list\.csv cannot be read: line \d is not UTF-.* text; .*$"
    ):
        find_photos([folder / "list.csv"])


@given(st.binary(max_size=60))
@settings(max_examples=200)
def test_a_manifest_of_any_bytes_is_read_or_refused(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "list.csv"
        path.write_bytes(b"photo,note\n" + content)
        with contextlib.suppress(NoUsablePhotos):
            find_photos([path])
