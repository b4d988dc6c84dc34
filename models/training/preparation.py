"""Prepare training arrays from the archives of photos: detect, align and crop faces; read labels and masks."""

import csv
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch.nn import functional as F

from models.alignment import similarity_to_template, warp_to_template
from models.attributes import RACES
from models.detector import Detection, FaceDetector, central_face
from models.judge import Classifier, age_in_years, split, view
from models.parser import SmallParser, class_indices
from models.precision import unit_batch
from models.training.data import CROP, MARGIN, smiling_proxy
from models.training.parser import TO_CLASSES

SIDE = CROP + 2 * MARGIN
YOUNGEST = 12  # labels of the gender of small children are guesses
REGION = ("skin", "nose", "brows", "eyes", "mouth", "lips")


def read_archive(archive: Path) -> Iterator[tuple[str, NDArray[np.uint8]]]:
    """Yield name and pixels of each image in a tar archive: ``(H, W, 3)`` RGB for JPEG, ``(H, W)`` indices for PNG."""
    with tarfile.open(archive) as tar:
        for member in tar:
            if not member.isfile():
                continue
            content = tar.extractfile(member)
            assert content is not None  # noqa: S101 - isfile() says so
            image = Image.open(io.BytesIO(content.read()))
            name = Path(member.name)
            pixels = np.array(image if name.suffix == ".png" else image.convert("RGB"))
            yield (f"{name.parent.name}/{name.name}", pixels)


def utkface_labels(data: Path) -> dict[str, dict[str, str]]:
    """Read UTKFace's table, by file, for ages of `YOUNGEST` or more."""
    with (data / "utkface.csv").open() as table:
        return {row["file"]: row for row in csv.DictReader(table) if int(row["age"]) >= YOUNGEST}


def main_faces(
    images: Iterator[tuple[str, NDArray[np.uint8]]], detector: FaceDetector
) -> Iterator[tuple[str, NDArray[np.uint8], Detection]]:
    """Yield each image with the face nearest its centre; images without a face are skipped."""
    for name, pixels in images:
        (faces,) = detector.detect([pixels])
        face = central_face(faces, width=pixels.shape[1], height=pixels.shape[0])
        if face is not None:
            yield name, pixels, face


def prepare_faces(data: Path, out: Path, *, limit: int | None = None) -> int:
    """Write ``crops.npy`` ``(N, 144, 144, 3)`` and ``faces.npz`` (labels) from UTKFace; return the number of faces."""
    labels = utkface_labels(data)
    wanted = ((Path(n).name, pixels) for n, pixels in read_archive(data / "utkface.tar") if Path(n).name in labels)
    names, crops, landmarks = [], [], []
    for name, pixels, face in main_faces(wanted, FaceDetector(smallest_face=0.25)):
        names.append(name)
        landmarks.append(face.landmarks)
        crops.append(cut(pixels, face.landmarks))
        if limit is not None and len(names) >= limit:
            break
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "crops.npy", np.stack(crops))
    np.savez(
        out / "faces.npz",
        files=np.array(names),
        gender=np.array([1 if labels[name]["gender"] == "male" else -1 for name in names]),
        race=np.array([RACES.index(labels[name]["race"]) for name in names]),
        age=np.array([int(labels[name]["age"]) for name in names]),
        smiling=smiling_proxy(np.stack(landmarks)),
        landmarks=np.stack(landmarks),
    )
    return len(names)


def prepare_masks(data: Path, out: Path, *, limit: int | None = None) -> int:
    """Write ``photos.npy``, ``masks.npy`` and ``masks.npz`` from the face parsing photos; return their number."""
    photos: dict[str, NDArray[np.uint8]] = {}
    masks: dict[str, NDArray[np.uint8]] = {}
    for name, pixels in read_archive(data / "faceparsing.tar"):
        kind, file = name.split("/")
        (photos if kind == "images" else masks)[Path(file).stem] = pixels
    both = ((stem, photos[stem]) for stem in sorted(photos)[:limit] if stem in masks)
    kept = list(main_faces(both, FaceDetector(smallest_face=0.25)))
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "photos.npy", np.stack([pixels for _, pixels, _ in kept]))
    np.save(out / "masks.npy", np.stack([TO_CLASSES[masks[stem]] for stem, _, _ in kept]))
    np.savez(
        out / "masks.npz",
        files=np.array([f"{stem}.jpg" for stem, _, _ in kept]),
        landmarks=np.stack([face.landmarks for _, _, face in kept]),
    )
    return len(kept)


