import numpy as np
import pytest
from drawn_subjects import RedSkinParser, face_photo, own_values, subject
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from models.alignment import aligned_crop
from models.image_metrics import mean_lightness
from models.precision import unit_batch
from pipeline.counterfactuals.editors.base import CROP, Subject
from pipeline.counterfactuals.mask import (
    Patch,
    add_change,
    background_kept,
    crop_mask,
    feather,
    is_grey,
    locate,
    paste,
    patches_of,
    to_patch,
    warp_into,
    without_colour,
)

IDENTITY = np.array([[1.0, 0, 0], [0, 1, 0]])


@st.composite
def random_edits(draw):
    """A photo, a patch in it, and levels to add or paste."""
    height, width = draw(st.integers(3, 16)), draw(st.integers(3, 16))
    photo = draw(hnp.arrays(np.uint8, (height, width, 3)))
    h, w = draw(st.integers(1, height)), draw(st.integers(1, width))
    top, left = draw(st.integers(0, height - h)), draw(st.integers(0, width - w))
    parts = st.sampled_from([0.0, 0.0, 0.25, 0.6, 1.0])
    mask = draw(hnp.arrays(np.float32, (h, w), elements=parts))
    levels = draw(hnp.arrays(np.float32, (h, w, 3), elements=st.floats(-400, 400, width=32)))
    return photo, Patch(top, left, mask), levels


def outside_mask(photo, patch):
    everywhere = np.ones(photo.shape[:2], dtype=bool)
    everywhere[patch.window] = patch.mask == 0
    return everywhere


@given(random_edits())
def test_zero_change_gives_identical_pixels(edit):
    photo, patch, levels = edit
    version = add_change(photo, patch, np.zeros_like(levels))
    assert version.pixels.tobytes() == photo.tobytes()
    assert version.clipped_share == 0


@given(random_edits(), st.sampled_from([add_change, paste]))
def test_pixels_outside_the_mask_are_unchanged(edit, put):
    photo, patch, levels = edit
    before = photo.copy()
    version = put(photo, patch, levels)
    away = outside_mask(photo, patch)
    np.testing.assert_array_equal(version.pixels[away], photo[away])
    assert background_kept(photo, version.pixels, patch) == 1.0
    np.testing.assert_array_equal(photo, before)


@given(random_edits())
def test_pasted_face_replaces_the_photo_inside_a_full_mask(edit):
    photo, patch, levels = edit
    full = Patch(patch.top, patch.left, np.ones_like(patch.mask))
    version = paste(photo, full, levels)
    np.testing.assert_array_equal(version.pixels[full.window], np.rint(levels).clip(0, 255).astype(np.uint8))


def test_change_is_weighted_by_the_mask():
    photo = np.full((1, 3, 3), 100, dtype=np.uint8)
    patch = Patch(0, 0, np.array([[0, 0.5, 1]], dtype=np.float32))
    assert add_change(photo, patch, np.full((1, 3, 3), 20, np.float32)).pixels[0, :, 0].tolist() == [100, 110, 120]


def test_clipped_share_is_relative_to_the_mask():
    photo = np.array([[[250] * 3, [250] * 3, [100] * 3, [5] * 3, [250] * 3]], dtype=np.uint8)
    patch = Patch(0, 0, np.array([[1, 1, 1, 1, 0]], dtype=np.float32))
    change = np.array([10, 3, 10, -10, 10], dtype=np.float32)[None, :, None].repeat(3, axis=2)
    version = add_change(photo, patch, change)
    assert version.pixels[0, :, 0].tolist() == [255, 253, 110, 0, 250]
    assert version.clipped_share == 0.5


def test_reaching_white_exactly_is_not_clipping():
    photo = np.full((2, 2, 3), 250, dtype=np.uint8)
    patch = Patch(0, 0, np.ones((2, 2), np.float32))
    assert add_change(photo, patch, np.full((2, 2, 3), 5, np.float32)).clipped_share == 0


# Feathering


memberships = hnp.arrays(
    np.float32, st.tuples(st.integers(1, 20), st.integers(1, 20)), elements=st.floats(0, 1, width=32)
)


@given(memberships, st.floats(0, 12))
def test_feathering_keeps_the_region(membership, pixels):
    mask = feather(membership, pixels=pixels)
    assert mask.dtype == np.float32
    assert ((mask >= 0) & (mask <= 1)).all()
    np.testing.assert_array_equal(mask > 0, membership >= 0.5)


