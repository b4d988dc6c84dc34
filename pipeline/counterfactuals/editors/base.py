"""The interface of editors: faces and target values in, edited crops or whole images out.

Compositing, files, checks and colour placebos are the same for all editors.
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

CROP = Fader.size  # side of an aligned crop in pixels


@dataclass(frozen=True)
class Subject:
    """One face to edit.

    Attributes:
        photo: the photo's name.
        pixels: the whole photo ``(H, W, 3)`` uint8 RGB.
        landmarks: ``(5, 2)`` in the photo's pixels.
        own: the face's own estimated values, by column of the faces table.
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
        """Position of the patch in the photo, as slices of rows and columns."""
        height, width = self.mask.shape
        return slice(self.top, self.top + height), slice(self.left, self.left + width)


@dataclass(frozen=True)
class Composite:
    """A version of a photo. ``clipped_share``: share of the mask's pixels that the edit pushed to black or white."""

    pixels: NDArray[np.uint8]
    clipped_share: float


@dataclass(frozen=True)
class Edit:
    """One attribute's sweep of ``B`` faces, or a placebo of it, in aligned crops.

    Attributes:
        attribute: the attribute's name.
        arm: ``EDIT_ARM``, or the placebo's name.
        values: the sweep's K values.
        changes: ``(B, K, 128, 128, 3)`` float32 pixel levels that ``delta`` adds to the photo.
        faces: of the same shape, pasted by ``reconstruction``.
    """

    attribute: str
    arm: str
    values: tuple[float, ...]
    changes: NDArray[np.float32]
    faces: NDArray[np.float32]

    def at(self, values: tuple[float, ...]) -> "Edit":
        """Return the same edit at a part of its values."""
        places = [int(np.abs(np.subtract(self.values, value)).argmin()) for value in values]
        return replace(self, values=values, changes=self.changes[:, places], faces=self.faces[:, places])


@dataclass(frozen=True)
class PhotoVersions:
    """The K versions of one photo, composited by the editor.

    Attributes:
        photo: its pixels ``(H, W, 3)`` uint8 RGB.
        own: the value at which it is unchanged.
        patch: where it may change; elsewhere every version equals the photo bit for bit.
        versions: from the lowest value to the highest.
    """

    photo: NDArray[np.uint8]
    own: float
    patch: Patch
    versions: tuple[Composite, ...]


@dataclass(frozen=True)
class PhotoEdit:
    """One attribute's sweep of a batch of faces by an editor that composites its edits itself.

    Attributes:
        attribute, arm, values: as in `Edit`.
        make: maps the index of a face in the batch to its versions; None if no pixel may change. Called once per face,
            so that only one photo's versions are in memory at a time.
    """

    attribute: str
    arm: str
    values: tuple[float, ...]
    make: Callable[[int], PhotoVersions | None]


@dataclass(frozen=True)
class Direction:
    """The random direction of a face's placebo, and its sign (-1 or 1) above the face's own value."""

    number: int = 0
    way: int = 1

    def name_of(self, attribute: str) -> str:
        """Return the name that, with the seed, determines the random numbers."""
        return f"{attribute} {self.number}" if self.number else attribute


class FaceBatch(Protocol):
    """``B`` faces, read once by an editor for all their sweeps."""

    @property
    def crops(self) -> Tensor:
        """The aligned crops ``(B, 3, 128, 128)`` in -1..1."""
        ...

    @property
    def null(self) -> Tensor:
        """The null edit (each face with its own values), of the same shape; `crops` if nothing is decoded."""
        ...

    def null_of(self, crops: Tensor) -> Tensor:
        """Return the null edit of other crops of the same faces, such as the null edit itself."""
        ...

    def edit(self, attribute: Attribute, values: tuple[float, ...]) -> Edit | PhotoEdit:
        """Sweep one attribute; all other attributes keep the faces' own values.

        Raises:
            ValueError: the editor cannot change this attribute.
        """
        ...


@runtime_checkable
class CodedFaces(FaceBatch, Protocol):
    """Faces encoded as codes, which can be changed along any direction."""

    def random_placebo(
        self,
        attribute: Attribute,
        edit: Edit,
        masks: NDArray[np.float32],
        *,
        seed: int,
        dealt: "Sequence[Direction] | None" = None,
    ) -> Edit:
        """Return a meaningless change, as large as the edit inside ``masks`` ``(B, 128, 128)`` at each value.

        Args:
            attribute: the edited attribute.
            edit: the real edit.
            masks: where the crops may change.
            seed: seed of the directions.
            dealt: the direction of each face. Default: the first direction for all.
        """
        ...


class Editor(Protocol):
    """Changes attributes of faces."""

    def read(self, subjects: Sequence[Subject], near: NDArray[np.float32] | None = None) -> FaceBatch:
        """Read a batch of faces.

        Args:
            subjects: the faces.
            near: ``(B, 19, S, S)`` result of ``mask.chances_of`` for them, if known.
        """
        ...


def to_levels(units: Tensor) -> NDArray[np.float32]:
    """Convert ``(..., 3, S, S)`` in network units to ``(..., S, S, 3)`` pixel levels around 0."""
    return np.ascontiguousarray((units * 127.5).movedim(-3, -1).numpy())


def placebo(edit: Edit, arm: str, changes: NDArray[np.float32], *, null: Tensor) -> Edit:
    """Make an edit's placebo of other changes ``(B, K, 128, 128, 3)`` and the null edit ``(B, 3, 128, 128)``."""
    return replace(edit, arm=arm, changes=changes, faces=changes + to_levels(null[:, None]) + np.float32(127.5))
