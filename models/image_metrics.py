"""Image metrics: luma, lightness, PSNR and SSIM inside a mask, visibility of the mask's edge.

Pure functions over arrays and, for training losses, tensors.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import cv2
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

SEAM_FACE = 128  # side in pixels of a face's crop at which seams are measured; smaller photos at their own size
VISIBLE = 2.0  # levels: a step along a line that people see on smooth skin
SHADING = 5.0  # levels: steps of smooth skin at the scale of a seam
TOLERATED = 3.0  # multiple of its own size by which a photo's edge may grow or shrink without being a seam
LUMA = (0.299, 0.587, 0.114)  # Rec. 601: the weights of R, G and B
Image = TypeVar("Image", "NDArray[np.floating]", "Tensor")


def luma(image: NDArray[np.generic]) -> NDArray[np.float32]:
    """Return Rec. 601 luma ``(..., H, W)`` float32 of RGB ``(..., H, W, 3)``, in the levels of the image."""
    return np.asarray(image.astype(np.float32, copy=False) @ np.array(LUMA, dtype=np.float32))


def batch_luma(images: "Tensor") -> "Tensor":
    """Return Rec. 601 luma ``(B, 1, H, W)`` of RGB ``(B, 3, H, W)``."""
    return (images * images.new_tensor(LUMA)[:, None, None]).sum(dim=1, keepdim=True)


def channel_product(one: NDArray[np.float32], other: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the scalar product ``(H, W)`` of each pixel's three channels in two images ``(H, W, 3)``."""
    return np.asarray(cv2.transform(one * other, np.ones((1, 3), dtype=np.float32)))


