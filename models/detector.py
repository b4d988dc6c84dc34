"""Face detection: the MTCNN cascade (Zhang et al. 2016) with the three networks shipped in facenet-pytorch.

The choice among several faces is made in ``pipeline.photos.faces``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray

from models.mtcnn import MTCNNNetwork
from models.precision import one_thread

SMALLEST_FACE = 20  # pixels; below, the first network, which sees 12 pixels, finds mostly noise
PYRAMID_STEP = 0.709  # each level has half the area of the previous one
MIN_SCORES = (0.6, 0.7, 0.7)  # lowest accepted score in each of the three networks
_WINDOW, _STRIDE = 12, 2  # window and stride of the first network, in pixels

Boxes = NDArray[np.float64]  # (N, 4): left, top, right, bottom


@dataclass(frozen=True)
class Detection:
    """One face: ``box`` (left, top, right, bottom) and ``landmarks`` ``(5, 2)`` in pixels; ``score`` in 0-1."""

    box: tuple[float, float, float, float]
    score: float
    landmarks: NDArray[np.float64]


class FaceDetector:
    """MTCNN, one photo at a time, on one thread.

    Photos are not batched: matrix products and non-maximum suppression would round differently from batch to batch,
    so a continued run would not reproduce the tables of an uninterrupted one. The number of threads also changes the
    last digits, and more threads do not help with images this small.

    Args:
        long_side: photos are reduced to at most this many pixels before detection.
        smallest_face: size of the smallest face to detect, as a share of the photo's shorter side.
        device: where the networks run.
    """

    def __init__(self, *, long_side: int = 640, smallest_face: float = 0.12, device: str = "cpu") -> None:
        self._long_side = long_side
        self._smallest_face = smallest_face
        self._device = device
        self._proposer = MTCNNNetwork("pnet", device=device)
        self._refiner = MTCNNNetwork("rnet", device=device)
        self._finisher = MTCNNNetwork("onet", device=device)

    def detect(
        self, photos: Sequence[NDArray[np.uint8]], *, smallest_face: float | None = None
    ) -> list[list[Detection]]:
        """Detect the faces of each ``(H, W, 3)`` uint8 RGB photo, highest score first.

        Args:
            photos: photos of any size.
            smallest_face: overrides the detector's value.
        """
        share = self._smallest_face if smallest_face is None else smallest_face
        with torch.inference_mode(), one_thread():
            return [self._detect_one(photo, share) for photo in photos]

    def _detect_one(self, photo: NDArray[np.uint8], smallest_face: float) -> list[Detection]:
        image = _shrink(photo, self._long_side)
        smallest = max(SMALLEST_FACE, smallest_face * min(image.shape[:2]))
        boxes = self._propose(image, smallest)
        boxes = self._refine(image, boxes)
        boxes, scores, points = self._finish(image, boxes)
        scale = np.array([photo.shape[1] / image.shape[1], photo.shape[0] / image.shape[0]])
        boxes = boxes * np.tile(scale, 2)
        points = (points + 0.5) * scale - 0.5  # pixel centres sit on integers
        return [
            Detection(box=(float(b[0]), float(b[1]), float(b[2]), float(b[3])), score=float(score), landmarks=face)
            for b, score, face in zip(boxes, scores, points, strict=True)
        ]

    def _propose(self, image: NDArray[np.uint8], smallest: float) -> Boxes:
        """Propose square candidates of all sizes from ``smallest`` pixels."""
        found, found_scores = [np.empty((0, 8))], [np.empty(0)]
        for level in _pyramid(image, smallest):
            scores, shifts = (output[0].cpu().numpy() for output in self._proposer(self._tensor(level[None])))
            rows, columns = np.nonzero(scores >= MIN_SCORES[0])
            across, down = image.shape[1] / level.shape[1], image.shape[0] / level.shape[0]
            corners = _STRIDE * np.stack([columns, rows, columns, rows], axis=1)
            boxes = (corners + np.array([0, 0, _WINDOW, _WINDOW])) * np.array([across, down, across, down])
            level_scores = scores[rows, columns]
            kept = _suppress(boxes, level_scores, most=0.5)
            found.append(np.hstack([boxes[kept], shifts[:, rows[kept], columns[kept]].T]))
            found_scores.append(level_scores[kept])
        candidates = np.vstack(found)
        candidates = candidates[_suppress(candidates[:, :4], np.concatenate(found_scores), most=0.7)]
        return _square(_shift(candidates[:, :4], candidates[:, 4:]))

    def _refine(self, image: NDArray[np.uint8], boxes: Boxes) -> Boxes:
        """Filter candidates with the second network and correct their positions."""
        boxes = _within(boxes, image)
        if not len(boxes):
            return boxes
        scores, shifts = (out.cpu().numpy() for out in self._refiner(self._tensor(_crops(image, boxes, size=24))))
        sure = scores > MIN_SCORES[1]
        boxes, scores, shifts = boxes[sure], scores[sure], shifts[sure]
        kept = _suppress(boxes, scores, most=0.7)
        return _square(_shift(boxes[kept], shifts[kept]))

    def _finish(self, image: NDArray[np.uint8], boxes: Boxes) -> tuple[Boxes, NDArray[np.float64], NDArray[np.float64]]:
        """Boxes, scores ``(N,)`` and landmarks ``(N, 5, 2)`` of the faces, by the third network."""
        boxes = _within(boxes, image)
        if not len(boxes):
            return boxes, np.empty(0), np.empty((0, 5, 2))
        crops = self._tensor(_crops(image, boxes, size=48))
        scores, shifts, points = (out.cpu().numpy() for out in self._finisher(crops))
        sure = scores > MIN_SCORES[2]
        boxes, scores, shifts, points = boxes[sure], scores[sure], shifts[sure], points[sure]
        # The network gives five x, then five y, as fractions of the box.
        points = points.reshape(-1, 2, 5).transpose(0, 2, 1)
        points = boxes[:, None, :2] + points * (boxes[:, None, 2:] - boxes[:, None, :2])
        boxes = _shift(boxes, shifts)
        kept = _suppress(boxes, scores, most=0.7, of_smaller=True)
        return boxes[kept], scores[kept].astype(np.float64), points[kept]

    def _tensor(self, images: NDArray[np.uint8]) -> torch.Tensor:
        """Convert ``(N, H, W, 3)`` uint8 to the networks' input ``(N, 3, H, W)``, about -1 to 1."""
        scaled = images.astype(np.float32)
        scaled -= 127.5
        scaled /= 128
        return torch.from_numpy(scaled).permute(0, 3, 1, 2).to(self._device)


