"""Measures on pictures: luma, lightness, how two pictures differ inside a mask, how much the mask's edge shows.

Pure functions over arrays (and, for the losses of training, tensors); what is compared with what is decided elsewhere.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

LUMA = (0.299, 0.587, 0.114)  # Rec. 601: the weights of R, G and B
Image = TypeVar("Image", "NDArray[np.floating]", "Tensor")


def luma(image: NDArray[np.generic]) -> NDArray[np.float32]:
    """Rec. 601 luma ``(..., H, W)`` float32 of RGB ``(..., H, W, 3)``, in the levels of the picture."""
    return np.asarray(image.astype(np.float32, copy=False) @ np.array(LUMA, dtype=np.float32))


def batch_luma(images: "Tensor") -> "Tensor":
    """Rec. 601 luma ``(B, 1, H, W)`` of RGB ``(B, 3, H, W)``."""
    return (images * images.new_tensor(LUMA)[:, None, None]).sum(dim=1, keepdim=True)


def structural_similarity(one: Image, other: Image, mean: Callable[[Image], Image], *, levels: float) -> Image:
    """Structural similarity of two lumas at every window: 1 where they are the same.

    Args:
        one: the first picture's luma.
        other: the second's, of the same shape.
        mean: takes the mean over each window.
        levels: the largest value that a luma can have.

    Source: Wang et al. 2004, eq. 13, with k1 = 0.01 and k2 = 0.03.
    """
    c1, c2 = (0.01 * levels) ** 2, (0.03 * levels) ** 2
    mean_one, mean_other = mean(one), mean(other)
    variance_one = mean(one * one) - mean_one**2
    variance_other = mean(other * other) - mean_other**2
    covariance = mean(one * other) - mean_one * mean_other
    similarity = (2 * mean_one * mean_other + c1) * (2 * covariance + c2)
    similarity /= (mean_one**2 + mean_other**2 + c1) * (variance_one + variance_other + c2)
    return similarity


def psnr(
    one: NDArray[np.floating], other: NDArray[np.floating], mask: NDArray[np.float32], *, levels: float = 255.0
) -> float:
    """Peak signal-to-noise ratio in dB inside a mask; infinite where nothing differs, NaN where the mask is empty.

    Args:
        one: the first picture ``(H, W, 3)`` in 0..``levels``.
        other: the second, of the same shape and range.
        mask: weights ``(H, W)`` in 0..1.
        levels: the largest value that a pixel can have.
    """
    area = float(mask.sum())
    if area == 0:
        return float("nan")
    error = float((np.square(one - other).mean(axis=2) * mask).sum()) / area
    return float("inf") if error == 0 else float(10 * np.log10(levels**2 / error))


def ssim(
    one: NDArray[np.floating], other: NDArray[np.floating], mask: NDArray[np.float32], *, levels: float = 255.0
) -> float:
    """Structural similarity of the lumas in Gaussian windows (sigma 1.5), averaged inside a mask.

    Takes what `psnr` takes; 1 for the same picture, NaN where the mask is empty.
    """
    if not mask.any():
        return float("nan")
    similarity = structural_similarity(luma(one), luma(other), _gaussian_mean, levels=levels)
    return float((similarity * mask).sum() / float(mask.sum()))


def seam(photo: NDArray[np.uint8], version: NDArray[np.uint8], mask: NDArray[np.float32]) -> float:
    """How much the mask's edge shows: the gradient energy of luma along it, over that of the photo; 1 is no seam.

    Args:
        photo: a window of the photo ``(h, w, 3)``.
        version: the same window of the edited photo.
        mask: ``(h, w)`` in 0..1; its edge is where it rises, and a pixel to either side.
    """
    near = np.ones((3, 3), np.uint8)
    outermost = cv2.dilate((mask > 0).astype(np.uint8), near)
    innermost = cv2.erode((mask >= 1).astype(np.uint8), near, borderType=cv2.BORDER_CONSTANT, borderValue=0)
    edge = (outermost > 0) & (innermost == 0)
    before, after = (_gradient_energy(luma(image))[edge] for image in (photo, version))
    # One grey level a pixel keeps a flat wall's ratio from being noise over nothing.
    return float((after.sum() + edge.sum()) / (before.sum() + edge.sum())) if edge.any() else 1.0


def mean_lightness(pixels: NDArray[np.uint8], mask: NDArray[np.float32]) -> float:
    """Mean CIELAB L* (0-100) of RGB ``(h, w, 3)``, weighted by ``(h, w)``."""
    lab = cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    return float((lab[..., 0] * mask).sum() / max(float(mask.sum()), 1e-6))


def _gaussian_mean(image: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(cv2.GaussianBlur(image, (11, 11), 1.5, borderType=cv2.BORDER_REFLECT), dtype=np.float32)


def _gradient_energy(image: NDArray[np.float32]) -> NDArray[np.float32]:
    right = cv2.Scharr(image, cv2.CV_32F, 1, 0, scale=1 / 32)
    down = cv2.Scharr(image, cv2.CV_32F, 0, 1, scale=1 / 32)
    return np.asarray(right**2 + down**2, dtype=np.float32)