@pytest.mark.parametrize("pixels", [1, 3, 8])
def test_feathered_mask_rises_from_the_edge_to_1(pixels):
    membership = np.zeros((60, 60), dtype=np.float32)
    membership[10:50, 10:50] = 1
    mask = feather(membership, pixels=pixels)
    across = mask[30, 10:30]
    assert (np.diff(across) >= 0).all()
    assert (across[int(np.ceil(1.1 * pixels)) :] == 1).all()
    assert across[0] < 1 or pixels == 1


def test_mask_without_feather_is_the_region():
    membership = np.array([[0.2, 0.49, 0.5, 1.0]], dtype=np.float32)
    assert feather(membership, pixels=0).tolist() == [[0, 0, 1, 1]]


def test_border_of_the_photo_is_feathered():
    assert feather(np.ones((30, 30), np.float32), pixels=5)[0, 15] < 0.5


# From crop to photo


def region(side=32, rows=slice(8, 20), columns=slice(12, 28)):
    membership = np.zeros((side, side), dtype=np.float32)
    membership[rows, columns] = 1
    return membership


def mask_in_photo(patch, shape):
    whole = np.zeros(shape, dtype=np.float32)
    if patch is not None:
        whole[patch.window] = patch.mask
    return whole


@given(scale=st.sampled_from([1.0, 2.0, 3.5]), left=st.integers(-90, 140), top=st.integers(-90, 140))
def test_locate_transforms_a_region_even_partly_outside_the_photo(scale, left, top):
    shape = (120, 100)
    to_photo = np.array([[scale, 0, left], [0, scale, top]], dtype=np.float64)
    found = mask_in_photo(locate(region(), to_photo=to_photo, shape=shape), shape)
    rows, columns = np.mgrid[: shape[0], : shape[1]]
    x, y = (columns - left) / scale, (rows - top) / scale
    deep = (x >= 12) & (x <= 27) & (y >= 8) & (y <= 19)
    away = (x <= 11) | (x >= 28) | (y <= 7) | (y >= 20)
    np.testing.assert_allclose(found[deep], 1, atol=1e-5)
    np.testing.assert_allclose(found[away], 0, atol=1e-5)


def test_window_is_the_bounding_box_of_the_region():
    patch = locate(region(), to_photo=IDENTITY, shape=(50, 50))
    assert (patch.top, patch.left, patch.mask.shape) == (8, 12, (12, 16))


def test_region_that_fills_the_crop_is_not_cut_off():
    # A crop's pixel extends two photo pixels to each side of its centre.
    to_photo = np.array([[4.0, 0, 10], [0, 4.0, 10]])
    found = mask_in_photo(locate(np.ones((8, 8), np.float32), to_photo=to_photo, shape=(60, 60)), (60, 60))
    assert (np.flatnonzero(found[24] >= 0.5) == range(8, 41)).all()


@pytest.mark.parametrize("shift", [(200, 0), (0, 200), (-80, 0), (0, -80)])
def test_region_outside_the_photo_has_no_patch(shift):
    to_photo = IDENTITY + np.array([[0, 0, shift[0]], [0, 0, shift[1]]])
    assert locate(region(), to_photo=to_photo, shape=(60, 60)) is None


def test_empty_region_has_no_patch():
    assert locate(np.zeros((32, 32), np.float32), to_photo=IDENTITY, shape=(60, 60)) is None


def test_warp_replicates_the_border_of_the_crop():
    crop = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    wide = warp_into(crop, to_photo=IDENTITY, window=(-1, -2, 4, 6))
    assert wide.shape == (4, 6, 3)
    np.testing.assert_allclose(wide[:, 0], crop[[0, 0, 1, 1], 0])
    np.testing.assert_allclose(wide[1, 2:4], crop[0])


# Grey photos, lightness, background


def test_is_grey_detects_faint_colours():
    grey = np.full((3, 3, 3), 90, dtype=np.uint8)
    tinted = grey.copy()
    tinted[1, 1, 2] += 3
    assert is_grey(grey)
    assert not is_grey(tinted)


@given(hnp.arrays(np.float32, (2, 3, 3), elements=st.floats(-200, 200, width=32)))
def test_change_without_colour_has_equal_channels_and_the_same_luma(change):
    plain = without_colour(change)
    assert (plain == plain[..., :1]).all()
    np.testing.assert_allclose(plain[..., 0], change @ [0.299, 0.587, 0.114], atol=1e-3)


