"""Detection of one face per photo, the checks that it must pass, and estimates of its attributes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cv2
import numpy as np
from numpy.typing import NDArray

from models.alignment import aligned_crop, rotation_degrees, similarity_to_template
from pipeline.config.options import FaceOptions
from pipeline.run.tables import FACES

if TYPE_CHECKING:
    from models.detector import Detection, FaceDetector
    from models.judge import Classifier

FINE_SEARCH = 0.05  # smallest face of the second search, in shorter sides of the photo
BORDER = 0.25  # width of the border around the photo in the third search, in shorter sides
CROP = 128  # side of the aligned crop for the estimator, in pixels

NO_FACE = "no face found"
LOW_SCORE = "score below the option min_score"
TOO_SMALL = "too small: the eyes are closer together than the option min_eye_distance"
TOO_ROTATED = "rotated by more than the option max_rotation"
BEYOND = "landmarks beyond the photo's edge"
DEGENERATE = "landmarks do not form a face"


@dataclass(frozen=True)
class Face:
    """The selected face of a photo.

    ``box`` (left, top, right, bottom) and ``landmarks`` ``(5, 2)`` are in the photo's pixels, ``score`` is in 0-1 and
    ``rotation`` in degrees in the image plane. ``faces_found`` counts all faces with a sufficient score.
    """

    box: tuple[float, float, float, float]
    score: float
    landmarks: NDArray[np.float64]
    rotation: float
    faces_found: int


@dataclass(frozen=True)
class Excluded:
    """A photo without an editable face, and the reason."""

    reason: str
    faces_found: int


def check_face(landmarks: NDArray[np.float64], *, width: int, height: int, options: FaceOptions) -> str | None:
    """Return why a face with these landmarks ``(5, 2)`` cannot be edited, or None."""
    try:
        rotation = rotation_degrees(similarity_to_template(landmarks, size=CROP))
    except ValueError:
        return DEGENERATE
    eyes = float(np.linalg.norm(landmarks[1] - landmarks[0]))
    if eyes < options.min_eye_distance:
        return f"{TOO_SMALL} ({eyes:.1f} < {options.min_eye_distance:g} pixels)"
    if abs(rotation) > options.max_rotation:
        return f"{TOO_ROTATED} ({rotation:.0f} degrees, at most {options.max_rotation:g})"
    # Pixel centres sit on integers, so the photo reaches from -0.5 to side - 0.5.
    if (landmarks < -0.5).any() or (landmarks > np.array([width, height]) - 0.5).any():
        return BEYOND
    return None


def find_faces(
    photos: Sequence[NDArray[np.uint8]],
    *,
    detector: "FaceDetector",
    options: FaceOptions,
    advance: Callable[[float], None] = lambda _: None,
) -> list[Face | Excluded]:
    """Return the face of each ``(H, W, 3)`` uint8 RGB photo, or the reason why there is none, in order.

    If the detector finds no face with a sufficient score, it searches for smaller faces, and then with a border around
    the photo, because a face that fills the photo can be missed.
    """
    faces = []
    for photo in photos:
        faces.append(_face_of(photo, detector=detector, options=options))
        advance(1)
    return faces


def face_rows(
    names: Sequence[str],
    photos: Sequence[NDArray[np.uint8]],
    *,
    detector: "FaceDetector",
    estimator: "Classifier",
    options: FaceOptions,
    advance: Callable[[float], None] = lambda _: None,
) -> list[dict[str, Any]]:
    """Return a row of ``run.tables.FACES`` per ``(H, W, 3)`` uint8 RGB photo, independent of the other photos."""
    found = find_faces(photos, detector=detector, options=options, advance=advance)
    crops = [
        aligned_crop(photo, face.landmarks, size=CROP)
        for photo, face in zip(photos, found, strict=True)
        if isinstance(face, Face)
    ]
    estimates = iter(estimate(crops, estimator=estimator))
    return [
        {"photo": name, "faces_found": face.faces_found}
        | (
            {"status": "excluded", "reason": face.reason}
            if isinstance(face, Excluded)
            else {"status": "ok", "reason": None} | _measures(face) | next(estimates)
        )
        for name, face in zip(names, found, strict=True)
    ]


def estimate(crops: Sequence[NDArray[np.uint8]], *, estimator: "Classifier") -> list[dict[str, float]]:
    """Estimate the attributes of aligned ``(128, 128, 3)`` uint8 crops, as columns of ``run.tables.FACES``."""
    from models.judge import perceive_crops

    if not crops:
        return []
    perceived = perceive_crops(estimator, crops).named()
    columns = {name: column.tolist() for name, column in perceived.items() if name in FACES}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def _face_of(photo: NDArray[np.uint8], *, detector: "FaceDetector", options: FaceOptions) -> Face | Excluded:
    from models.detector import central_face

    height, width = photo.shape[:2]
    best = 0.0
    for detections in _searches(photo, detector):
        chosen = central_face(detections, width=width, height=height, min_score=options.min_score)
        if chosen is None:
            best = max([best, *(face.score for face in detections)])
            continue
        faces_found = sum(face.score >= options.min_score for face in detections)
        reason = check_face(chosen.landmarks, width=width, height=height, options=options)
        if reason is not None:
            return Excluded(reason, faces_found)
        rotation = rotation_degrees(similarity_to_template(chosen.landmarks, size=CROP))
        return Face(chosen.box, chosen.score, chosen.landmarks, rotation, faces_found)
    return Excluded(f"{LOW_SCORE} ({best:.2f} < {options.min_score:g})" if best else NO_FACE, 0)


def _searches(photo: NDArray[np.uint8], detector: "FaceDetector") -> "Iterator[list[Detection]]":
    """Yield the detections of one search after the other, in the photo's pixels."""
    yield detector.detect([photo])[0]
    yield detector.detect([photo], smallest_face=FINE_SEARCH)[0]
    border = round(BORDER * min(photo.shape[:2]))
    framed = cv2.copyMakeBorder(photo, border, border, border, border, cv2.BORDER_REPLICATE)
    yield [_moved(face, by=-border) for face in detector.detect([np.asarray(framed, dtype=np.uint8)])[0]]


def _moved(face: "Detection", *, by: int) -> "Detection":
    """Return the face shifted right and down by this number of pixels."""
    from models.detector import Detection

    left, top, right, bottom = face.box
    return Detection((left + by, top + by, right + by, bottom + by), face.score, face.landmarks + by)


def _measures(face: Face) -> dict[str, Any]:
    return dict(zip(("left", "top", "right", "bottom"), face.box, strict=True)) | {
        "score": face.score,
        "rotation": face.rotation,
        "landmarks": face.landmarks.ravel().tolist(),
    }
