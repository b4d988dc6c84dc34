"""Operations on the square canvas on which photos are blended: warping, smoothing, morphology, colours.

Fields are ``(S, S)`` or ``(S, S, C)`` float32, where ``S`` is `SIDE`; colours are L*a*b*.
"""

from collections.abc import Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

Field = NDArray[np.float32]

SIDE = 320
X, Y = np.meshgrid(np.arange(SIDE, dtype=np.float32), np.arange(SIDE, dtype=np.float32))


def to_lab(rgb: NDArray[np.uint8]) -> Field:
    """Convert uint8 RGB to L*a*b*, L in 0-100."""
    return np.asarray(cv2.cvtColor(rgb.astype(np.float32) / 255, cv2.COLOR_RGB2LAB), dtype=np.float32)


def to_rgb(lab: Field) -> NDArray[np.uint8]:
    """Convert L*a*b* to uint8 RGB."""
    rgb = np.rint(cv2.cvtColor(lab, cv2.COLOR_LAB2RGB) * 255)
    return np.asarray(np.clip(rgb, 0, 255), dtype=np.uint8)


def studio_wall(*, lightness: float, chroma: float, hue: float) -> Field:
    """Draw a plain wall in L*a*b*, darker towards the corners; ``hue`` in radians."""
    distance = ((X - SIDE * 0.5) ** 2 + (Y - SIDE * 0.45) ** 2) / SIDE**2
    shade = lightness - 17 * distance + 3 * (X / SIDE - 0.5)
    flat = np.ones_like(shade)
    return np.stack([shade, chroma * np.cos(hue) * flat, chroma * np.sin(hue) * flat], axis=-1).astype(np.float32)


def warp(image: Field, flow: Field, *, beyond: int | None = None) -> Field:
    """Sample ``image`` at each pixel plus ``flow`` ``(S, S, 2)``; outside the canvas use its border, or ``beyond``."""
    border = cv2.BORDER_REPLICATE if beyond is None else cv2.BORDER_CONSTANT
    how = cv2.INTER_CUBIC if image.ndim == 3 and image.shape[2] == 3 else cv2.INTER_LINEAR
    moved = cv2.remap(image, X + flow[..., 0], Y + flow[..., 1], how, borderMode=border, borderValue=beyond or 0)
    return np.asarray(moved, dtype=np.float32)


def largest_part(mask: NDArray[np.bool_]) -> Field:
    """Return 1 in the largest connected part of ``mask``, else 0."""
    _, parts, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    return np.asarray(parts == 1 + stats[1:, cv2.CC_STAT_AREA].argmax(), dtype=np.float32)


def mean_where(values: Field, weights: Field) -> Field:
    """Return the weighted mean ``(C,)`` of ``values`` ``(S, S, C)``."""
    return np.asarray((values * weights[..., None]).sum(axis=(0, 1)) / (weights.sum() + 1e-6), dtype=np.float32)


def spread(values: Field, known: Field, *, reach: Sequence[float] = (40, 16, 6), fill: bool = True) -> Field:
    """Extend ``values`` from where they are ``known`` to the rest; without ``fill``, only their smooth part."""
    result = np.zeros_like(values) + mean_where(values, known)
    for sigma in reach:
        near = blur(known, sigma)[..., None]
        local = blur(values * known[..., None], sigma) / (near + 1e-5)
        result += np.clip(4 * near, 0, 1) * (local - result)
    return result + np.clip(1.5 * known, 0, 1)[..., None] * (values - result) if fill else result


def blur(image: Field, sigma: float) -> Field:
    """Blur with a Gaussian of ``sigma`` pixels."""
    return np.asarray(cv2.GaussianBlur(image, (0, 0), sigma), dtype=np.float32)


def eroded(mask: Field, size: int) -> Field:
    """Erode ``mask`` by ``size / 2`` pixels; the area beyond the canvas counts as outside."""
    return np.asarray(cv2.erode(mask.astype(np.float32), _disc(size), borderValue=0), dtype=np.float32)


def dilated(mask: Field, size: int) -> Field:
    """Dilate ``mask`` by ``size / 2`` pixels."""
    return np.asarray(cv2.dilate(mask.astype(np.float32), _disc(size)), dtype=np.float32)


def _disc(size: int) -> NDArray[np.uint8]:
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size)))
