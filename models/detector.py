"""Face detection: facenet-pytorch's MTCNN (its weights travel in the package), in batches of equal size.

Which face of several is meant is not decided here (see ``pipeline.faces``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from facenet_pytorch import MTCNN
from numpy.typing import NDArray


@dataclass(frozen=True)
class Detection:
    """One face: ``box`` (left, top, right, bottom) and ``landmarks`` ``(5, 2)`` in pixels; ``score`` in 0-1."""

    box: tuple[float, float, float, float]
    score: float
    landmarks: NDArray[np.float64]


class FaceDetector:
    """MTCNN over batches of photos.

    Args:
        long_side: photos are shrunk to at most this many pixels before the search.
        smallest_face: the smallest face looked for, as a share of the photo's shorter side.
        device: where the networks run.
    """

    def __init__(self, *, long_side: int = 640, smallest_face: float = 0.1, device: str = "cpu") -> None:
        self._long_side = long_side
        self._smallest_face = smallest_face
        self._network = MTCNN(device=device, keep_all=True).eval()

    def detect(self, photos: Sequence[NDArray[np.uint8]]) -> list[list[Detection]]:
        """The faces of each ``(H, W, 3)`` uint8 RGB photo, in photo order. Photos of one size share a batch."""
        shrunk = [_shrink(photo, self._long_side) for photo in photos]
        by_shape: dict[tuple[int, int], list[int]] = {}
        for index, (small, _) in enumerate(shrunk):
            by_shape.setdefault(small.shape[:2], []).append(index)
        found: list[list[Detection]] = [[] for _ in photos]
        for (height, width), members in by_shape.items():
            self._network.min_face_size = max(20, round(self._smallest_face * min(height, width)))
            batch = np.stack([shrunk[index][0] for index in members])
            for index, faces in zip(members, self._detect_batch(batch), strict=True):
                scale = shrunk[index][1]
                found[index] = [
                    Detection(
                        box=(float(b[0] / scale), float(b[1] / scale), float(b[2] / scale), float(b[3] / scale)),
                        score=float(b[4]),
                        landmarks=np.asarray(points, dtype=np.float64) / scale,
                    )
                    for b, points in faces
                ]
        return found

    def _detect_batch(
        self, batch: NDArray[np.uint8]
    ) -> list[list[tuple[NDArray[np.float64], NDArray[np.float64]]]]:
        if min(batch.shape[1:3]) < 20:
            return [[] for _ in batch]
        with torch.inference_mode():
            boxes, scores, points = self._network.detect(batch, landmarks=True)
        faces = []
        for photo_boxes, photo_scores, photo_points in zip(boxes, scores, points, strict=True):
            if photo_boxes is None:
                faces.append([])
                continue
            rows = np.hstack([np.asarray(photo_boxes, float), np.asarray(photo_scores, float)[:, None]])
            faces.append(list(zip(rows, np.asarray(photo_points, float), strict=True)))
        return faces


def _shrink(photo: NDArray[np.uint8], long_side: int) -> tuple[NDArray[np.uint8], float]:
    scale = long_side / max(photo.shape[:2])
    if scale >= 1:
        return photo, 1.0
    size = (max(1, round(photo.shape[1] * scale)), max(1, round(photo.shape[0] * scale)))
    return np.asarray(cv2.resize(photo, size, interpolation=cv2.INTER_AREA), dtype=np.uint8), scale
