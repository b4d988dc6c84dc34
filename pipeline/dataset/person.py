"""Where the people of a photo are: from COCO annotations, or from the face parser around the face that was found."""

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
HALF = 0.5  # a pixel is the person's from this probability on


class Annotations:
    """The people in a COCO file of instances (Lin et al. 2014).

    Args:
        path: the JSON file.

    Raises:
        ConfigError: it cannot be read, is none of that format, or has no category "person"; or pycocotools, which
            reads the segments, is not installed.
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
            (category,) = [one["id"] for one in content["categories"] if one["name"] == PERSON]
            names = {one["id"]: Path(one["file_name"]).name for one in content["images"]}
            found: dict[str, list[dict[str, Any]]] = defaultdict(list)
            for one in content["annotations"]:
                if one["category_id"] == category:
                    found[names[one["image_id"]]].append(one)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ConfigError(f"{path} is no COCO file of instances with a category {PERSON!r} ({error})") from error
        self._known, self._people = set(names.values()), dict(found)

    def people(self, photo: str, *, height: int, width: int) -> list[Mask]:
        """``(H, W)`` masks of the people annotated in a photo, which is known by its file's name.

        Raises:
            KeyError: the file does not name the photo.
            ValueError: a segment cannot be decoded.
        """
        name = Path(photo).name
        if name not in self._known:
            raise KeyError(name)
        return [self._mask(one["segmentation"], height, width) for one in self._people.get(name, [])]

    def _mask(self, segment: Any, height: int, width: int) -> Mask:
        try:
            with warnings.catch_warnings():
                # pycocotools' arrays do not know numpy 2's way to ask for a copy.
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
        """A segment as run lengths: from polygons, from lists of counts, or as it is."""
        if isinstance(segment, list):
            return self._decoder.merge(self._decoder.frPyObjects(segment, height, width))
        return self._decoder.frPyObjects(segment, height, width) if isinstance(segment["counts"], list) else segment


def parsed_people(
    parser: "SmallParser | BiSeNet",
    photos: Sequence[tuple[str, NDArray[np.uint8], NDArray[np.float64]]],
) -> list[Mask]:
    """The person around each face, as far as the face parser sees: face, hair, neck, clothes, hat, glasses.

    Args:
        parser: of ``models.weights``.
        photos: name, ``(H, W, 3)`` RGB pixels and ``(5, 2)`` landmarks of each.

    Returns:
        One ``(H, W)`` mask a photo.
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
    """The smallest box of rows and columns around each person; a person without a pixel has none."""
    boxes = []
    for mask in people:
        rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
        if len(rows):
            boxes.append((slice(int(rows[0]), int(rows[-1]) + 1), slice(int(columns[0]), int(columns[-1]) + 1)))
    return boxes


def hidden_pixels(condition: str, people: Sequence[Mask], *, shape: tuple[int, int], seed: Mapping[str, Any]) -> Mask:
    """Which pixels of a photo a condition hides.

    Args:
        condition: one of ``CONDITIONS``.
        people: ``(H, W)`` masks.
        shape: height and width.
        seed: names the photo; the same one hides the same pixels.

    Source:
        Wang & Russakovsky 2021, Table 1: people hidden by their boxes, by their segments, or by half of the segments'
        pixels drawn at random; and the people alone.
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
    "full": "the photo as it is",
    "box": "the people's boxes are black",
    "segment": "the people's pixels are black",
    "noisy-box": "half of the pixels in the people's boxes, drawn at random, are black",
    "noisy-segment": "half of the people's pixels, drawn at random, are black",
    "only-person": "all but the people is black",
}
