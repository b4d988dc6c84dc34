"""Held-out faces for evaluating editors: photos with landmarks, estimated values and labels."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.alignment import aligned_crop
from models.attributes import RACES
from models.detector import FaceDetector
from models.judge import Classifier, perceive_crops
from models.training.data import CROP, part_of
from models.training.preparation import main_faces, read_archive, utkface_labels


@dataclass(frozen=True)
class EvaluationSet:
    """``N`` photos of one size, each with one face.

    Attributes:
        files: ``(N,)`` names.
        pixels: ``(N, H, W, 3)`` uint8 RGB.
        landmarks: ``(N, 5, 2)`` in pixels.
        own: ``(N, K)`` estimated values, one column for each of ``columns``.
        groups: ``(N,)`` such as "feminine, Black": UTKFace's labels, or the estimated race of portraits.
        columns: ``(K,)`` names of columns of the faces table.
    """

    files: NDArray[np.str_]
    pixels: NDArray[np.uint8]
    landmarks: NDArray[np.float64]
    own: NDArray[np.float32]
    groups: NDArray[np.str_]
    columns: NDArray[np.str_]

    def __len__(self) -> int:
        return len(self.pixels)

    def take(self, rows: Sequence[int] | NDArray[np.integer]) -> "EvaluationSet":
        """Return the photos ``rows``, in the given order."""
        names = ("files", "pixels", "landmarks", "own", "groups")
        return replace(self, **{name: getattr(self, name)[np.asarray(rows)] for name in names})

    def save(self, path: Path) -> None:
        """Write the set to an ``.npz`` file."""
        np.savez(path, **{field.name: getattr(self, field.name) for field in fields(self)})


def load_evaluation_set(path: Path) -> EvaluationSet:
    """Load a set written by `EvaluationSet.save`."""
    found = np.load(path)
    return EvaluationSet(**{field.name: found[field.name] for field in fields(EvaluationSet)})


def held_out_faces(data: Path, estimator: Classifier, *, each: int, calibration: bool = False) -> EvaluationSet:
    """Collect held-out UTKFace photos, ``each`` of every gender and the first four races.

    Args:
        data: folder of the archives.
        estimator: estimates the faces' own values.
        each: number of photos per group.
        calibration: use the quarter reserved for choosing strengths instead of the photos for reported figures.
    """
    labels = utkface_labels(data)
    counts: dict[str, int] = {}
    wanted: dict[str, str] = {}
    for name in sorted(labels, key=lambda file: file.rpartition("_")[2]):
        row = labels[name]
        group = f"{'masculine' if row['gender'] == 'male' else 'feminine'}, {row['race']}"
        kept = part_of(name) == 2 and (int(sha256(name.encode()).hexdigest()[8:16], 16) % 4 == 0) == calibration
        if kept and row["race"] in RACES[:4] and counts.get(group, 0) < each:
            counts[group] = counts.get(group, 0) + 1
            wanted[name] = group
    images = ((Path(n).name, pixels) for n, pixels in read_archive(data / "utkface.tar") if Path(n).name in wanted)
    return _found(images, FaceDetector(smallest_face=0.25), estimator, wanted)


def portraits(data: Path, estimator: Classifier, *, limit: int) -> EvaluationSet:
    """Collect official portraits, half of them of women; groups are the table's gender and the estimated race."""
    with (data / "congress.csv").open() as table:
        genders = {row["file"]: row["gender"] for row in csv.DictReader(table)}
    wanted: dict[str, str] = {}
    for gender, word in (("female", "feminine"), ("male", "masculine")):
        names = sorted(name for name, found in genders.items() if found == gender)
        wanted |= dict.fromkeys(names[:: max(1, 2 * len(names) // limit)][: limit // 2], word)
    images = [(Path(n).name, px) for n, px in read_archive(data / "congress.tar") if Path(n).name in wanted]
    shapes = [pixels.shape for _, pixels in images]
    usual = max(set(shapes), key=shapes.count)
    usual_images = iter([image for image in images if image[1].shape == usual])
    found = _found(usual_images, FaceDetector(smallest_face=0.1), estimator, wanted)
    shares = found.own[:, [found.columns.tolist().index(f"race_{race}") for race in RACES]]
    groups = [f"{group}, {RACES[place]}" for group, place in zip(found.groups, shares.argmax(axis=1), strict=True)]
    return replace(found, groups=np.array(groups))


def _found(
    images: Iterator[tuple[str, NDArray[np.uint8]]],
    detector: FaceDetector,
    estimator: Classifier,
    groups: Mapping[str, str],
) -> EvaluationSet:
    """Collect the images of one size that contain a face, with their estimated values."""
    faces = list(main_faces(images, detector))
    crops = [aligned_crop(pixels, face.landmarks, size=CROP) for _, pixels, face in faces]
    own = perceive_crops(estimator, crops).named()
    return EvaluationSet(
        files=np.array([name for name, _, _ in faces]),
        pixels=np.stack([pixels for _, pixels, _ in faces]),
        landmarks=np.stack([face.landmarks for _, _, face in faces]),
        own=np.stack([column.numpy() for column in own.values()], axis=1).astype(np.float32),
        groups=np.array([groups[name] for name, _, _ in faces]),
        columns=np.array(list(own)),
    )