def central_face(
    detections: Sequence[Detection], *, width: int, height: int, min_score: float = 0.0
) -> Detection | None:
    """Return the face whose box centre is nearest to the photo's centre; ties go to the higher score.

    Args:
        detections: all faces of the photo.
        width: the photo's width in pixels.
        height: the photo's height in pixels.
        min_score: lowest accepted score, 0-1.
    """

    def rank(face: Detection) -> tuple[float, float]:
        left, top, right, bottom = face.box
        return float(np.hypot((left + right - width) / 2, (top + bottom - height) / 2)), -face.score

    return min((face for face in detections if face.score >= min_score), key=rank, default=None)


def _shrink(photo: NDArray[np.uint8], long_side: int) -> NDArray[np.uint8]:
    scale = long_side / max(photo.shape[:2])
    if scale >= 1:
        return photo
    return _resize(photo, (max(1, round(photo.shape[0] * scale)), max(1, round(photo.shape[1] * scale))))


def _resize(image: NDArray[np.uint8], shape: tuple[int, int]) -> NDArray[np.uint8]:
    return np.asarray(cv2.resize(image, shape[::-1], interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _pyramid(image: NDArray[np.uint8], smallest: float) -> Iterator[NDArray[np.uint8]]:
    """Yield the image at scales at which faces of ``smallest`` pixels and larger fill the first network's window."""
    height, width = image.shape[:2]
    scale = _WINDOW / smallest
    while min(height, width) * scale >= _WINDOW:
        yield _resize(image, (int(height * scale + 1), int(width * scale + 1)))
        scale *= PYRAMID_STEP


def _crops(image: NDArray[np.uint8], boxes: Boxes, *, size: int) -> NDArray[np.uint8]:
    """Crop each box as ``(N, size, size, 3)``; border pixels are repeated beyond the image.

    Clipping the box at the image's edge would stretch the face. On tightly cropped portraits that moves the landmarks
    by half the distance between the eyes.
    """
    height, width = image.shape[:2]
    crops = np.empty((len(boxes), size, size, 3), dtype=np.uint8)
    for crop, (left, top, right, bottom) in zip(crops, np.floor(boxes).astype(int).tolist(), strict=True):
        inside = image[max(0, top) : min(height, bottom), max(0, left) : min(width, right)]
        over = max(0, -top), max(0, bottom - height), max(0, -left), max(0, right - width)
        if any(over):
            inside = np.asarray(cv2.copyMakeBorder(inside, *over, cv2.BORDER_REPLICATE), dtype=np.uint8)
        crop[:] = _resize(inside, (size, size))
    return crops


def _within(boxes: Boxes, image: NDArray[np.uint8]) -> Boxes:
    """Keep the boxes with at least two pixels inside the image in each direction."""
    height, width = image.shape[:2]
    across = np.minimum(boxes[:, 2], width) - np.maximum(boxes[:, 0], 0)
    down = np.minimum(boxes[:, 3], height) - np.maximum(boxes[:, 1], 0)
    return boxes[(across >= 2) & (down >= 2)]


def _shift(boxes: Boxes, shifts: NDArray[np.floating]) -> Boxes:
    """Move each edge by its shift, a fraction of the box's width or height."""
    return boxes + shifts * (boxes[:, [2, 3, 2, 3]] - boxes[:, [0, 1, 0, 1]])


def _square(boxes: Boxes) -> Boxes:
    """Return squares of the longer side around the same centres."""
    centres = (boxes[:, :2] + boxes[:, 2:]) / 2
    half = (boxes[:, 2:] - boxes[:, :2]).max(axis=1, keepdims=True, initial=0) / 2
    return np.hstack([centres - half, centres + half])


def _suppress(boxes: Boxes, scores: NDArray[np.floating], *, most: float, of_smaller: bool = False) -> NDArray[np.intp]:
    """Non-maximum suppression: indices of boxes, best first, that no better box overlaps by more than ``most``.

    The overlap is a share of the union or, with ``of_smaller``, of the smaller box, which also drops nested boxes.
    """
    left, top, right, bottom = np.ascontiguousarray(boxes.T)
    areas = (right - left) * (bottom - top)
    free = np.ones(len(boxes), dtype=bool)
    kept = []
    for best in np.argsort(-scores, kind="stable").tolist():
        if not free[best]:
            continue
        kept.append(best)
        across = np.minimum(right, right[best]) - np.maximum(left, left[best])
        down = np.minimum(bottom, bottom[best]) - np.maximum(top, top[best])
        shared = np.maximum(across, 0) * np.maximum(down, 0)
        whole = np.minimum(areas, areas[best]) if of_smaller else areas + areas[best] - shared
        free &= shared <= most * whole
    return np.array(kept, dtype=np.intp)
