"""Which part of the person each pixel of a photo shows, by the face parser: face, skin, hair, clothes or background."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np
from numpy.typing import NDArray

from models.parser import CLASSES, class_indices
from pipeline.counterfactuals.editors.base import Subject
from pipeline.counterfactuals.mask import chances_of, parser_view

if TYPE_CHECKING:
    from models.parser import BiSeNet, SmallParser

OUTSIDE = "outside the face"
# Region -> classes of the parser. What lies outside its view, which reaches from the hair to the neck, is background.
REGIONS: dict[str, tuple[str, ...]] = {
    "background": ("background",),
    "face": ("skin", "brows", "eyes", "nose", "mouth", "lips", "eyeglasses"),
    "other skin": ("neck", "ears"),
    "hair": ("hair", "hat"),
    "clothes": ("cloth", "necklace", "earring"),
}


def region_maps(parser: "SmallParser | BiSeNet", subjects: Sequence[Subject]) -> list[NDArray[np.uint8]]:
    """The region of every pixel of each photo ``(H, W)``: its place in ``REGIONS``."""
    region_of = np.zeros(len(CLASSES), dtype=np.uint8)
    for place, classes in enumerate(REGIONS.values()):
        region_of[list(class_indices(classes))] = place
    maps = []
    for subject, chances in zip(subjects, chances_of(parser, subjects), strict=True):
        height, width = subject.pixels.shape[:2]
        shown = region_of[chances.argmax(axis=0)]
        view = parser_view(subject.landmarks, size=chances.shape[-1])
        flags = cv2.INTER_NEAREST | cv2.WARP_INVERSE_MAP
        maps.append(np.asarray(cv2.warpAffine(shown, view, (width, height), flags=flags), dtype=np.uint8))
    return maps


def region_shares(attribution: NDArray[np.float64], regions: NDArray[np.uint8]) -> list[tuple[str, float, float]]:
    """Region, its share of the absolute attribution, and of the pixels; "outside the face" is all but the face.

    Args:
        attribution: of each pixel ``(h, w)``; nowhere different from 0, it has no shares (NaN).
        regions: the place of each pixel's region in ``REGIONS`` ``(h, w)``.
    """
    absolute = np.abs(attribution)
    weights = np.bincount(regions.ravel(), weights=absolute.ravel(), minlength=len(REGIONS))
    areas = np.bincount(regions.ravel(), minlength=len(REGIONS)) / regions.size
    shares = weights / weights.sum() if weights.sum() else np.full(len(REGIONS), np.nan)
    found = [(name, float(share), float(area)) for name, share, area in zip(REGIONS, shares, areas, strict=True)]
    face, area = next((share, area) for name, share, area in found if name == "face")
    return [*found, (OUTSIDE, 1 - face, 1 - area)]
