"""Compositing of edits that also displace content and shift skin tone: regions, displacement, tone, rounding.

Pure functions over arrays that complement ``mask``. Outside the union of both masks every pixel is unchanged.
"""

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from models.image_metrics import channel_product, luma
from pipeline.counterfactuals.editors.base import Composite, Patch
from pipeline.counterfactuals.mask import replaced

LEVELS = (0.0, 250.0)  # darkest and lightest luma that a change of features may reach
ROOM = 70.0  # distance from these levels within which a change is scaled down
LIGHT = 32.0  # levels towards which a change of light and colour saturates; larger changes are spots


@dataclass(frozen=True)
class Region:
    """The window of a photo that may change, and the two masks in it.

    ``top``, ``left``: its corner in pixels; ``face`` ``(h, w)`` in 0..1: weight of a change of features;
    ``skin`` ``(h, w)`` in 0..1: weight of a shift of skin tone (zero everywhere for an edit without one).
    """

    top: int
    left: int
    face: NDArray[np.float32]
    skin: NDArray[np.float32]

    @cached_property
    def mask(self) -> NDArray[np.float32]:
        """Where any change is possible: the larger of both masks ``(h, w)``."""
        return np.maximum(self.face, self.skin)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Where `mask` is not zero."""
        return self.mask > 0

    @cached_property
    def features(self) -> tuple[slice, slice]:
        """The part of the window with the face's mask, as slices of rows and columns; empty without a face."""
        left, top, width, height = cv2.boundingRect((self.face > 0).astype(np.uint8))
        return slice(top, top + height), slice(left, left + width)

    @property
    def patch(self) -> Patch:
        """The region as a patch with `mask`."""
        return Patch(self.top, self.left, self.mask)

    @property
    def window(self) -> tuple[slice, slice]:
        """Position of the region in the photo, as slices of rows and columns."""
        return self.patch.window


def merged_region(face: Patch | None, skin: Patch | None) -> Region | None:
    """Return the smallest region with a face's patch and its visible skin; None if there is neither."""
    parts = [part for part in (face, skin) if part is not None]
    if not parts:
        return None
    top, left = min(part.top for part in parts), min(part.left for part in parts)
    bottom = max(part.top + part.mask.shape[0] for part in parts)
    right = max(part.left + part.mask.shape[1] for part in parts)

    def placed(part: Patch | None) -> NDArray[np.float32]:
        whole = np.zeros((bottom - top, right - left), dtype=np.float32)
        if part is not None:
            height, width = part.mask.shape
            whole[part.top - top : part.top - top + height, part.left - left : part.left - left + width] = part.mask
        return whole

    return Region(top, left, placed(face), placed(skin))


def within(patch: Patch | None, window: Patch) -> NDArray[np.float32]:
    """Return a patch's mask in the window of another patch, 0 elsewhere."""
    height, width = window.mask.shape
    whole = np.zeros((height, width), dtype=np.float32)
    if patch is None:
        return whole
    top, left = patch.top - window.top, patch.left - window.left
    rows = slice(max(top, 0), min(top + patch.mask.shape[0], height))
    columns = slice(max(left, 0), min(left + patch.mask.shape[1], width))
    if rows.stop > rows.start and columns.stop > columns.start:
        whole[rows, columns] = patch.mask[
            rows.start - top : rows.stop - top, columns.start - left : columns.stop - left
        ]
    return whole


def to_photo_displacement(
    displacement: NDArray[np.float32], *, to_photo: NDArray[np.float64], size: int
) -> NDArray[np.float32]:
    """Convert a displacement field ``(..., 2)`` from crop sides to photo pixels, rotated and scaled like the crop.

    Args:
        displacement: x and y in sides of the crop.
        to_photo: ``(2, 3)`` transform from crop to photo pixels.
        size: side in pixels of the crop of ``to_photo``.
    """
    return np.asarray(displacement @ (size * to_photo[:, :2].T), dtype=np.float32)


