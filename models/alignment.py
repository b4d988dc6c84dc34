"""The face template shared by training and inference, and the similarity transform onto it.

Images are ``(H, W, 3)`` uint8 RGB arrays; points are ``(5, 2)`` float arrays of x, y in pixels, in
MTCNN's order: left eye, right eye, nose, left and right corner of the mouth (left as the viewer sees it).
"""

import cv2
import numpy as np
from numpy.typing import NDArray

# Fractions of the crop's side, from hairline to chin: eyes 0.33 apart put the forehead's edge near 0.04 and
# the chin near 0.99. A wider crop would be mostly repeated border for tightly cropped training photos (UTKFace).
TEMPLATE = np.array([[0.335, 0.350], [0.665, 0.350], [0.500, 0.540], [0.365, 0.725], [0.635, 0.725]], dtype=np.float64)


def similarity_to_template(landmarks: NDArray[np.floating], *, size: int) -> NDArray[np.float64]:
    """Return the ``(2, 3)`` similarity transform that best maps ``landmarks`` to the template of ``size`` pixels.

    Least squares over rotation, uniform scale and shift (Umeyama 1991, without reflection).

    Raises:
        ValueError: the landmarks are not five finite points, or all coincide.
    """
    source = np.asarray(landmarks, dtype=np.float64)
    if source.shape != (5, 2) or not np.isfinite(source).all():
        finite = int(np.isfinite(source).sum())
        raise ValueError(f"five finite landmarks are needed, not shape {source.shape} with {finite} finite numbers")
    # Pixel centres sit on integers, so a template fraction f lies at f * size - 0.5.
    target = TEMPLATE * size - 0.5
    source_centred = source - source.mean(axis=0)
    target_centred = target - target.mean(axis=0)
    spread = (source_centred**2).sum()
    if spread < 1e-6:
        raise ValueError("the five landmarks coincide")
    # In 2-D the rotation and scale are one complex number a + ib.
    a = (source_centred * target_centred).sum() / spread
    b = (source_centred[:, 0] * target_centred[:, 1] - source_centred[:, 1] * target_centred[:, 0]).sum() / spread
    linear = np.array([[a, -b], [b, a]])
    shift = target.mean(axis=0) - linear @ source.mean(axis=0)
    return np.hstack([linear, shift[:, None]])


def rotation_degrees(transform: NDArray[np.floating]) -> float:
    """Return the rotation of the face in the image plane in degrees, positive if its right side is lower."""
    return float(-np.degrees(np.arctan2(transform[1, 0], transform[0, 0])))


def warp_to_template(image: NDArray[np.uint8], transform: NDArray[np.floating], *, size: int) -> NDArray[np.uint8]:
    """Return the aligned ``(size, size, 3)`` crop; border pixels are repeated beyond the edge of the photo."""
    shrink = float(np.hypot(transform[0, 0], transform[1, 0]))
    if shrink < 0.5:
        # Bilinear sampling skips pixels at large reductions, so reduce by area first.
        factor = 2 * shrink
        small = cv2.resize(image, None, fx=factor, fy=factor, interpolation=cv2.INTER_AREA)
        # Pixel centres: x_photo = (x_small + 0.5) / factor - 0.5. OpenCV samples by the factor itself, not by the
        # ratio of the rounded sizes.
        back = np.array([[1 / factor, 0, 0.5 / factor - 0.5], [0, 1 / factor, 0.5 / factor - 0.5], [0, 0, 1]])
        transform = np.asarray(transform, dtype=np.float64) @ back
        image = np.asarray(small, dtype=np.uint8)
    warped = cv2.warpAffine(
        image, np.asarray(transform), (size, size), flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE
    )
    return np.asarray(warped, dtype=np.uint8)


def aligned_crop(image: NDArray[np.uint8], landmarks: NDArray[np.floating], *, size: int) -> NDArray[np.uint8]:
    """Return the aligned ``(size, size, 3)`` crop of the face with these landmarks ``(5, 2)``."""
    return warp_to_template(image, similarity_to_template(landmarks, size=size), size=size)


def invert(transform: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the inverse ``(2, 3)`` transform, from the crop to the photo."""
    return np.asarray(cv2.invertAffineTransform(np.asarray(transform)), dtype=np.float64)
