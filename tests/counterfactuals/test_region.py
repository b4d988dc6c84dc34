"""Regions with masks of face and skin, and composition in them."""

import numpy as np
import pytest

from pipeline.counterfactuals.editors.base import Patch
from pipeline.counterfactuals.region import Region, compose, inner_mask, merged_region, to_photo_displacement


@pytest.fixture
def photo() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (40, 50, 3)).astype(np.uint8)


def region() -> Region:
    face, skin = np.zeros((20, 20), np.float32), np.zeros((20, 20), np.float32)
    face[5:15, 5:15], skin[5:19, 5:15] = 1, 0.5
    return Region(top=8, left=12, face=face, skin=skin)


def test_pixels_outside_both_masks_are_unchanged(photo: np.ndarray) -> None:
    random = np.random.default_rng(1)
    face_region = region()
    composed = compose(
        photo,
        face_region,
        colour=random.normal(0, 60, (10, 10, 3)).astype(np.float32),
        displacement=random.normal(0, 3, (10, 10, 2)).astype(np.float32),
        tone=(face_region.skin[..., None] * random.normal(0, 40, (20, 20, 3))).astype(np.float32),
    )
    outside = np.ones(photo.shape[:2], dtype=bool)
    outside[face_region.window] = face_region.mask == 0
    assert (composed.pixels[outside] == photo[outside]).all()
    assert (composed.pixels[~outside] != photo[~outside]).any()


def test_zero_change_gives_the_photo(photo: np.ndarray) -> None:
    no_tone = np.zeros((20, 20, 3), np.float32)
    no_change = no_tone[:10, :10]
    composed = compose(photo, region(), colour=no_change, displacement=no_change[..., :2], tone=no_tone)
    assert (composed.pixels == photo).all()
    assert composed.clipped_share == 0


def test_displacement_moves_content(photo: np.ndarray) -> None:
    displacement = np.zeros((10, 10, 2), np.float32)
    displacement[..., 0] = 1
    composed = compose(photo, region(), colour=np.zeros((10, 10, 3), np.float32), displacement=displacement)
    np.testing.assert_array_equal(composed.pixels[16:20, 19:23], photo[16:20, 20:24])


def test_merged_region_covers_face_and_skin() -> None:
    face = Patch(10, 10, np.ones((4, 4), np.float32))
    skin = Patch(12, 8, np.full((6, 5), 0.5, np.float32))
    found = merged_region(face, skin)
    assert found is not None
    assert (found.top, found.left, found.face.shape) == (10, 8, (8, 6))
    assert found.face.sum() == 16
    assert found.skin.sum() == 15
    assert merged_region(None, None) is None


def test_displacements_rotate_with_the_crop() -> None:
    rotated = np.array([[0.0, -2.0, 5.0], [2.0, 0.0, 7.0]])
    displacement = to_photo_displacement(np.array([[0.1, 0.0]], np.float32), to_photo=rotated, size=128)
    np.testing.assert_allclose(displacement, [[0, 25.6]], atol=1e-4)


def test_inner_mask_is_low_at_the_rim_and_1_inside() -> None:
    mask = np.zeros((40, 40), np.float32)
    mask[5:35, 5:35] = 1
    inner = inner_mask(mask, rim=6)
    assert inner[5, 20] < 0.2
    assert inner[20, 20] == 1
