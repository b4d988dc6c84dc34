"""The sweeps of a batch of faces: for each attribute the edit and its placebos.

This module reads and writes no files.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from pipeline.config.attributes import Attribute
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.editors.base import (
    CodedFaces,
    Direction,
    Edit,
    FaceBatch,
    Patch,
    PhotoEdit,
    PhotoVersions,
    placebo,
)
from pipeline.counterfactuals.mask import add_change

DIRECTIONS = 3  # of random placebos


def edits_of(
    faces: FaceBatch, photos: Sequence[str], attribute: Attribute, masks: NDArray[np.float32], *, options: SweepOptions
) -> Iterator[Edit | PhotoEdit]:
    """Yield one attribute's edit, then its placebos.

    Args:
        faces: the batch, read by the editor.
        photos: names of the photos.
        attribute: the swept attribute.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
        options: the sweep's values and placebos.
    """
    edit, seed = faces.edit(attribute, options.values(attribute.name)), options.placebo_seed
    dealt = [direction_of(photo, seed=seed) for photo in photos]
    if isinstance(edit, PhotoEdit):
        # The sizes of the edits are recorded for the placebos, so that the edits are not made twice.
        extents: dict[int, Extent] = {}
        yield replace(edit, make=lambda place: _recorded(edit, place, extents))
        for arm in options.placebos:
            yield photo_placebo(edit, extents, arm, options.values(attribute.name, arm), seed=seed, dealt=dealt)
        return
    yield edit
    for arm in options.placebos:
        values = options.values(attribute.name, arm)
        if arm == "colour":
            yield colour_placebo(edit.at(values), masks, null=faces.null)
        elif isinstance(faces, CodedFaces):
            yield faces.random_placebo(attribute, edit.at(values), masks, seed=seed, dealt=dealt)


@dataclass(frozen=True)
class Extent:
    """Sizes of the changes of a photo's K versions inside their mask.

    Attributes:
        photo, own, patch: as in ``PhotoVersions``.
        means: ``(K, 3)`` mean change of each channel, in levels.
        sizes: ``(K,)`` root mean square of the change beyond that mean.
    """

    photo: NDArray[np.uint8]
    own: float
    patch: Patch
    means: NDArray[np.float64]
    sizes: NDArray[np.float64]


def _recorded(edit: PhotoEdit, place: int, extents: dict[int, Extent]) -> PhotoVersions | None:
    """Make a face's versions and record the size of their changes."""
    made = edit.make(place)
    if made is not None:
        window, mask = made.patch.window, made.patch.mask.ravel()
        before, area = made.photo[window].astype(np.float32), max(float(mask.sum()), 1e-6)
        changes = [(version.pixels[window] - before).reshape(-1, 3) for version in made.versions]
        inside = np.array([mask @ change for change in changes], dtype=np.float64)
        means = inside / area
        # The sum of squares of each change minus mask * mean, expanded.
        squares = np.array([np.vdot(change, change) for change in changes], dtype=np.float64)
        rest = squares - 2 * (means * inside).sum(axis=1) + (means**2).sum(axis=1) * float(mask @ mask)
        sizes = np.sqrt(np.maximum(rest, 0) / 3 / area)
        extents[place] = Extent(made.photo, made.own, made.patch, means, sizes)
    return made


def direction_of(photo: str, *, seed: int) -> Direction:
    """Return the random direction and sign assigned to a photo by its name and the seed.

    Over many photos the effects of single directions on a classifier cancel, and the effect of being edited remains.
    """
    number = int(sha256(f"{seed} {photo}".encode("utf-8", "surrogateescape")).hexdigest()[:8], 16)
    return Direction(number // 2 % DIRECTIONS, 2 * (number % 2) - 1)


def photo_placebo(
    edit: PhotoEdit,
    extents: Mapping[int, Extent],
    arm: str,
    values: tuple[float, ...],
    *,
    seed: int,
    dealt: Sequence[Direction],
) -> PhotoEdit:
    """Make a placebo of an edit that is composited by its editor; each version is as large as a part of the edit.

    The two placebos share the edit's size (RMS in its mask), because a pattern of light as large as a shift of skin
    tone would look like a mask.

    Args:
        edit: the real edit.
        extents: sizes of the edits by index of the face; a face without an entry has no placebo.
        arm: "colour": the mean change of colour, the same in every pixel; "random": a smooth pattern of light without
            a mean, as large as the edit's change beyond its mean.
        values: the placebo's values, a subset of the edit's.
        seed: seed of the random patterns.
        dealt: the direction of each face.
    """

    def make(place: int) -> PhotoVersions | None:
        if place not in extents:
            return None
        known, direction = extents[place], dealt[place]
        mask = known.patch.mask
        area = max(float(mask.sum()), 1e-6)
        pattern = direction.way * random_pattern(direction.name_of(edit.attribute), seed=seed)
        light = cv2.resize(pattern, mask.shape[::-1], interpolation=cv2.INTER_CUBIC)
        light = light - float((light * mask).sum()) / area
        light /= max(float(np.sqrt((light**2 * mask).sum() / area)), 1e-6)
        versions = []
        for value in values:
            step = int(np.abs(np.subtract(edit.values, value)).argmin())
            if arm == "colour":
                spread = np.broadcast_to(known.means[step], (*mask.shape, 3))
            else:
                # Opposite signs below and above the face's own value, as in the edit.
                sign = 1.0 if value >= known.own else -1.0
                spread = np.broadcast_to((sign * known.sizes[step] * light)[..., None], (*mask.shape, 3))
            versions.append(add_change(known.photo, known.patch, np.asarray(spread, dtype=np.float32)))
        return PhotoVersions(known.photo, known.own, known.patch, tuple(versions))

    return PhotoEdit(edit.attribute, arm, values, make)


def random_pattern(name: str, *, seed: int) -> NDArray[np.float32]:
    """Return a smooth pattern of light ``(5, 5)`` that depends only on name and seed."""
    number = int(sha256(f"{seed} {name}".encode()).hexdigest()[:12], 16)
    return np.random.default_rng(number).standard_normal((5, 5)).astype(np.float32)


def colour_placebo(edit: Edit, masks: NDArray[np.float32], *, null: Tensor) -> Edit:
    """Make the colour placebo: the mean colour shift of the edit, the same in every pixel.

    Args:
        edit: the real edit.
        masks: ``(B, 128, 128)`` in 0..1: where each crop may change.
        null: the faces' null edit ``(B, 3, 128, 128)``.
    """
    area = masks.sum(axis=(1, 2)).clip(1e-6)
    means = np.einsum("bkhwc,bhw->bkc", edit.changes, masks) / area[:, None, None]
    flat = np.broadcast_to(means[:, :, None, None], edit.changes.shape)
    return placebo(edit, "colour", np.ascontiguousarray(flat, dtype=np.float32), null=null)


@torch.inference_mode()
def null_cycles(faces: FaceBatch, masks: Tensor, *, cycles: int) -> Tensor:
    """Return the crops ``(B, 3, 128, 128)`` after repeated null edits in `reconstruction` mode.

    Args:
        faces: the batch, read by the editor.
        masks: ``(B, 1, 128, 128)`` in 0..1: where the decoded face is pasted.
        cycles: number of repetitions, 1 or more.
    """
    crops = faces.crops
    for _ in range(cycles):
        crops = crops + masks * (faces.null_of(crops) - crops)
    return crops
