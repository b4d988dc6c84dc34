"""Where and how a change is put into a photo: the face's region, all visible skin, displacement, tone, rounding.

Pure functions over arrays, the companion of ``mask`` for edits that also move content and shift skin tone.
Outside the union of both masks nothing changes, bit for bit.
"""

from dataclasses import dataclass
from functools import cached_property

import cv2
import numpy as np
from numpy.typing import NDArray

from models.image_metrics import luma
from pipeline.counterfactuals.editors.base import Composite, Patch
from pipeline.counterfactuals.mask import replaced

LEVELS = (0.0, 250.0)  # the darkest and the lightest level that a change of features shall reach
ROOM = 70.0  # levels from there, within which a change is scaled down
LIGHT = 20.0  # levels towards which a change of light and colour saturates: beyond, it would be a spot


@dataclass(frozen=True)
class Region:
    """The window of a photo that may change, and the two masks in it.

    ``top``, ``left``: its corner in pixels; ``face`` ``(h, w)`` in 0..1: how much of a change of features a pixel
    takes; ``skin`` ``(h, w)`` in 0..1: how much of a shift of skin tone (zero everywhere for an edit without one).
    """

    top: int
    left: int
    face: NDArray[np.float32]
    skin: NDArray[np.float32]

    @cached_property
    def mask(self) -> NDArray[np.float32]:
        """Where anything may change at all: the larger of both masks ``(h, w)``."""
        return np.maximum(self.face, self.skin)

    @cached_property
    def inside(self) -> NDArray[np.bool_]:
        """Where `mask` is not zero."""
        return self.mask > 0

    @cached_property
    def features(self) -> tuple[slice, slice]:
        """The part of the window that holds the face's mask, as slices of rows and columns; empty without one."""
        left, top, width, height = cv2.boundingRect((self.face > 0).astype(np.uint8))
        return slice(top, top + height), slice(left, left + width)

    @property
    def patch(self) -> Patch:
        """The region as a patch with `mask`, for what asks only where the photo may change."""
        return Patch(self.top, self.left, self.mask)

    @property
    def window(self) -> tuple[slice, slice]:
        """Where the region lies in the photo, as slices of rows and columns."""
        return self.patch.window


def merged_region(face: Patch | None, skin: Patch | None) -> Region | None:
    """The smallest region that holds a face's patch and its visible skin; None where there is neither."""
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
    """A patch's mask in the window of another, 0 beyond."""
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
    """A displacement field ``(..., 2)`` in crop sides as photo pixels: turned and scaled as the crop lies in the photo.

    Args:
        displacement: x and y in sides of the crop.
        to_photo: ``(2, 3)`` from crop to photo pixels.
        size: pixels a side of the crop that ``to_photo`` belongs to.
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
    """One version of a photo: tone shifted, content moved, change of colour added, rounded; in this order.

    Args:
        photo: ``(H, W, 3)`` uint8 RGB.
        region: the window ``(h, w)`` and its masks.
        colour: ``(fh, fw, 3)`` levels in ``region.features``, weighted by the face's mask already.
        displacement: ``(fh, fw, 2)`` photo pixels (x, y) there from where a pixel's content is fetched, weighted by
            `inner_mask` already.
        tone: ``(h, w, 3)`` levels from ``models.tone.tone_changes``, weighted by ``region.skin`` already.

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
    """How much of a change ``(h, w, 3)`` each pixel takes, ``(h, w)`` in 0..1: less where it is large or would leave
    0..255.

    A lighter lip must not set teeth aglow, nor a darker lid blacken an eye.
    """
    light, change = luma(levels), luma(colour)
    room = np.where(change > 0, (LEVELS[1] - light) / ROOM, (light - LEVELS[0]) / ROOM)
    squares = np.einsum("hwc,hwc->hw", colour, colour) / np.float32(3 * LIGHT**2)
    return np.asarray(np.clip(room, 0, 1) / np.sqrt(1 + squares), dtype=np.float32)


def saturated(displacement: NDArray[np.float32], *, limit: float) -> NDArray[np.float32]:
    """A displacement ``(h, w, 2)`` whose length approaches ``limit`` instead of growing on."""
    squares = np.einsum("hwc,hwc->hw", displacement, displacement)[..., None] / np.float32(limit * limit)
    return np.asarray(displacement / np.sqrt(1 + squares), dtype=np.float32)


def inner_mask(mask: NDArray[np.float32], *, rim: float) -> NDArray[np.float32]:
    """The mask ``(h, w)`` falling to zero over ``rim`` pixels inside its edge (as ``models.residual.inner``)."""
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

    # Nothing is fetched from where there is no face, such as a strand of hair.
    moves = displacement * fetched(within, displacement, cv2.INTER_LINEAR)[..., None]
    moved = fetched(levels, moves, cv2.INTER_CUBIC)
    # Interpolation leaves a pixel that does not move as it is only up to rounding errors: take it as it is.
    np.copyto(moved, levels, where=((moves[..., 0] == 0) & (moves[..., 1] == 0))[..., None])
    return moved