def compose(
    photo: NDArray[np.uint8],
    region: Region,
    *,
    colour: NDArray[np.float32] | None = None,
    displacement: NDArray[np.float32] | None = None,
    tone: NDArray[np.float32] | None = None,
) -> Composite:
    """Composite one version of a photo: shift tone, displace content, add the change of colour, round, in this order.

    Args:
        photo: ``(H, W, 3)`` uint8 RGB.
        region: the window ``(h, w)`` and its masks.
        colour: ``(fh, fw, 3)`` levels in ``region.features``, already weighted by the face's mask.
        displacement: ``(fh, fw, 2)`` offsets (x, y) in photo pixels from which pixels are sampled, already weighted by
            `inner_mask`.
        tone: ``(h, w, 3)`` levels from ``models.tone.tone_changes``, already weighted by ``region.skin``.

    Returns:
        The version; pixels where ``region.mask`` is zero are the photo's own.
    """
    levels = photo[region.window].astype(np.float32)
    if tone is not None:
        levels += tone
    features = levels[region.features]
    if displacement is not None and np.any(displacement):
        features[:] = _moved(features, displacement, within=region.face[region.features])
    if colour is not None:
        features += headroom(features, colour)[..., None] * colour
    return replaced(photo, region.window, levels, region.inside)


def headroom(levels: NDArray[np.float32], colour: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the share ``(h, w)`` of a change ``(h, w, 3)`` that each pixel takes: less for large changes and near 0
    and 255.

    A lighter lip must not brighten teeth, nor a darker lid blacken an eye.
    """
    light, change = luma(levels), luma(colour)
    room = np.where(change > 0, (LEVELS[1] - light) / ROOM, (light - LEVELS[0]) / ROOM)
    squares = channel_product(colour, colour) / np.float32(3 * LIGHT**2)
    return np.asarray(np.clip(room, 0, 1) / np.sqrt(1 + squares), dtype=np.float32)


def saturated(displacement: NDArray[np.float32], *, limit: float) -> NDArray[np.float32]:
    """Saturate a displacement ``(h, w, 2)`` so that its length approaches ``limit``."""
    shares = displacement * np.float32(1 / limit)
    shares *= shares
    length = np.sqrt(1 + shares[..., 0] + shares[..., 1])
    return np.asarray(displacement / length[..., None], dtype=np.float32)


def inner_mask(mask: NDArray[np.float32], *, rim: float) -> NDArray[np.float32]:
    """Shrink the mask ``(h, w)`` so that it falls to zero over ``rim`` pixels inside its edge (as
    ``models.residual.inner``)."""
    size = 2 * round(rim / 2) + 1
    mean = cv2.blur(mask, (size, size), borderType=cv2.BORDER_CONSTANT)
    return np.asarray(mask * np.clip(2 * mean - 1, 0, 1), dtype=np.float32)


def _moved(
    levels: NDArray[np.float32], displacement: NDArray[np.float32], *, within: NDArray[np.float32]
) -> NDArray[np.float32]:
    columns, rows = (np.arange(count, dtype=np.float32) for count in (levels.shape[1], levels.shape[0]))

    def fetched(field: NDArray[np.float32], moves: NDArray[np.float32], how: int) -> NDArray[np.float32]:
        places = moves[..., 0] + columns, moves[..., 1] + rows[:, None]
        return np.asarray(cv2.remap(field, *places, how, borderMode=cv2.BORDER_REPLICATE), dtype=np.float32)

    # Nothing is sampled from outside the face, such as a strand of hair.
    moves = displacement * fetched(within, displacement, cv2.INTER_LINEAR)[..., None]
    moved = fetched(levels, moves, cv2.INTER_CUBIC)
    # Interpolation changes unmoved pixels by rounding errors, so these are copied.
    np.copyto(moved, levels, where=((moves[..., 0] == 0) & (moves[..., 1] == 0))[..., None])
    return moved