@torch.inference_mode()
def prepare_edits(faces: Path, masks: Path, out: Path, *, parser: SmallParser, guide: Classifier) -> int:
    """Write the Fader network's training data, with edit regions; return the number of faces.

    It combines the labelled faces and the parsing photos, labelled by the guide. The latter have real surroundings,
    where tightly cropped faces have repeated border.
    """
    table, crops = np.load(faces / "faces.npz"), np.load(faces / "crops.npy", mmap_mode="r")
    more, photos = np.load(masks / "masks.npz"), np.load(masks / "photos.npy", mmap_mode="r")
    truth = np.load(masks / "masks.npy", mmap_mode="r")
    indices = class_indices(REGION)
    extra = np.stack([cut(photo, points) for photo, points in zip(photos, more["landmarks"], strict=True)])
    regions = np.zeros((len(crops) + len(extra), SIDE, SIDE), dtype=np.uint8)
    for start in range(0, len(crops), 64):
        regions[start : start + len(crops[start : start + 64])] = _region(parser, crops[start : start + 64], indices)
    for place, (mask, points) in enumerate(zip(truth, more["landmarks"], strict=True)):
        inside = cv2.GaussianBlur(np.isin(mask, indices).astype(np.float32) * 255, (0, 0), 1.0)
        regions[len(crops) + place] = cv2.warpAffine(inside, _transform(points), (SIDE, SIDE), flags=cv2.INTER_AREA)
    seen = torch.cat([guide(view(_inner(chunk)))[0] for chunk in np.array_split(extra, max(1, len(extra) // 32))])
    gender, race, _, age, smiling = split(seen)
    out.mkdir(parents=True, exist_ok=True)
    np.save(out / "crops.npy", np.concatenate([crops, extra]))
    np.save(out / "masks.npy", regions)
    np.savez(
        out / "faces.npz",
        files=np.concatenate([table["files"], more["files"]]),
        gender=np.concatenate([table["gender"], np.where(gender > 0, 1, -1)]),
        race=np.concatenate([table["race"], race.argmax(1).numpy()]),
        age=np.concatenate([table["age"], age_in_years(age).round().numpy()]),
        smiling=np.concatenate([table["smiling"], torch.tanh(smiling).numpy()]),
    )
    return len(regions)


def cut(pixels: NDArray[np.uint8], landmarks: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Return the aligned crop with its margin, ``(144, 144, 3)``."""
    return warp_to_template(pixels, _transform(landmarks), size=SIDE)


def _transform(landmarks: NDArray[np.float64]) -> NDArray[np.float64]:
    transform = similarity_to_template(landmarks, size=CROP)
    transform[:, 2] += MARGIN
    return transform


def _inner(crops: NDArray[np.uint8]) -> torch.Tensor:
    return unit_batch(list(crops[:, MARGIN:-MARGIN, MARGIN:-MARGIN]))


def _region(parser: SmallParser, crops: NDArray[np.uint8], indices: tuple[int, ...]) -> NDArray[np.uint8]:
    inputs = F.interpolate(unit_batch(list(crops)), size=(parser.size, parser.size), mode="bilinear")
    inside = parser(inputs).softmax(dim=1)[:, list(indices)].sum(dim=1, keepdim=True)
    small = F.interpolate(inside, size=(SIDE, SIDE), mode="area")[:, 0]
    return np.asarray((small * 255).round().byte().numpy(), dtype=np.uint8)