def structural_similarity(one: Image, other: Image, mean: Callable[[Image], Image], *, levels: float) -> Image:
    """Return the structural similarity of two luma images in every window; 1 where they are equal.

    Args:
        one: luma of the first image.
        other: luma of the second, of the same shape.
        mean: computes the mean over each window.
        levels: the largest possible luma.

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
    """Return the peak signal-to-noise ratio in dB inside a mask; infinite for equal images, NaN for an empty mask.

    Args:
        one: the first image ``(H, W, 3)`` in 0..``levels``.
        other: the second, of the same shape and range.
        mask: weights ``(H, W)`` in 0..1.
        levels: the largest possible pixel value.
    """
    area = float(mask.sum())
    if area == 0:
        return float("nan")
    error = float((np.square(one - other).mean(axis=2) * mask).sum()) / area
    return float("inf") if error == 0 else float(10 * np.log10(levels**2 / error))


def ssim(
    one: NDArray[np.floating], other: NDArray[np.floating], mask: NDArray[np.float32], *, levels: float = 255.0
) -> float:
    """Return the structural similarity in Gaussian windows (sigma 1.5), averaged inside a mask.

    Arguments as of `psnr`. 1 for equal images, NaN for an empty mask.
    """
    if not mask.any():
        return float("nan")
    similarity = structural_similarity(luma(one), luma(other), _gaussian_mean, levels=levels)
    return float((similarity * mask).sum() / float(mask.sum()))


@dataclass(frozen=True, eq=False)
class MaskEdge:
    """The edge of a mask in a photo, and the strength of the photo's own edges there; see `mask_edge`.

    Attributes:
        photo: window of the photo ``(h, w, 3)`` uint8, scaled so that a face has at most `SEAM_FACE` pixels a side.
        outline: ``(h, w)`` the pixels on either side of the mask's outermost edge.
        band: ``(h, w)`` the outline and the mask's soft edge inside it.
        reach: pixels within which a step in the band belongs to the outline next to it.
        sigma: pixels, the scale at which steps are measured.
        allowed: ``(h, w)`` levels by which a version may step because of the photo's own edges.
    """

    photo: NDArray[np.uint8]
    outline: NDArray[np.bool_]
    band: NDArray[np.bool_]
    reach: int
    sigma: float
    allowed: NDArray[np.float32]

    def share_shown(self, version: NDArray[np.uint8]) -> float:
        """Return the share of the outline at which the change steps although the photo does not; 0 means no seam.

        Args:
            version: the same window of the edited photo, unscaled.
        """
        if not self.outline.any():
            return 0.0
        small = _fitted(version, self.photo.shape[:2])
        steps = _steps(small.astype(np.float32) - self.photo, self.sigma) - self.allowed
        steps = np.where(self.band, steps, 0).astype(np.float32)
        return float((cv2.dilate(steps, _square(self.reach))[self.outline] >= VISIBLE).mean())


def mask_edge(photo: NDArray[np.uint8], mask: NDArray[np.float32], *, face: float) -> MaskEdge:
    """Measure the edge of a mask in a photo.

    A change of tone ends where the skin ends. There the photo has an edge of its own, and strengthening it is no seam.
    A seam is a step of the change where the photo is smooth. Both steps are measured at one scale, over all channels,
    so that an ideal step has its height in levels. A step of the photo beyond smooth shading allows for `TOLERATED`
    times as much within a scale's width.

    Args:
        photo: a window of the photo ``(h, w, 3)``.
        mask: ``(h, w)`` in 0..1.
        face: side of the face's aligned crop in photo pixels, which sets the scale.
    """
    scale = min(1.0, SEAM_FACE / face)
    size = max(1, round(mask.shape[0] * scale)), max(1, round(mask.shape[1] * scale))
    small, soft, side = _fitted(photo, size), _fitted(mask, size), face * scale
    inside, near = (soft > 0).astype(np.uint8), _square(1)
    outer = cv2.dilate(inside, near) > 0
    full = cv2.erode((soft >= 1).astype(np.uint8), near, borderType=cv2.BORDER_CONSTANT, borderValue=0) > 0
    sigma = max(1.0, 0.008 * side)
    own = cv2.dilate(_steps(small.astype(np.float32), sigma), _square(round(sigma)))
    return MaskEdge(
        photo=small,
        outline=outer & (cv2.erode(inside, near) == 0),
        band=outer & ~full,
        reach=max(1, round(0.03 * side)),
        sigma=sigma,
        allowed=np.asarray(TOLERATED * np.maximum(own - SHADING, 0), dtype=np.float32),
    )


def mean_lightness(pixels: NDArray[np.uint8], mask: NDArray[np.float32]) -> float:
    """Return the mean CIELAB L* (0-100) of RGB ``(h, w, 3)``, weighted by ``mask`` ``(h, w)``."""
    lab = cv2.cvtColor(pixels.astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
    return float((lab[..., 0] * mask).sum() / max(float(mask.sum()), 1e-6))


def _gaussian_mean(image: NDArray[np.floating]) -> NDArray[np.floating]:
    return np.asarray(cv2.GaussianBlur(image, (11, 11), 1.5, borderType=cv2.BORDER_REFLECT), dtype=np.float32)


def _steps(field: NDArray[np.float32], sigma: float) -> NDArray[np.float32]:
    """Return the step height of a field ``(h, w, 3)`` at each pixel: the root mean square over channels of the gradient
    of its Gaussian scale space, normalised to the height of an ideal step (Lindeberg 1998)."""
    smooth = cv2.GaussianBlur(field, (0, 0), sigma)
    across, down = (cv2.Scharr(smooth, cv2.CV_32F, *axis, scale=1 / 32) for axis in ((1, 0), (0, 1)))
    mean = np.full((1, 3), 1 / 3, dtype=np.float32)
    energy = cv2.transform(across * across + down * down, mean)  # several times faster than NumPy's sum over channels
    return np.asarray(np.sqrt(energy) * (sigma * np.sqrt(2 * np.pi)), dtype=np.float32)


def _fitted(image: NDArray[Any], size: tuple[int, int]) -> NDArray[Any]:
    """Resize an image to (height, width) unless it has that size."""
    return image if image.shape[:2] == size else np.asarray(cv2.resize(image, size[::-1], interpolation=cv2.INTER_AREA))


def _square(reach: int) -> NDArray[np.uint8]:
    return np.ones((2 * reach + 1, 2 * reach + 1), np.uint8)
