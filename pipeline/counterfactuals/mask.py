"""The mask of a photo, and compositing: the face's region, its soft edge, adding or pasting an edit.

Photos are ``(H, W, 3)`` uint8 RGB; crops and changes ``(S, S, 3)`` float32 in pixel levels; masks float32 in 0..1.
"""

from collections.abc import Sequence
from typing import Protocol

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from models.alignment import invert, similarity_to_template, warp_to_template
from models.image_metrics import luma
from models.parser import BiSeNet, SmallParser, class_indices
from models.precision import compute, unit_batch
from pipeline.counterfactuals.editors.base import CROP, Composite, Patch, Subject

# The parser sees a little more than the editor, because hair and neck show where the face ends.
PARSER_ZOOM = 0.8


class View(Protocol):
    """The input region of a parser in a photo."""

    def __call__(self, landmarks: NDArray[np.float64], *, size: int) -> NDArray[np.float64]:
        """Return the ``(2, 3)`` transform from photo to the parser's input of ``size`` pixels a side."""
        ...


def parser_view(landmarks: NDArray[np.float64], *, size: int) -> NDArray[np.float64]:
    """Return the transform from photo to the parser's input: the template, zoomed out around its centre."""
    view = similarity_to_template(landmarks, size=size) * PARSER_ZOOM
    view[:, 2] += (1 - PARSER_ZOOM) * size / 2
    return view


@torch.inference_mode()
def chances_of(
    parser: SmallParser | BiSeNet, subjects: Sequence[Subject], *, view: View = parser_view
) -> NDArray[np.float32]:
    """Compute the parser's class probabilities ``(B, 19, S, S)`` in its view of each face, at its own resolution.

    Always in float32, because a large change makes a difference of one pixel in the mask visible.
    """
    size = parser.size
    images = [warp_to_template(s.pixels, view(s.landmarks, size=size), size=size) for s in subjects]
    network = parser.coarse if isinstance(parser, SmallParser) else parser
    logits = compute(network, unit_batch(images), network=parser, half=False)
    return np.asarray(logits.softmax(dim=1).numpy(), dtype=np.float32)


def patches_of(
    parser: SmallParser | BiSeNet,
    subjects: Sequence[Subject],
    *,
    region: Sequence[str],
    feather_share: float,
    within_crop: bool = False,
) -> list[Patch | None]:
    """Find where each face may change with a parser; see ``patches_from``."""
    chances = chances_of(parser, subjects)
    return patches_from(chances, subjects, region=region, feather_share=feather_share, within_crop=within_crop)


def patches_from(
    chances: NDArray[np.float32],
    subjects: Sequence[Subject],
    *,
    region: Sequence[str],
    feather_share: float,
    within_crop: bool = False,
) -> list[Patch | None]:
    """Find where each face may change: its region of the given classes, feathered inwards, in photo pixels.

    Args:
        chances: result of ``chances_of`` for the same subjects.
        region: class or group names of ``models.parser``.
        feather_share: width of the soft edge in crop sides.
        within_crop: exclude pixels beyond the Fader network's crop, such as a high forehead. A change can be
            extended beyond the crop's edge, but a decoded face cannot.

    Returns:
        One patch per face; None if no pixel of the region was found.
    """
    views = [parser_view(subject.landmarks, size=chances.shape[-1]) for subject in subjects]
    inside = chances[:, list(class_indices(region))].sum(axis=1)
    patches = []
    for subject, view, membership in zip(subjects, views, inside, strict=True):
        if within_crop:
            membership = _within_crop(membership, view, subject.to_crop)
        patch = locate(membership, to_photo=invert(view), shape=subject.shape)
        if patch is not None:
            soft = feather(patch.mask, pixels=feather_share * subject.crop_side)
            patch = trimmed(Patch(patch.top, patch.left, soft))
        patches.append(patch)
    return patches


