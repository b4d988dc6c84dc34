"""The sweeps of a batch of faces: for each attribute the edit, and the placebos of it that are wanted.

Tensors in, arrays out; nothing here touches a disk. A finding that a placebo also shows is not a finding.
"""

from collections.abc import Iterator, Sequence
from hashlib import sha256

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.config.attributes import Attribute
from pipeline.config.options import SweepOptions
from pipeline.counterfactuals.editors.base import (
    Direction,
    Edit,
    FaceBatch,
    ImageEdit,
    PhotoEdit,
    PhotoVersions,
    placebo,
)
from pipeline.counterfactuals.mask import add_change

DIRECTIONS = 3  # of random placebos


def edits_of(
    faces: FaceBatch, photos: Sequence[str], attribute: Attribute, masks: NDArray[np.float32], *, options: SweepOptions
) -> Iterator[Edit | ImageEdit | PhotoEdit]:
    """One attribute's edit, then its placebos; whole images that others made have none.

    Args:
        faces: as the editor has read them.
        photos: their names.
        attribute: what is swept, between its poles.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
        options: the sweep's values and placebos.
    """
    edit = faces.edit(attribute, options.values(attribute.name))
    yield edit
    if isinstance(edit, ImageEdit):
        return
    seed = options.placebo_seed
    dealt = [direction_of(photo, seed=seed) for photo in photos]
    for arm in options.placebos:
        values = options.values(attribute.name, arm)
        if isinstance(edit, PhotoEdit):
            fewer = faces.edit(attribute, values)
            if isinstance(fewer, PhotoEdit):
                yield photo_placebo(fewer, arm, seed=seed, dealt=dealt)
        elif arm == "colour":
            yield colour_placebo(edit.at(values), masks, null=faces.null)
        else:
            yield faces.random_placebo(attribute, edit.at(values), masks, seed=seed, dealt=dealt)


def direction_of(photo: str, *, seed: int) -> Direction:
    """The random direction that a photo is dealt, either way round, by its name and the seed.

    Over many photos what a classifier makes of single directions cancels; what it makes of being edited at all stays.
    """
    number = int(sha256(f"{seed} {photo}".encode("utf-8", "surrogateescape")).hexdigest()[:8], 16)
    return Direction(number // 2 % DIRECTIONS, 2 * (number % 2) - 1)


def photo_placebo(edit: PhotoEdit, arm: str, *, seed: int, dealt: Sequence[Direction] | None = None) -> PhotoEdit:
    """A placebo of an edit that lies in the photos already: in every version, as large as the edit (RMS in its mask).

    Args:
        edit: the real one.
        arm: "colour": its mean change of colour, the same in every pixel; "random": a smooth pattern of light without
            a mean.
        seed: of the random patterns.
        dealt: the direction of each face; the first of them for all unless given.
    """

    def make(place: int) -> PhotoVersions | None:
        made = edit.make(place)
        if made is None:
            return None
        photo, patch = made.photo, made.patch
        before = photo[patch.window].astype(np.float32)
        area = max(float(patch.mask.sum()), 1e-6)
        direction = dealt[place] if dealt is not None else Direction()
        pattern = direction.way * random_pattern(direction.name_of(edit.attribute), seed=seed)
        light = cv2.resize(pattern, patch.mask.shape[::-1], interpolation=cv2.INTER_CUBIC)
        light = light - float((light * patch.mask).sum()) / area
        versions = []
        for value, version in zip(edit.values, made.versions, strict=True):
            change = version.pixels[patch.window].astype(np.float32) - before
            mean = (change * patch.mask[..., None]).sum(axis=(0, 1)) / area
            if arm != "colour":
                size = np.sqrt(float((change**2).sum()) / 3 / area)
                size /= max(float(np.sqrt((light**2 * patch.mask).sum() / area)), 1e-6)
                # One way below the face's own value and the other way above it, as the edit.
                sign = 1.0 if value >= made.own else -1.0
                spread = np.broadcast_to((sign * size * light)[..., None], change.shape)
            else:
                spread = np.broadcast_to(mean, change.shape)
            versions.append(add_change(photo, patch, np.asarray(spread, dtype=np.float32)))
        return PhotoVersions(photo, made.own, patch, tuple(versions))

    return PhotoEdit(edit.attribute, arm, edit.values, make)


def random_pattern(name: str, *, seed: int) -> NDArray[np.float32]:
    """A smooth pattern of light ``(5, 5)``, by name and seed alone."""
    number = int(sha256(f"{seed} {name}".encode()).hexdigest()[:12], 16)
    return np.random.default_rng(number).standard_normal((5, 5)).astype(np.float32)


def colour_placebo(edit: Edit, masks: NDArray[np.float32], *, null: Tensor) -> Edit:
    """Only the mean colour shift of the edit, the same in every pixel.

    Args:
        edit: the real one.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
        null: the faces' null edit ``(B, 3, 128, 128)``.
    """
    area = masks.sum(axis=(1, 2)).clip(1e-6)
    means = np.einsum("bkhwc,bhw->bkc", edit.changes, masks) / area[:, None, None]
    flat = np.broadcast_to(means[:, :, None, None], edit.changes.shape)
    return placebo(edit, "colour", np.ascontiguousarray(flat, dtype=np.float32), null=null)


@torch.inference_mode()
def null_cycles(faces: FaceBatch, masks: Tensor, *, cycles: int) -> Tensor:
    """The crops ``(B, 3, 128, 128)`` after so many null edits in `reconstruction` mode, each of the one before.

    Args:
        faces: as the editor has read them.
        masks: ``(B, 1, 128, 128)`` in 0..1: where the decoded face is pasted.
        cycles: 1 or more.
    """
    crops = faces.crops
    for _ in range(cycles):
        crops = crops + masks * (faces.null_of(crops) - crops)
    return crops
