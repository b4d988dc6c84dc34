"""Location of the people in a photo, by COCO annotations or by the face parser, and the pixels that conditions hide."""

import json
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.config.options import ConfigError

if TYPE_CHECKING:
    from models.parser import BiSeNet, SmallParser

Mask = NDArray[np.bool_]
PERSON = "person"
HALF = 0.5  # smallest probability of a person's pixel


class Annotations:
    """The people in a COCO file of instances (Lin et al. 2014).

    Args:
        path: the JSON file.

    Raises:
        ConfigError: the file cannot be read, has another format or no category "person", or pycocotools is not
            installed.
    """

    def __init__(self, path: Path) -> None:
        from adapters.packages import install_command

        try:
            from pycocotools import mask
        except ModuleNotFoundError as error:
            raise ConfigError(f"COCO annotations need pycocotools: {install_command('pycocotools')}") from error
        self._decoder: Any = mask
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            (person,) = [category["id"] for category in content["categories"] if category["name"] == PERSON]
            names = {image["id"]: Path(image["file_name"]).name for image in content["images"]}
            found: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for annotation in content["annotations"]:
                if annotation["category_id"] == person:
                    found[names[annotation["image_id"]]].append(annotation)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(
                f"{path} is not a COCO file of instances with the category {PERSON!r} ({error})"
            ) from error
        self._known, self._people = set(names.values()), dict(found)

    def people(self, photo: str, *, height: int, width: int) -> list[Mask]:
        """Return ``(H, W)`` masks of the people annotated in a photo, identified by its file name.

        Raises:
            KeyError: the annotations do not name the photo.
            ValueError: a segment cannot be decoded.
        """
        name = Path(photo).name
        if name not in self._known:
            raise KeyError(name)
        return [self._mask(person["segmentation"], height, width) for person in self._people.get(name, [])]

    def _mask(self, segment: Any, height: int, width: int) -> Mask:
        try:
            with warnings.catch_warnings():
                # pycocotools' arrays do not support the argument copy of numpy 2.
                warnings.simplefilter("ignore", DeprecationWarning)
                decoded = np.asarray(self._decoder.decode(self._encoded(segment, height, width)), dtype=bool)
        except Exception as error:
            raise ValueError(f"a segment cannot be decoded: {error}") from error
        if decoded.shape != (height, width):
            raise ValueError(
                f"a segment is {decoded.shape[1]} x {decoded.shape[0]} pixels, the photo {width} x {height}"
            )
        return decoded

    def _encoded(self, segment: Any, height: int, width: int) -> Any:
        """Return a segment, which may be polygons or a list of counts, as encoded run lengths."""
        if isinstance(segment, list):
            return self._decoder.merge(self._decoder.frPyObjects(segment, height, width))
        return self._decoder.frPyObjects(segment, height, width) if isinstance(segment["counts"], list) else segment


def parsed_people(
    parser: "SmallParser | BiSeNet",
    photos: Sequence[tuple[str, NDArray[np.uint8], NDArray[np.float64]]],
) -> list[Mask]:
    """Return a mask ``(H, W)`` per photo of the person around its face: face, hair, neck, clothes, hat and glasses.

    Args:
        parser: a face parser of ``models.weights``.
        photos: name, ``(H, W, 3)`` RGB pixels and ``(5, 2)`` landmarks of each photo.
    """
    from models.alignment import invert
    from models.parser import CLASSES
    from pipeline.counterfactuals.editors.base import Subject
    from pipeline.counterfactuals.mask import chances_of, locate, parser_view

    subjects = [Subject(photo=name, pixels=pixels, landmarks=points, own={}) for name, pixels, points in photos]
    chances = chances_of(parser, subjects)
    masks = []
    for subject, each in zip(subjects, chances, strict=True):
        height, width = subject.pixels.shape[:2]
        mask = np.zeros((height, width), dtype=bool)
        view = parser_view(subject.landmarks, size=each.shape[-1])
        patch = locate(1 - each[CLASSES.index("background")], to_photo=invert(view), shape=(height, width))
        if patch is not None:
            mask[patch.window] = patch.mask >= HALF
        masks.append(mask)
    return masks


def boxes_of(people: Sequence[Mask]) -> list[tuple[slice, slice]]:
    """Return the bounding box (rows, columns) of each person with at least one pixel."""
    boxes = []
    for mask in people:
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            boxes.append((slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)))
    return boxes


def hidden_pixels(condition: str, people: Sequence[Mask], *, shape: tuple[int, int], seed: Mapping[str, Any]) -> Mask:
    """Return the pixels of a photo that a condition hides.

    Args:
        condition: one of ``CONDITIONS``.
        people: ``(H, W)`` masks.
        shape: height and width.
        seed: identifies the photo, for the random pixels.

    Source:
        Wang & Russakovsky 2021, Table 1.
    """
    from pipeline.run.files import digest

    hidden = np.zeros(shape, dtype=bool)
    for mask in people:
        hidden |= mask
    if condition == "full":
        return np.zeros(shape, dtype=bool)
    if condition == "only-person":
        return ~hidden
    if condition.endswith("box"):
        for rows, columns in boxes_of(people):
            hidden[rows, columns] = True
    if condition.startswith("noisy"):
        random = np.random.default_rng(int(digest(dict(seed)), 16))
        hidden &= random.random(shape) < HALF
    return hidden


CONDITIONS = {
    "full": "the unchanged photo",
    "box": "the people's boxes are black",
    "segment": "the people's pixels are black",
    "noisy-box": "half of the pixels in the people's boxes, drawn at random, are black",
    "noisy-segment": "half of the people's pixels, drawn at random, are black",
    "only-person": "everything except the people is black",
}
