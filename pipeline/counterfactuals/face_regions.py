"""Label each pixel of a photo by the face parser: face, other skin, hair, clothes or background."""

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
# Region -> classes of the parser. Pixels outside its view, which reaches from the hair to the neck, are background.
REGIONS: dict[str, tuple[str, ...]] = {
    "background": ("background",),
    "face": ("skin", "brows", "eyes", "nose", "mouth", "lips", "eyeglasses"),
    "other skin": ("neck", "ears"),
    "hair": ("hair", "hat"),
    "clothes": ("cloth", "necklace", "earring"),
}


def region_maps(parser: "SmallParser | BiSeNet", subjects: Sequence[Subject]) -> list[NDArray[np.uint8]]:
    """Return the region of every pixel of each photo ``(H, W)``, as an index into ``REGIONS``."""
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
    """Return each region with its share of the absolute attribution and of the pixels.

    "Outside the face" is everything except the face.

    Args:
        attribution: ``(h, w)``; the shares are NaN if it is 0 everywhere.
        regions: ``(h, w)`` indices of regions in ``REGIONS``.
    """
    absolute = np.abs(attribution)
    weights = np.bincount(regions.ravel(), weights=absolute.ravel(), minlength=len(REGIONS))
    areas = np.bincount(regions.ravel(), minlength=len(REGIONS)) / regions.size
    shares = weights / weights.sum() if weights.sum() else np.full(len(REGIONS), np.nan)
    found = [(name, float(share), float(area)) for name, share, area in zip(REGIONS, shares, areas, strict=True)]
    face, area = next((share, area) for name, share, area in found if name == "face")
    return [*found, (OUTSIDE, 1 - face, 1 - area)]
