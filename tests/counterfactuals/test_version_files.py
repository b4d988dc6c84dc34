import unicodedata
from hashlib import sha256

import numpy as np
import pytest
from drawn_subjects import RedSkinParser, subject
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, JpegImagePlugin

from pipeline.config.attributes import EDIT_ARM
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.base import CROP, Edit
from pipeline.counterfactuals.files import ImageFile, RunLayout, image_folder, remove_stale
from pipeline.counterfactuals.make import compose
from pipeline.counterfactuals.mask import patches_of
from pipeline.run.image_store import ImageStore
from pipeline.run.tables import COUNTERFACTUALS, to_table, write_table

VALUES = (-2.0, 0.0, 2.0)
photo_names = st.text(st.characters(exclude_categories=["Cs"]), max_size=120) | st.lists(
    st.sampled_from(["..", ".", "", " ", "a", "b.jpg", "C:", "\\", "/", "ä", "𠀀" * 90, "x" * 200, ". .", "-"])
).map("/".join)


def uniform_changes(level=40.0, seed=3):
    random = np.random.default_rng(seed)
    colours = random.uniform(-level, level, (len(VALUES), 1, 1, 3)).astype(np.float32)
    return np.broadcast_to(colours, (len(VALUES), CROP, CROP, 3)).copy()


def write_versions(folder, *, face=None, images=None, attribute="gender", arm=EDIT_ARM, feather_share=0.02, **options):
    options = {"editor": "fader"} | options
    face = face or subject()
    (patch,) = patches_of(RedSkinParser(), [subject()], region=("skin",), feather_share=feather_share)
    images = (uniform_changes() if images is None else images)[None]
    edit = Edit(attribute, arm, VALUES, images, images)
    versions = compose(face, patch, edit, 0, options=SweepOptions(**options), layout=RunLayout(), folder=folder)
    return face, patch, versions


# Folders


@given(photo_names)
def test_image_folder_is_safe_for_any_name(name):
    folder = image_folder(name)
    assert not folder.is_absolute()
    assert folder.parts
    for part in folder.parts:
        assert part not in ("", ".", "..")
        assert not part.startswith("/")
        assert len(part.encode()) <= 255
        assert part == part.strip(" .")
        assert not any(character in '<>:"|?*\\/' or unicodedata.category(character) == "Cc" for character in part)


@given(photo_names, photo_names)
def test_different_names_have_different_folders(first, second):
    assert (image_folder(first) == image_folder(second)) == (first == second)


@pytest.mark.parametrize(
    ("first", "second"), [("a?.jpg", "a*.jpg"), ("../a.jpg", "a.jpg"), ("A.jpg", "a.jpg"), ("x/a", "x\\a")]
)
def test_names_that_are_sanitised_equally_have_different_folders(first, second):
    assert str(image_folder(first)).casefold() != str(image_folder(second)).casefold()


def test_plain_name_stays_readable():
    assert str(image_folder("holiday/Ann Ö.jpg")).startswith("holiday/Ann Ö.jpg-")


def test_folder_of_a_long_name_can_be_created(tmp_path):
    (tmp_path / image_folder("𠀀" * 300 + ".jpg")).mkdir(parents=True)


# Files


@pytest.mark.parametrize("mode", ["delta", "reconstruction"])
def test_file_has_the_exact_pixels_and_the_row_describes_it(tmp_path, mode):
    images = uniform_changes() + (127.5 if mode == "reconstruction" else 0)
    face, patch, versions = write_versions(tmp_path, mode=mode, images=images)
    assert [version.row["step"] for version in versions] == [1, 2, 3]
    assert [version.row["value"] for version in versions] == list(VALUES)
    for version, image in zip(versions, images, strict=True):
        row = version.row
        content = (tmp_path / row["file"]).read_bytes()
        assert row["sha256"] == sha256(content).hexdigest()
        decoded = np.array(Image.open(tmp_path / row["file"]))
        full = patch.mask == 1
        flat = image[0, 0]
        expected = face.pixels[patch.window] + flat if mode == "delta" else np.broadcast_to(flat, (*full.shape, 3))
        np.testing.assert_allclose(decoded[patch.window][full], expected[full].clip(0, 255), atol=0.51)
        outside = np.ones(decoded.shape[:2], dtype=bool)
        outside[patch.window] = patch.mask == 0
        np.testing.assert_array_equal(decoded[outside], face.pixels[outside])
        assert row["background_kept"] == 1.0
        assert row["mask_share"] == pytest.approx(np.count_nonzero(patch.mask) / 160**2)
        assert 0 < row["lightness"] < 100
        assert version.crop.shape == (CROP, CROP, 3)
    to_table([version.row for version in versions], COUNTERFACTUALS)  # all columns are in the schema


