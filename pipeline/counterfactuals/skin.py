"""All visible skin of a face in its photo, ears and neck included, and its colour, for shifts of tone."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.alignment import invert, similarity_to_template
from models.attributes import CLASSES, class_indices
from models.parser import BiSeNet, SmallParser
from models.tone import median_colour, shown_and_spared
from pipeline.counterfactuals.editors.base import Patch, Subject
from pipeline.counterfactuals.mask import chances_of, is_grey, locate, parser_view, trimmed
from pipeline.counterfactuals.matting import matted, unlike
from pipeline.counterfactuals.region import merged_region, within

WIDE, LOWERED = 0.42, 0.12  # scale of the wide view, and the share of its side by which it is lower
SMOOTH = 0.006  # crop sides: standard deviation of the smoothing of `matting.unlike`
EDGE_REACH = 0.03  # crop sides: standard deviation of the uncertain zone around the parser's edge of the skin


@dataclass(frozen=True)
class Skin:
    """A face's visible skin.

    Attributes:
        patch: weight of a tone shift at each pixel of the photo.
        colour: ``(3,)`` the skin's median CIELAB.
    """

    patch: Patch
    colour: NDArray[np.float64]


def wide_view(landmarks: NDArray[np.float64], *, size: int) -> NDArray[np.float64]:
    """Return the transform to a parser's input with ears, neck and shoulders: ``parser_view``, zoomed out and lower."""
    view = similarity_to_template(landmarks, size=size) * WIDE
    view[:, 2] += (1 - WIDE) * size / 2
    view[1, 2] -= LOWERED * size
    return view


def visible_skin(subject: Subject, near: NDArray[np.float32], wide: NDArray[np.float32]) -> Skin | None:
    """Find all visible skin of a face, ears and neck included, from the near view and, outside it, the wide view.

    Args:
        subject: the face.
        near: ``(19, size, size)`` the parser's probabilities in the near view.
        wide: the same in the wide one.
    """
    size = near.shape[-1]
    views = [view(subject.landmarks, size=size) for view in (parser_view, wide_view)]
    # The near view, which shows more detail, is used inside it and blends into the wide view towards its edge. The
    # shift fades out towards the edge of the wide view.
    inner, outer = _frame(size, width=0.06), _frame(size, width=0.10)
    near_shown, near_spared = shown_and_spared(near, CLASSES) * inner
    wide_shown = shown_and_spared(wide, CLASSES)[0] * outer
    near_face, near_frame, wide_face, spared = (
        locate(field, to_photo=invert(view), shape=subject.shape)
        for field, view in ((near_shown, views[0]), (inner, views[0]), (wide_shown, views[1]), (near_spared, views[0]))
    )
    region = merged_region(near_face, wide_face)
    if region is None:
        return None
    face = region.face + (1 - within(near_frame, region.patch)) * region.skin
    window = subject.pixels[region.window]
    matte = matted(face, window, reach=EDGE_REACH * subject.crop_side)
    less = within(spared, region.patch)
    # The parser's lips, eyes and mouths extend over their surroundings, where the photo's colours decide.
    if not is_grey(window):
        less = less * unlike(window, matte.colour, smooth=SMOOTH * subject.crop_side)
    patch = trimmed(Patch(region.top, region.left, matte.mask * (1 - less)))
    colour = skin_colour(subject, near)
    return None if patch is None or colour is None else Skin(patch, colour)


def skin_colour(subject: Subject, near: NDArray[np.float32]) -> NDArray[np.float64] | None:
    """Return the median CIELAB ``(3,)`` of a face's skin from the parser's near view; None if too little is visible."""
    skin = near[list(class_indices(("skin", "nose")))].sum(axis=0)
    view = parser_view(subject.landmarks, size=near.shape[-1])
    sure = locate(skin, to_photo=invert(view), shape=subject.shape)
    return None if sure is None else median_colour(subject.pixels[sure.window], sure.mask)


def skin_lightness(parser: SmallParser | BiSeNet, subject: Subject) -> float | None:
    """Return the median L* of a face's skin as used by the editor; None if too little is visible."""
    colour = skin_colour(subject, chances_of(parser, [subject])[0])
    return None if colour is None else float(colour[0])


def _frame(size: int, *, width: float) -> NDArray[np.float32]:
    """Return a square of ones that falls to 0 at its border over ``width`` of its side."""
    ramp = np.clip(np.minimum(np.arange(size), np.arange(size)[::-1]) / (width * size), 0, 1).astype(np.float32)
    return np.minimum.outer(ramp, ramp)
