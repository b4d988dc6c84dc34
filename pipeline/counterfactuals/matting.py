"""Soft edges from the photo's own colours: how much of a pixel is skin, between the skin and the hair around it.

Pure functions over arrays. Colours of either side are means over what the parser is sure of near by (as trimap-based
matting has them: Wang and Cohen, "Image and Video Matting: A Survey", 2007).
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

DOUBT = 18.0  # levels: sides that are no farther apart in colour leave the parser's word alone
FAR = 12.0  # of CIELAB: what differs so much from skin is something else
OFF = 4.0  # how much more a squared distance from the line between both sides' colours counts
DETAIL = 3.0  # pixels a standard deviation is given at the resolution at which the means are taken


@dataclass(frozen=True)
class Matte:
    """A region's soft mask and its colour.

    ``mask`` ``(h, w)`` in 0..1; ``colour`` ``(h, w, 3)`` levels: the mean of what is surely in the region near by.
    """

    mask: NDArray[np.float32]
    colour: NDArray[np.float32]


def matted(membership: NDArray[np.float32], pixels: NDArray[np.uint8], *, reach: float) -> Matte:
    """Which share of each pixel a region covers, by where its colour lies between those of both sides.

    Args:
        membership: ``(h, w)`` in 0..1, blurred by a parser's coarse view.
        pixels: ``(h, w, 3)`` uint8 RGB.
        reach: pixels; the standard deviation of what is in doubt around the parser's edge.
    """
    height, width = membership.shape
    factor = min(1.0, DETAIL / max(reach, 1e-6))
    size = max(1, round(width * factor)), max(1, round(height * factor))
    photo = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA).astype(np.float32)
    known = cv2.resize(membership, size, interpolation=cv2.INTER_AREA)
    near = cv2.GaussianBlur(known, (0, 0), reach * factor)

    def mean(weights: NDArray[np.float32]) -> NDArray[np.float32]:
        total = cv2.GaussianBlur(weights, (0, 0), 2 * reach * factor)[..., None]
        overall = (photo * weights[..., None]).sum(axis=(0, 1)) / max(float(weights.sum()), 1e-6)
        sums = cv2.GaussianBlur(photo * weights[..., None], (0, 0), 2 * reach * factor)
        return np.asarray((sums + 1e-3 * overall) / (total + 1e-3), dtype=np.float32)

    region, beyond = mean(known * (near > 0.85)), mean((1 - known) * (near < 0.15))
    near, region, beyond = (
        cv2.resize(field, (width, height), interpolation=cv2.INTER_LINEAR) for field in (near, region, beyond)
    )
    apart, away = region - beyond, pixels - beyond
    power, along = np.einsum("hwc,hwc->hw", apart, apart), np.einsum("hwc,hwc->hw", away, apart)
    # A colour off the line between both sides, such as a collar's, is none of theirs: the parser's word counts.
    off = np.einsum("hwc,hwc->hw", away, away) - along * along / np.maximum(power, 1)
    doubt = DOUBT**2 + OFF * np.maximum(off, 0)
    share = (along + doubt * membership) / (power + doubt)
    # Colours decide where the parser is in doubt or may be a little off, not where it sees skin or none all around.
    mask = np.clip(np.clip(share, 2.5 * near - 1.5, 4 * near), 0, 1)
    return Matte(np.clip((mask - 0.04) / 0.92, 0, 1), region)


def unlike(pixels: NDArray[np.uint8], colour: NDArray[np.float32], *, smooth: float) -> NDArray[np.float32]:
    """How little each pixel looks like skin of the colour around it, ``(h, w)`` in 0..1: teeth, an eye, red lips.

    Args:
        pixels: ``(h, w, 3)`` uint8 RGB.
        colour: ``(h, w, 3)`` levels of the skin near by.
        smooth: pixels; the standard deviation of the Gaussian that single pixels are smoothed by.
    """
    own, skin = (
        cv2.cvtColor(np.asarray(field, dtype=np.float32) / 255, cv2.COLOR_RGB2LAB) for field in (pixels, colour)
    )
    shade = own[..., :1] / np.maximum(skin[..., :1], 1)
    tint = own[..., 1:] - shade * skin[..., 1:]  # skin in shade has less chroma, in proportion
    dark = np.maximum(0.55 * skin[..., 0] - own[..., 0], 0)
    far = np.sqrt((tint * tint).sum(axis=2) + dark * dark) / FAR
    return np.asarray(np.clip(cv2.GaussianBlur(far, (0, 0), smooth), 0, 1), dtype=np.float32)
