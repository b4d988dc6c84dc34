"""Measurements of a version while its pixels are in memory: the skin's colour, and where in the face it changed.

The measures are in ``measures``; thresholds are applied in ``checks``.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.alignment import warp_to_template
from models.parser import class_indices
from pipeline.counterfactuals.editors.base import CROP, Subject
from pipeline.counterfactuals.mask import parser_view
from pipeline.counterfactuals.measures import asymmetry, concentration, lab, median_colour, shift_gap

FACE, NECK = ("skin", "nose"), ("neck", "l_ear", "r_ear")
SIDE = 112  # side in pixels of the view in which colours are measured; enough for a median
SURE = 0.9  # the parser's probability above which a pixel belongs to a part
SKIN = ("skin_l", "skin_a", "skin_b")


@dataclass(frozen=True)
class Reference:
    """A photo prepared for comparison with its versions.

    Attributes:
        subject: the face.
        light: ``(128, 128)`` L* of the aligned crop.
        mask: ``(128, 128)`` where the crop may change.
        view: transform from the photo to the square of `SIDE` pixels in which colours are measured.
        parts: flat indices in the view of certain pixels of the face's skin, and of neck or ears.
        colours: ``(2, 3)`` the median CIELAB of both; NaN if too little is visible.
    """

    subject: Subject
    light: NDArray[np.float32]
    mask: NDArray[np.float32]
    view: NDArray[np.float64]
    parts: tuple[NDArray[np.intp], ...]
    colours: NDArray[np.float64]

    def figures(self, pixels: NDArray[np.uint8], crop: NDArray[np.uint8]) -> dict[str, float]:
        """Return the columns of the counterfactuals table for a version, without figures that cannot be measured.

        Args:
            pixels: ``(H, W, 3)`` uint8, the version.
            crop: ``(128, 128, 3)`` its aligned crop.
        """
        colours = _colours(pixels, self.view, self.parts)
        face, neck = ((self.colours[part][None], colours[part][None]) for part in (0, 1))
        gap = shift_gap((face[0], neck[0]), (face[1], neck[1]))[0]
        change = (lab(crop)[..., 0] - self.light)[None], self.mask[None]
        found = dict(zip(SKIN, colours[0].tolist(), strict=True)) | {"neck_gap": float(gap)}
        found |= {"concentration": float(concentration(*change)[0]), "asymmetry": float(asymmetry(*change)[0])}
        return {name: figure for name, figure in found.items() if not np.isnan(figure)}


def references(
    subjects: Sequence[Subject], chances: NDArray[np.float32], masks: NDArray[np.float32]
) -> list[Reference]:
    """Prepare the photos of a chunk for comparison with their versions.

    Args:
        subjects: ``B`` faces.
        chances: ``(B, 19, size, size)`` the parser's probabilities in its view of each face.
        masks: ``(B, 128, 128)`` where each crop may change.
    """
    size = chances.shape[-1]
    rows = np.arange(SIDE) * size // SIDE
    shown = chances[:, :, rows[:, None], rows]
    sure = [shown[:, list(class_indices(names))].sum(axis=1) > SURE for names in (FACE, NECK)]
    found = []
    for subject, mask, *both in zip(subjects, masks, *sure, strict=True):
        view = parser_view(subject.landmarks, size=SIDE)
        light = lab(warp_to_template(subject.pixels, subject.to_crop, size=CROP))[..., 0]
        parts = tuple(map(np.flatnonzero, both))
        found.append(Reference(subject, light, mask, view, parts, _colours(subject.pixels, view, parts)))
    return found


def _colours(
    pixels: NDArray[np.uint8], view: NDArray[np.float64], parts: Sequence[NDArray[np.intp]]
) -> NDArray[np.float64]:
    seen = warp_to_template(pixels, view, size=SIDE).reshape(-1, 3)
    return np.array([median_colour(seen[part]) for part in parts])
