"""How near one picture of a face is to another inside a mask, and whether the mask's edge shows.

Pure functions over arrays; what is compared with what is decided where the versions are made.
"""

import cv2
import numpy as np
from numpy.typing import NDArray

LUMA = np.array([0.299, 0.587, 0.114], dtype=np.float32)


def psnr(
    one: NDArray[np.floating], other: NDArray[np.floating], mask: NDArray[np.float32], *, levels: float = 255.0
) -> float:
    """Peak signal-to-noise ratio in dB inside a mask; infinite where nothing differs, NaN where the mask is empty.

    Args:
        one, other: ``(H, W, 3)`` in 0..``levels``.
        mask: ``(H, W)`` weights in 0..1.
        levels: the largest value.
    """
    area = float(mask.sum())
    if area == 0:
        return float("nan")
    error = float((np.square(one - other).mean(axis=2) * mask).sum()) / area
    return float("inf") if error == 0 else float(10 * np.log10(levels**2 / error))


def ssim(
    one: NDArray[np.floating], other: NDArray[np.floating], mask: NDArray[np.float32], *, levels: float = 255.0
) -> float:
    """Structural similarity of the lumas, averaged inside a mask: 1 for the same picture. NaN where the mask is empty.

    Gaussian windows of sigma 1.5, k1 = 0.01, k2 = 0.03. Source: Wang et al. 2004, eq. 13.

    Args:
        one, other: ``(H, W, 3)`` in 0..``levels``.
        mask: ``(H, W)`` weights in 0..1.
        levels: the largest value.
    """
    area = float(mask.sum())
    if area == 0:
        return float("nan")
    x, y = (image.astype(np.float32) @ LUMA for image in (one, other))
    mean_x, mean_y = _window(x), _window(y)
    variance_x = _window(x * x) - mean_x**2
    variance_y = _window(y * y) - mean_y**2
    covariance = _window(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * levels) ** 2, (0.03 * levels) ** 2
    similarity = (2 * mean_x * mean_y + c1) * (2 * covariance + c2)
    similarity /= (mean_x**2 + mean_y**2 + c1) * (variance_x + variance_y + c2)
    return float((similarity * mask).sum() / area)


def seam(photo: NDArray[np.uint8], version: NDArray[np.uint8], mask: NDArray[np.float32]) -> float:
    """How much the mask's edge shows: the gradient energy of luma along it, over that of the photo; 1 is no seam.

    Args:
        photo, version: ``(h, w, 3)`` the same window.
        mask: ``(h, w)`` in 0..1; its edge is where it rises, and a pixel to either side.
    """
    near = np.ones((3, 3), np.uint8)
    outermost = cv2.dilate((mask > 0).astype(np.uint8), near)
    innermost = cv2.erode((mask >= 1).astype(np.uint8), near, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    edge = (outermost > 0) & (innermost == 0)
    before, after = (_gradient_energy(image.astype(np.float32) @ LUMA)[edge] for image in (photo, version))
    # One grey level a pixel keeps a flat wall's ratio from being noise over nothing.
    return float((after.sum() + edge.sum()) / (before.sum() + edge.sum())) if edge.any() else 1.0


def _window(image: NDArray[np.float32]) -> NDArray[np.float32]:
    return np.asarray(cv2.GaussianBlur(image, (11, 11), 1.5, borderType=cv2.BORDER_REFLECT), dtype=np.float32)


def _gradient_energy(luma: NDArray[np.float32]) -> NDArray[np.float32]:
    right = cv2.Scharr(luma, cv2.CV_32F, 1, 0, scale=1 / 32)
    down = cv2.Scharr(luma, cv2.CV_32F, 0, 1, scale=1 / 32)
    return np.asarray(right**2 + down**2, dtype=np.float32)
