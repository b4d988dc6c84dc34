"""The face of each photo: found, chosen, checked, aligned, and its attributes estimated.

The networks are in ``models``; which pixels of the face may change is decided in ``pipeline.counterfactuals``.
"""

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

FINE_SEARCH = 0.05  # of the shorter side: the smallest face of the second search
BORDER = 0.25  # of the shorter side: the border put around the photo for the third search
CROP = 128  # pixels a side of the aligned face that the estimator sees

NO_FACE = "no face found"
LOW_SCORE = "score below the option min_score"
TOO_SMALL = "too small: the eyes are closer together than the option min_eye_distance"
TOO_ROTATED = "rotated by more than the option max_rotation"
BEYOND = "landmarks beyond the photo's edge"
DEGENERATE = "landmarks do not form a face"


@dataclass(frozen=True)
class Face:
    """The face that stands for its photo.

    ``box`` (left, top, right, bottom) and ``landmarks`` ``(5, 2)`` in the photo's pixels; ``score`` in 0-1;
    ``rotation`` in degrees in the image plane; ``faces_found`` counts all faces of the photo with a sufficient score.
    """

    box: tuple[float, float, float, float]
    score: float
    landmarks: NDArray[np.float64]
    rotation: float
    faces_found: int


@dataclass(frozen=True)
class Excluded:
    """A photo without a face that can be edited, and why."""

    reason: str
    faces_found: int


def check_face(landmarks: NDArray[np.float64], *, width: int, height: int, options: FaceOptions) -> str | None:
    """Why a face with these landmarks ``(5, 2)`` cannot be edited; None where it can."""
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
    """The face of each ``(H, W, 3)`` uint8 RGB photo, in photo order, or why there is none.

    The detector's own search comes first. Only where it finds no face with a sufficient score is the photo searched
    for smaller faces, and then with a border around it, because a face that fills the photo can be missed.
    """
    faces = []
    for photo in photos:
        (first,) = detector.detect([photo])
        faces.append(_face_of(photo, first, detector=detector, options=options))
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
    """Rows of ``run.tables.FACES``, one a photo ``(H, W, 3)`` uint8 RGB; a row does not depend on the other photos."""
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
    """The attributes perceived in aligned ``(128, 128, 3)`` uint8 crops, by the columns of ``run.tables.FACES``."""
    from models.judge import perceive_crops

    if not crops:
        return []
    columns = {
        name: column.tolist() for name, column in perceive_crops(estimator, crops).named().items() if name in FACES
    }
    return [{name: column[place] for name, column in columns.items()} for place in range(len(crops))]


def _face_of(
    photo: NDArray[np.uint8], first: "list[Detection]", *, detector: "FaceDetector", options: FaceOptions
) -> Face | Excluded:
    from models.detector import central_face

    height, width = photo.shape[:2]
    best = 0.0
    for detections in _searches(photo, first, detector):
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


def _searches(
    photo: NDArray[np.uint8], first: "list[Detection]", detector: "FaceDetector"
) -> "Iterator[list[Detection]]":
    """What each search finds, in the photo's pixels; the next is made only when it is needed."""
    yield first
    yield detector.detect([photo], smallest_face=FINE_SEARCH)[0]
    border = round(BORDER * min(photo.shape[:2]))
    framed = cv2.copyMakeBorder(photo, border, border, border, border, cv2.BORDER_REPLICATE)
    yield [_moved(face, by=-border) for face in detector.detect([np.asarray(framed, dtype=np.uint8)])[0]]


def _moved(face: "Detection", *, by: int) -> "Detection":
    """The face, so many pixels further right and down."""
    from models.detector import Detection

    left, top, right, bottom = face.box
    return Detection((left + by, top + by, right + by, bottom + by), face.score, face.landmarks + by)


def _measures(face: Face) -> dict[str, Any]:
    left, top, right, bottom = face.box
    return {
        "left": left,
        "top": top,
        "right": right,
        "bottom": bottom,
        "score": face.score,
        "rotation": face.rotation,
        "landmarks": face.landmarks.ravel().tolist(),
    }