def locate(region: NDArray[np.float32], *, to_photo: NDArray[np.float64], shape: tuple[int, int]) -> Patch | None:
    """Map a crop's region to the photo and cut it to the smallest window that contains it.

    Args:
        region: ``(S, S)`` soft membership in 0..1 in crop pixels.
        to_photo: ``(2, 3)`` from crop to photo pixels.
        shape: height and width of the photo.

    Returns:
        The patch with the membership as its mask, or None if the region is outside the photo.
    """
    height, width = shape
    side = region.shape[0]
    # Bilinear sampling reaches one pixel beyond the outermost pixel centres.
    corners = np.array([[x, y, 1] for x in (-1, side) for y in (-1, side)], dtype=np.float64) @ to_photo.T
    left, top = np.floor(corners.min(axis=0)).astype(int).clip(0)
    right, bottom = np.minimum(np.ceil(corners.max(axis=0)).astype(int) + 1, (width, height))
    if right <= left or bottom <= top:
        return None
    mask = warp_into(region, to_photo=to_photo, window=(top, left, bottom - top, right - left), border=0.0)
    return trimmed(Patch(top=int(top), left=int(left), mask=mask))


def trimmed(patch: Patch) -> Patch | None:
    """Return the smallest patch that contains the mask, or None if the mask is zero everywhere."""
    rows, columns = np.flatnonzero(patch.mask.max(axis=1) > 0), np.flatnonzero(patch.mask.max(axis=0) > 0)
    if not len(rows):
        return None
    inside = patch.mask[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    return Patch(patch.top + int(rows[0]), patch.left + int(columns[0]), np.ascontiguousarray(inside))


def widened(patch: Patch, *, shape: tuple[int, int]) -> Patch:
    """Extend the patch by one pixel to every side, within the photo of height and width ``shape``."""
    rows, columns = patch.window
    top, left = max(0, rows.start - 1), max(0, columns.start - 1)
    bottom, right = min(shape[0], rows.stop + 1), min(shape[1], columns.stop + 1)
    more = ((rows.start - top, bottom - rows.stop), (columns.start - left, right - columns.stop))
    return Patch(top, left, np.pad(patch.mask, more))


def warp_into(
    crop: NDArray[np.float32],
    *,
    to_photo: NDArray[np.float64],
    window: tuple[int, int, int, int],
    border: float | None = None,
) -> NDArray[np.float32]:
    """Warp ``crop`` bilinearly to a window (top, left, height, width) of the photo; outside the crop use ``border`` or
    repeat its edge."""
    top, left, height, width = window
    shifted = to_photo.copy()
    shifted[:, 2] -= (left, top)
    mode = cv2.BORDER_REPLICATE if border is None else cv2.BORDER_CONSTANT
    warped = cv2.warpAffine(
        crop, shifted, (width, height), flags=cv2.INTER_LINEAR, borderMode=mode, borderValue=border or 0
    )
    return np.asarray(warped, dtype=np.float32)


def feather(membership: NDArray[np.float32], *, pixels: float) -> NDArray[np.float32]:
    """Return a mask that rises from 0 at the region's edge to 1 ``pixels`` inside it.

    The edge is not softened outwards, which would change hair and background.
    """
    inside = (membership >= 0.5).astype(np.uint8)
    if pixels < 0.5:
        return inside.astype(np.float32)
    # With one pixel of padding the window's edge counts as an edge of the region.
    distance = cv2.distanceTransform(cv2.copyMakeBorder(inside, 1, 1, 1, 1, cv2.BORDER_CONSTANT), cv2.DIST_L2, 3)
    ramp = np.clip(distance[1:-1, 1:-1] / pixels, 0, 1)
    smooth = ramp * ramp * (3 - 2 * ramp)
    return np.asarray(smooth * inside, dtype=np.float32)


def crop_mask(subject: Subject, patch: Patch) -> NDArray[np.float32]:
    """Map the patch's mask to the aligned crop, ``(128, 128)`` in 0..1."""
    from_patch = subject.to_crop.copy()
    from_patch[:, 2] += from_patch[:, :2] @ (patch.left, patch.top)
    mask = cv2.warpAffine(patch.mask, from_patch, (CROP, CROP), flags=cv2.INTER_LINEAR)
    return np.asarray(mask, dtype=np.float32)


def to_patch(image: NDArray[np.float32], subject: Subject, patch: Patch) -> NDArray[np.float32]:
    """Map a crop-sized image ``(128, 128, 3)`` to the patch of the photo, ``(h, w, 3)``."""
    height, width = patch.mask.shape
    return warp_into(image, to_photo=invert(subject.to_crop), window=(patch.top, patch.left, height, width))


def add_change(photo: NDArray[np.uint8], patch: Patch, change: NDArray[np.float32]) -> Composite:
    """Composite in mode ``delta``: the photo plus ``mask * change`` ``(h, w, 3)``, which keeps the photo's texture."""
    return replaced(
        photo,
        patch.window,
        photo[patch.window].astype(np.float32) + patch.mask[..., None] * change,
        patch.mask > 0,
    )


def paste(photo: NDArray[np.uint8], patch: Patch, face: NDArray[np.float32]) -> Composite:
    """Composite in mode ``reconstruction``: blend the decoded face ``(h, w, 3)`` over the photo by the mask."""
    mask = patch.mask[..., None]
    return replaced(photo, patch.window, photo[patch.window] * (1 - mask) + mask * face, patch.mask > 0)


def replaced(
    photo: NDArray[np.uint8], window: tuple[slice, slice], levels: NDArray[np.float32], inside: NDArray[np.bool_]
) -> Composite:
    """Replace the window of the photo by rounded ``levels`` ``(h, w, 3)`` where ``inside`` ``(h, w)``, so that rounding
    changes no pixel outside the mask."""
    rounded = np.rint(levels)
    limited = np.clip(rounded, 0, 255)
    clipped = int((_any_channel(rounded != limited) & inside).sum())
    changed = photo.copy()
    cv2.copyTo(limited.astype(np.uint8), inside.view(np.uint8), changed[window])  # 40 times as fast as NumPy's
    return Composite(changed, clipped / max(1, int(inside.sum())))


def is_grey(pixels: NDArray[np.uint8]) -> bool:
    """Whether all pixels of ``(h, w, 3)`` are grey within two levels."""
    if not pixels.size:
        return True
    red, green, blue = cv2.split(pixels)
    return all(int(cv2.absdiff(*pair).max()) <= 2 for pair in ((red, green), (green, blue), (blue, red)))


def without_colour(change: NDArray[np.float32]) -> NDArray[np.float32]:
    """Reduce a change to its luma in all three channels, so that a grey photo stays grey."""
    return np.repeat(luma(change)[..., None], 3, axis=2)


def background_kept(photo: NDArray[np.uint8], version: NDArray[np.uint8], patch: Patch) -> float:
    """Return the share of pixels outside the mask that are equal in version and photo."""
    differs = _any_channel(photo != version)
    inside = patch.mask > 0
    changed_outside = int(differs.sum()) - int((differs[patch.window] & inside).sum())
    return 1.0 - changed_outside / max(1, differs.size - int(inside.sum()))


def _any_channel(flags: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Whether any of three channels ``(h, w, 3)`` is set; ten times as fast as ``any`` along the last axis."""
    return np.asarray(flags[..., 0] | flags[..., 1] | flags[..., 2])


def _within_crop(
    membership: NDArray[np.float32], view: NDArray[np.float64], to_crop: NDArray[np.float64]
) -> NDArray[np.float32]:
    """Set the membership to zero outside the Fader network's crop."""
    size = membership.shape[0]
    full = np.vstack([to_crop, [0, 0, 1]]) @ np.linalg.inv(np.vstack([view, [0, 0, 1]]))
    rows, columns = np.mgrid[0:size, 0:size]
    places = full[:2] @ np.stack([columns.ravel(), rows.ravel(), np.ones(size * size)])
    reach = (np.abs(places - (CROP - 1) / 2) <= CROP / 2 - 1).all(axis=0).reshape(size, size)
    return np.where(reach, membership, 0).astype(np.float32)