def test_mean_lightness_is_weighted_by_the_mask():
    pixels = np.array([[[0, 0, 0], [255, 255, 255]]], dtype=np.uint8)
    assert mean_lightness(pixels, np.array([[1, 0]], np.float32)) == pytest.approx(0, abs=0.1)
    assert mean_lightness(pixels, np.array([[0, 1]], np.float32)) == pytest.approx(100, abs=0.1)
    assert mean_lightness(pixels, np.array([[0.5, 0.5]], np.float32)) == pytest.approx(50, abs=0.1)
    assert mean_lightness(np.full((1, 1, 3), 119, np.uint8), np.ones((1, 1), np.float32)) == pytest.approx(50, abs=0.5)


@given(random_edits(), st.data())
def test_background_kept_detects_one_changed_pixel(edit, data):
    photo, patch, levels = edit
    away = np.argwhere(outside_mask(photo, patch))
    if not len(away):
        return
    row, column = away[data.draw(st.integers(0, len(away) - 1))]
    version = add_change(photo, patch, levels).pixels
    version[row, column, 1] ^= 1
    assert background_kept(photo, version, patch) == pytest.approx(1 - 1 / len(away))


# Patches of faces


def crop_of(face):
    return unit_batch([aligned_crop(face.pixels, face.landmarks, size=CROP)])[0]


@pytest.mark.parametrize("drawing", [{}, {"centre": (50, 60), "radius": 22}, {"centre": (100, 25), "radius": 32}])
def test_patch_is_the_parsed_region(drawing):
    _, _, disc = face_photo(**drawing)
    (patch,) = patches_of(RedSkinParser(), [subject(**drawing)], region=("skin",), feather_share=0)
    found = mask_in_photo(patch, disc.shape) > 0
    assert (found & disc).sum() / (found | disc).sum() > 0.93


def test_feathered_patch_stays_inside_the_region():
    hard, soft = (
        patches_of(RedSkinParser(), [subject()], region=("skin",), feather_share=share)[0] for share in (0, 0.05)
    )
    hard, soft = mask_in_photo(hard, (160, 160)), mask_in_photo(soft, (160, 160))
    assert ((soft > 0) <= (hard > 0)).all()
    assert set(np.unique(hard)) == {0, 1}
    assert 0.3 < soft.sum() / hard.sum() < 0.95


def test_face_without_the_region_has_no_patch():
    without_region = Subject("x", np.zeros((160, 160, 3), np.uint8), face_photo()[1], own_values())
    patches = patches_of(RedSkinParser(), [subject(), without_region], region=("skin",), feather_share=0.02)
    assert [patch is None for patch in patches] == [False, True]
    assert patches_of(RedSkinParser(), [subject()], region=("hair",), feather_share=0.02) == [None]


def test_patch_within_the_crop_excludes_pixels_outside_it():
    # In a photo that is all red, the region extends beyond the crop.
    pixels, landmarks, _ = face_photo(side=300, centre=(150, 150), radius=300)
    everywhere = Subject("x", pixels, landmarks / 4 + 112, own_values())
    shapes = []
    for within in (False, True):
        (patch,) = patches_of(RedSkinParser(), [everywhere], region=("skin",), feather_share=0, within_crop=within)
        corners = np.argwhere(mask_in_photo(patch, (300, 300)) > 0)[:, ::-1]
        places = corners @ everywhere.to_crop[:, :2].T + everywhere.to_crop[:, 2]
        shapes.append((places.min(), places.max()))
    assert shapes[0][0] < -5
    assert shapes[0][1] > CROP + 5
    assert shapes[1][0] >= -1
    assert shapes[1][1] <= CROP


def test_to_patch_inverts_the_crop():
    face = subject()
    (patch,) = patches_of(RedSkinParser(), [face], region=("skin",), feather_share=0)
    crop = (crop_of(face).permute(1, 2, 0).numpy() + 1) * 127.5
    over = to_patch(crop.astype(np.float32), face, patch)
    assert over.shape == (*patch.mask.shape, 3)
    inside = patch.mask > 0
    difference = np.abs(over - face.pixels[patch.window])[inside]
    assert difference.mean() < 8  # resampling softens the noise


def test_crop_mask_is_the_patch_in_crop_coordinates():
    face = subject()
    (patch,) = patches_of(RedSkinParser(), [face], region=("skin",), feather_share=0)
    mask = crop_mask(face, patch)
    assert mask.shape == (CROP, CROP)
    assert 0 <= mask.min() <= mask.max() <= 1
    crop = crop_of(face).numpy()
    red = crop[0] - crop[1] > 0.5
    assert ((mask > 0.5) & red).sum() / ((mask > 0.5) | red).sum() > 0.93
