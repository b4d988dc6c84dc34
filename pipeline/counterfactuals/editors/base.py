"""The contract of an editor: faces and wanted values in, edited crops or whole images out.

Where an edit is put back into the photo, its files, checks and placebos of colour are the same for every editor.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from models.alignment import similarity_to_template
from models.fader import Fader
from pipeline.config.attributes import Attribute

CROP = Fader.size  # pixels a side of an aligned crop


@dataclass(frozen=True)
class Subject:
    """One face to edit.

    Attributes:
        photo: the photo's name.
        pixels: the whole photo ``(H, W, 3)`` uint8 RGB.
        landmarks: ``(5, 2)`` in the photo's pixels.
        own: the face's own estimated values by the columns of the faces table.
    """

    photo: str
    pixels: NDArray[np.uint8]
    landmarks: NDArray[np.float64]
    own: Mapping[str, float]

    @cached_property
    def to_crop(self) -> NDArray[np.float64]:
        """The ``(2, 3)`` transform from photo to aligned crop pixels."""
        return similarity_to_template(self.landmarks, size=CROP)

    @property
    def crop_side(self) -> float:
        """The side of the aligned crop in photo pixels."""
        return CROP / float(np.hypot(*self.to_crop[:, 0]))

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width of the photo."""
        return self.pixels.shape[0], self.pixels.shape[1]


@dataclass(frozen=True)
class Patch:
    """The part of a photo that may change: its ``top`` and ``left`` pixel and the mask ``(h, w)`` there, in 0..1."""

    top: int
    left: int
    mask: NDArray[np.float32]

    @property
    def window(self) -> tuple[slice, slice]:
        """Where the patch lies in the photo, as slices of rows and columns."""
        height, width = self.mask.shape
        return slice(self.top, self.top + height), slice(self.left, self.left + width)


@dataclass(frozen=True)
class Composite:
    """One version of a photo. ``clipped_share``: of the mask's pixels, how many hit black or white by the edit."""

    pixels: NDArray[np.uint8]
    clipped_share: float


@dataclass(frozen=True)
class Edit:
    """One attribute's sweep of ``B`` faces, or a placebo of it, in aligned crops.

    Attributes:
        attribute: the attribute's name.
        arm: ``EDIT_ARM``, or the placebo's name.
        values: the sweep's K values.
        changes: ``(B, K, 128, 128, 3)`` float32 pixel levels: what ``delta`` adds to the photo.
        faces: of the same shape: what ``reconstruction`` pastes.
    """

    attribute: str
    arm: str
    values: tuple[float, ...]
    changes: NDArray[np.float32]
    faces: NDArray[np.float32]

    def at(self, values: tuple[float, ...]) -> "Edit":
        """The same edit at some of its values."""
        places = [int(np.abs(np.subtract(self.values, value)).argmin()) for value in values]
        return replace(self, values=values, changes=self.changes[:, places], faces=self.faces[:, places])


@dataclass(frozen=True)
class PhotoVersions:
    """The K versions of one photo as the editor has put them back.

    Attributes:
        photo: its pixels ``(H, W, 3)`` uint8 RGB.
        own: the value at which it is unchanged.
        patch: where it may change; elsewhere every version is the photo's own, bit for bit.
        versions: from the lowest value to the highest.
    """

    photo: NDArray[np.uint8]
    own: float
    patch: Patch
    versions: tuple[Composite, ...]


@dataclass(frozen=True)
class PhotoEdit:
    """One attribute's sweep of a batch of faces by an editor that puts its edits back into the photos itself.

    Attributes:
        attribute, arm, values: as in `Edit`.
        make: the place of a face in the batch -> its versions; None where nothing of the photo may change. Called once
            a face, so that no more than one photo's versions are held at a time.
    """

    attribute: str
    arm: str
    values: tuple[float, ...]
    make: Callable[[int], PhotoVersions | None]


@dataclass(frozen=True)
class Direction:
    """Which of the random directions a face's placebo goes along, and which way (-1 or 1) above its own value."""

    number: int = 0
    way: int = 1

    def name_of(self, attribute: str) -> str:
        """What its random numbers are drawn by, next to the seed."""
        return f"{attribute} {self.number}" if self.number else attribute


class FaceBatch(Protocol):
    """``B`` faces as an editor has read them, once for all their sweeps."""

    @property
    def crops(self) -> Tensor:
        """The aligned crops ``(B, 3, 128, 128)`` in -1..1."""
        ...

    @property
    def null(self) -> Tensor:
        """The null edit, each face with its own values, of the same shape; `crops` where nothing is decoded."""
        ...

    def null_of(self, crops: Tensor) -> Tensor:
        """The null edit of other crops of the same faces, such as the null edit itself."""
        ...

    def edit(self, attribute: Attribute, values: tuple[float, ...]) -> Edit | PhotoEdit:
        """One attribute's sweep; all other attributes stay the faces' own.

        Raises:
            ValueError: the editor cannot change this attribute.
        """
        ...


@runtime_checkable
class CodedFaces(FaceBatch, Protocol):
    """Faces read as codes, which can be changed along any direction."""

    def random_placebo(
        self,
        attribute: Attribute,
        edit: Edit,
        masks: NDArray[np.float32],
        *,
        seed: int,
        dealt: "Sequence[Direction] | None" = None,
    ) -> Edit:
        """A change without meaning, as large as the edit inside ``masks`` ``(B, 128, 128)`` at each value.

        Args:
            attribute, edit, masks: the real edit, of what, and where.
            seed: of the directions.
            dealt: the direction of each face; the first of them for all unless given.
        """
        ...


class Editor(Protocol):
    """Changes attributes of faces."""

    def read(self, subjects: Sequence[Subject], near: NDArray[np.float32] | None = None) -> FaceBatch:
        """Read a batch of faces.

        Args:
            subjects: these.
            near: ``(B, 19, S, S)`` what ``mask.chances_of`` found in them, where it is known already.
        """
        ...


def to_levels(units: Tensor) -> NDArray[np.float32]:
    """``(..., 3, S, S)`` in network units as ``(..., S, S, 3)`` pixel levels around 0."""
    return np.ascontiguousarray((units * 127.5).movedim(-3, -1).numpy())


def placebo(edit: Edit, arm: str, changes: NDArray[np.float32], *, null: Tensor) -> Edit:
    """An edit's placebo: other changes ``(B, K, 128, 128, 3)``, pasted on the null edit ``(B, 3, 128, 128)``."""
    return replace(edit, arm=arm, changes=changes, faces=changes + to_levels(null[:, None]) + np.float32(127.5))
