"""Matting: soft edges of the skin from the photo's own colours.

Pure functions over arrays. The colours of both sides are means over nearby pixels of which the parser is certain, as in
trimap-based matting (Wang and Cohen, "Image and Video Matting: A Survey", 2007).
"""

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from models.image_metrics import channel_product

DOUBT = 18.0  # levels: for sides closer than this in colour, the parser decides
FAR = 12.0  # CIELAB distance from skin at which a pixel counts as something else
OFF = 4.0  # weight of the squared distance from the line between both sides' colours
DETAIL = 3.0  # standard deviation in pixels at the resolution at which means are computed


@dataclass(frozen=True)
class Matte:
    """A region's soft mask and its colour.

    ``mask`` ``(h, w)`` in 0..1; ``colour`` ``(h, w, 3)`` levels: the mean of nearby pixels that are certainly in the
    region.
    """

    mask: NDArray[np.float32]
    colour: NDArray[np.float32]


def matted(membership: NDArray[np.float32], pixels: NDArray[np.uint8], *, reach: float) -> Matte:
    """Estimate the share of each pixel that a region covers, from the position of its colour between both sides.

    Args:
        membership: ``(h, w)`` in 0..1, blurred by a parser's coarse view.
        pixels: ``(h, w, 3)`` uint8 RGB.
        reach: standard deviation in pixels of the uncertain zone around the parser's edge.
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
    power, along = channel_product(apart, apart), channel_product(away, apart)
    # A colour off the line between both sides, such as a collar's, belongs to neither; the parser decides.
    off = channel_product(away, away) - along * along / np.maximum(power, 1)
    doubt = DOUBT**2 + OFF * np.maximum(off, 0)
    share = (along + doubt * membership) / (power + doubt)
    # Colours decide only near the parser's edge, not where all surroundings are skin or none are.
    mask = np.clip(np.clip(share, 2.5 * near - 1.5, 4 * near), 0, 1)
    return Matte(np.clip((mask - 0.04) / 0.92, 0, 1), region)


def unlike(pixels: NDArray[np.uint8], colour: NDArray[np.float32], *, smooth: float) -> NDArray[np.float32]:
    """Measure how much each pixel differs from the surrounding skin, ``(h, w)`` in 0..1, as teeth, eyes and lips do.

    Args:
        pixels: ``(h, w, 3)`` uint8 RGB.
        colour: ``(h, w, 3)`` levels of nearby skin.
        smooth: standard deviation of the smoothing Gaussian in pixels.
    """
    own, skin = (
        cv2.cvtColor(np.asarray(field, dtype=np.float32) / 255, cv2.COLOR_RGB2LAB) for field in (pixels, colour)
    )
    shade = own[..., :1] / np.maximum(skin[..., :1], 1)
    tint = own[..., 1:] - shade * skin[..., 1:]  # skin in shade has less chroma, in proportion
    dark = np.maximum(0.55 * skin[..., 0] - own[..., 0], 0)
    far = np.sqrt((tint * tint).sum(axis=2) + dark * dark) / FAR
    return np.asarray(np.clip(cv2.GaussianBlur(far, (0, 0), smooth), 0, 1), dtype=np.float32)
