"""The parts of a face that an edit of features keeps: teeth and eyes, highlights, open mouths."""

from dataclasses import replace

import cv2
import numpy as np
from numpy.typing import NDArray

from models.alignment import invert
from models.attributes import class_indices
from models.tone import REACH, smooth_lightness
from pipeline.counterfactuals.editors.base import Patch, Subject
from pipeline.counterfactuals.mask import PARSER_ZOOM, locate, parser_view

# Shares of light and colour that are kept: teeth, the white of the eye and the iris do not differ between groups.
KEPT = {"mouth": 0.85, "eyes": 0.5}
# Lightness relative to the surrounding skin at which a highlight starts, and at which it is not darkened by features in
# edits of skin tone: it shows the lamp's colour, and a darker reflection is a grey patch.
HIGHLIGHT = (1.1, 1.25)
STILL_REACH = 0.04  # crop sides around an open mouth with hardly any displacement, so that teeth do not grow


def kept_parts(subject: Subject, chances: NDArray[np.float32]) -> Patch | None:
    """Return the share of light and colour that each pixel keeps, from the parser's near view."""
    membership = sum(share * chances[list(class_indices((name,)))].sum(axis=0) for name, share in KEPT.items())
    view = parser_view(subject.landmarks, size=chances.shape[-1])
    return locate(np.asarray(membership, dtype=np.float32), to_photo=invert(view), shape=subject.shape)


def highlights(subject: Subject, face: Patch | None) -> Patch | None:
    """Return the share of each pixel of a face that is a highlight, by its lightness next to that of nearby skin."""
    if face is None:
        return None
    pixels = subject.pixels[face.window]
    lightness = cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)[..., 0]
    around = smooth_lightness(pixels, face.mask, reach=REACH * subject.crop_side)
    return replace(face, mask=np.interp(lightness / np.maximum(around, 1), HIGHLIGHT, (0, 1)).astype(np.float32))


def open_mouth(subject: Subject, chances: NDArray[np.float32]) -> Patch | None:
    """Return the share of displacement to suppress at each pixel, from the parser's near view: all in an open mouth."""
    size = chances.shape[-1]
    inside = chances[list(class_indices(("mouth",)))].sum(axis=0)
    view = parser_view(subject.landmarks, size=size)
    spread = cv2.GaussianBlur(inside, (0, 0), STILL_REACH * size * PARSER_ZOOM)
    still = np.clip(np.maximum(inside, 3 * spread - 0.1), 0, 1)
    return locate(np.asarray(still, dtype=np.float32), to_photo=invert(view), shape=subject.shape)