def test_file_without_change_is_the_photo(tmp_path):
    face, _, versions = write_versions(tmp_path, images=np.zeros((3, CROP, CROP, 3), np.float32))
    for version in versions:
        np.testing.assert_array_equal(np.array(Image.open(tmp_path / version.row["file"])), face.pixels)
    assert len({version.row["sha256"] for version in versions}) == 1
    assert {(version.row["mask_line"], version.row["clipped_share"]) for version in versions} == {(0, 0)}


def test_attributes_and_arms_have_separate_folders(tmp_path):
    kinds = {"gender": {}, "race": {"attribute": "race"}, "gender-random": {"arm": "random"}}
    rows = {kind: [version.row for version in write_versions(tmp_path, **given)[2]] for kind, given in kinds.items()}
    assert len({row["file"] for of_kind in rows.values() for row in of_kind}) == 9
    for kind, of_kind in rows.items():
        assert {row["file"].split("/")[1] for row in of_kind} == {kind}
        assert {row["arm"] for row in of_kind} == {"random" if "random" in kind else EDIT_ARM}
    assert len({row["mask"] for of_kind in rows.values() for row in of_kind}) == 1


def test_mask_line_is_visible_for_large_changes_only(tmp_path):
    feather_share = 0.05  # without feather, the mask would end at the edge of the drawn face
    wall = np.full((3, CROP, CROP, 3), 255, np.float32)
    _, _, pasted = write_versions(tmp_path / "wall", images=wall, mode="reconstruction", feather_share=feather_share)
    assert all(version.row["mask_line"] > 0.3 for version in pasted)
    _, _, changed = write_versions(tmp_path / "small", images=uniform_changes(level=2.0), feather_share=feather_share)
    assert all(version.row["mask_line"] < 0.1 for version in changed)


@pytest.mark.parametrize("mode", ["delta", "reconstruction"])
def test_grey_photo_stays_grey(tmp_path, mode):
    images = uniform_changes() + (127.5 if mode == "reconstruction" else 0)
    face, _, versions = write_versions(tmp_path, face=subject(grey=True), images=images, mode=mode)
    for version in versions:
        decoded = np.array(Image.open(tmp_path / version.row["file"]))
        assert (decoded == decoded[..., :1]).all()
        assert (decoded != face.pixels).any()


def test_clipped_share_is_measured(tmp_path):
    _, _, versions = write_versions(tmp_path, images=np.full((3, CROP, CROP, 3), 300, np.float32))
    assert all(version.row["clipped_share"] > 0.5 for version in versions)


def test_jpeg_quality_and_chroma_sampling(tmp_path):
    face, _, good = write_versions(tmp_path / "good", image_format="jpeg", jpeg_quality=95)
    _, _, poor = write_versions(tmp_path / "poor", image_format="jpeg", jpeg_quality=50)
    good_file, poor_file = tmp_path / "good" / good[0].row["file"], tmp_path / "poor" / poor[0].row["file"]
    assert good_file.suffix == ".jpg"
    assert good_file.stat().st_size > poor_file.stat().st_size
    with Image.open(good_file) as image:
        assert JpegImagePlugin.get_sampling(image) == 0  # 4:4:4
        difference = np.abs(np.array(image).astype(int) - face.pixels)[:30]
    assert difference.mean() < 5
    assert good[0].row["sha256"] == sha256(good_file.read_bytes()).hexdigest()


def test_empty_image_raises():
    with pytest.raises(Exception, match=r"encode|empty"):
        ImageFile().encode(np.zeros((0, 0, 3), np.uint8))


# Stale files


def test_remove_stale_keeps_the_files_of_the_table(tmp_path):
    steps = [f"images/gender/{name}.png" for name in ("a-1/step1", "a-1/step2", "b-1/step1")]
    files = (*steps, "masks/a-1.png")
    for name in (*files, "masks/b-1.png", "images/metadata.csv", "images/race/a-1/step1.png", "report.html"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(b"x")
    row = {"attribute": "gender", "arm": EDIT_ARM, "photo": "a", "value": 0.0}
    rows = [
        row | {"step": 1, "status": "ok", "file": files[0], "mask": files[3]},
        row | {"step": 2, "status": "failed"},
    ]
    write_table(to_table(rows, COUNTERFACTUALS), tmp_path / "counterfactuals.parquet")
    assert remove_stale(tmp_path / "counterfactuals.parquet", ImageStore(tmp_path)) == 4
    left = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {files[0], files[3], "images/metadata.csv", "report.html", "counterfactuals.parquet"}
    assert not (tmp_path / "images" / "race").exists()
    assert not (tmp_path / "images" / "gender" / "b-1").exists()


def test_remove_stale_without_images(tmp_path):
    write_table(to_table([], COUNTERFACTUALS), tmp_path / "counterfactuals.parquet")
    assert remove_stale(tmp_path / "counterfactuals.parquet", ImageStore(tmp_path)) == 0
