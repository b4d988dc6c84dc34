"""The sweep of a batch of faces: encode once, decode every value in one batch, find the region that may change.

Tensors in, arrays out; nothing here touches a disk or a whole photo's pixels beyond the aligned crops.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.alignment import invert, similarity_to_template, warp_to_template
from models.attributes import RACES
from models.fader import ATTRIBUTES, Fader, race_line, smooth_difference
from models.parser import BiSeNet, SmallParser, class_indices
from models.precision import autocast, unit_batch
from pipeline.config.attributes import EDIT_ARM
from pipeline.counterfactuals.compositing import Patch, feather, locate, trimmed, warp_into

CROP = Fader.size
# The parser sees a little more than the Fader network does: hair and neck tell it where the face ends.
PARSER_ZOOM = 0.8
SWEPT = ("gender", "race")
GENDER, RACE = ATTRIBUTES.index("gender"), slice(1, 1 + len(RACES))


@dataclass(frozen=True)
class Subject:
    """One face to edit: the photo's ``pixels`` ``(H, W, 3)`` uint8, its ``landmarks`` ``(5, 2)`` in pixels, and its
    ``own`` estimated attribute values ``(8,)`` in the order of ``models.fader.ATTRIBUTES``."""

    photo: str
    pixels: NDArray[np.uint8]
    landmarks: NDArray[np.float64]
    own: NDArray[np.float32]

    @property
    def to_crop(self) -> NDArray[np.float64]:
        """The ``(2, 3)`` transform from photo to aligned crop pixels."""
        return similarity_to_template(self.landmarks, size=CROP)


@dataclass(frozen=True)
class Encoded:
    """A batch of ``B`` faces as the Fader network has them: ``crops`` ``(B, 3, 128, 128)`` in -1..1, their ``codes``,
    their ``own`` values ``(B, 8)``, and ``null``, the null edit: the codes decoded with their own values."""

    crops: Tensor
    codes: Tensor
    own: Tensor
    null: Tensor


@dataclass(frozen=True)
class Edit:
    """One attribute's sweep of ``B`` faces, or a placebo of it (``arm``).

    ``changes`` ``(B, K, 128, 128, 3)`` float32 pixel levels: what ``delta`` adds at each value. ``faces`` of the same
    shape: what ``reconstruction`` pastes.
    """

    attribute: str
    arm: str
    values: tuple[float, ...]
    changes: NDArray[np.float32]
    faces: NDArray[np.float32]


def crops_of(subjects: Sequence[Subject]) -> Tensor:
    """The aligned crops ``(B, 3, 128, 128)`` in -1..1."""
    return unit_batch([warp_to_template(subject.pixels, subject.to_crop, size=CROP) for subject in subjects])


@torch.inference_mode()
def encode(fader: Fader, crops: Tensor, own: Tensor) -> Encoded:
    """Encode a batch of faces once for all their sweeps.

    Args:
        fader: the network.
        crops: ``(B, 3, 128, 128)`` in -1..1.
        own: ``(B, 8)`` the faces' own estimated values.
    """
    with autocast():
        codes = fader.encode(crops.contiguous(memory_format=torch.channels_last)).float()
    return Encoded(crops, codes, own, decode(fader, codes, own))


def decode(fader: Fader, codes: Tensor, values: Tensor) -> Tensor:
    """Codes ``(B, 256, 8, 8)`` and attribute values ``(B, 8)`` -> faces ``(B, 3, 128, 128)`` in -1..1."""
    with autocast():
        return fader.decode(codes.contiguous(memory_format=torch.channels_last), values).float()


@torch.inference_mode()
def edit_of(
    fader: Fader, encoded: Encoded, *, attribute: str, values: tuple[float, ...], race_pair: tuple[str, str]
) -> Edit:
    """One attribute's sweep of a batch; all but the swept attribute stay at the faces' own values.

    Args:
        fader: the network.
        encoded: the faces.
        attribute: gender or race.
        values: the sweep's K values.
        race_pair: the races at -1 and +1.
    """
    wanted = targets(encoded.own, attribute, values, race_pair=race_pair)
    codes = encoded.codes.repeat_interleave(len(values), dim=0)
    versions = decode(fader, codes, wanted.flatten(0, 1)).unflatten(0, wanted.shape[:2])
    null = encoded.null[:, None].expand_as(versions)
    versions = null + float(fader.strength[SWEPT.index(attribute)]) * (versions - null)
    changes = smooth_difference(versions.flatten(0, 1), null.flatten(0, 1)).unflatten(0, versions.shape[:2])
    return Edit(attribute, EDIT_ARM, values, to_levels(changes), to_levels(versions) + np.float32(127.5))


@torch.inference_mode()
def null_cycles(fader: Fader, encoded: Encoded, masks: Tensor, *, cycles: int) -> Tensor:
    """The crops ``(B, 3, 128, 128)`` after so many null edits in `reconstruction` mode, each of the one before.

    Args:
        fader: the network.
        encoded: the faces.
        masks: ``(B, 1, 128, 128)`` in 0..1: where the decoded face is pasted.
        cycles: 1 or more.
    """
    crops = encoded.crops
    for _ in range(cycles):
        crops = crops + masks * (encode(fader, crops, encoded.own).null - crops)
    return crops


def dial_of(own: Tensor, attribute: str, *, race_pair: tuple[str, str]) -> Tensor:
    """Where faces ``(B, 8)`` are on an attribute's dial ``(B,)``.

    At this value of gender the photo is unchanged. The dial of race is the line between two races; a face that is
    also perceived as of a third lies beside it, and is changed at every value.
    """
    if attribute == "gender":
        return own[:, GENDER]
    low, high = (own[:, RACE][:, RACES.index(race)] for race in race_pair)
    return high - low


def targets(own: Tensor, attribute: str, values: tuple[float, ...], *, race_pair: tuple[str, str]) -> Tensor:
    """The attribute values ``(B, K, 8)`` of a sweep: ``own`` ``(B, 8)`` with one attribute replaced."""
    dial = torch.tensor(values)
    rows = own[:, None].repeat(1, len(values), 1)
    if attribute == "gender":
        rows[:, :, GENDER] = dial
    elif attribute == "race":
        low, high = (torch.full((len(values),), RACES.index(race)) for race in race_pair)
        rows[:, :, RACE] = race_line(dial, low, high)
    else:
        raise ValueError(f"attribute {attribute!r} cannot be swept; there are gender and race")
    return rows


def to_levels(units: Tensor) -> NDArray[np.float32]:
    """``(..., 3, S, S)`` in network units as ``(..., S, S, 3)`` pixel levels around 0."""
    return np.ascontiguousarray((units * 127.5).movedim(-3, -1).numpy())


@torch.inference_mode()
def patches_of(
    parser: SmallParser | BiSeNet,
    subjects: Sequence[Subject],
    *,
    region: Sequence[str],
    feather_share: float,
    within_crop: bool = False,
) -> list[Patch | None]:
    """Where each face may change: its region of the named classes, feathered inwards, in photo pixels.

    Args:
        region: class or group names of ``models.parser``.
        feather_share: width of the soft edge in crop sides.
        within_crop: leave out what lies beyond the Fader network's crop, such as a high forehead. A change may be
            carried on beyond the crop's edge; a decoded face may not.

    Returns:
        One patch a face; None where no pixel of the region was found.
    """
    size = parser.size
    views = [parser_view(subject.landmarks, size=size) for subject in subjects]
    images = [warp_to_template(s.pixels, view, size=size) for s, view in zip(subjects, views, strict=True)]
    with autocast():
        logits = parser(unit_batch(images).contiguous(memory_format=torch.channels_last)).float()
    inside = logits.softmax(dim=1)[:, list(class_indices(region))].sum(dim=1).numpy()
    patches = []
    for subject, view, membership in zip(subjects, views, inside, strict=True):
        if within_crop:
            membership = _within_crop(membership, view, subject.to_crop)
        patch = locate(
            membership,
            to_photo=invert(view),
            shape=(subject.pixels.shape[0], subject.pixels.shape[1]),
        )
        if patch is not None:
            side = CROP / float(np.hypot(*subject.to_crop[:, 0]))
            patch = trimmed(Patch(patch.top, patch.left, feather(patch.mask, pixels=feather_share * side)))
        patches.append(patch)
    return patches


def parser_view(landmarks: NDArray[np.float64], *, size: int) -> NDArray[np.float64]:
    """The transform from photo to the parser's input: the template, zoomed out around its centre."""
    view = similarity_to_template(landmarks, size=size) * PARSER_ZOOM
    view[:, 2] += (1 - PARSER_ZOOM) * size / 2
    return view


def _within_crop(
    membership: NDArray[np.float32], view: NDArray[np.float64], to_crop: NDArray[np.float64]
) -> NDArray[np.float32]:
    """The membership, zero where the Fader network's crop does not reach."""
    size = membership.shape[0]
    full = np.vstack([to_crop, [0, 0, 1]]) @ np.linalg.inv(np.vstack([view, [0, 0, 1]]))
    rows, columns = np.mgrid[0:size, 0:size]
    places = full[:2] @ np.stack([columns.ravel(), rows.ravel(), np.ones(size * size)])
    reach = (np.abs(places - (CROP - 1) / 2) <= CROP / 2 - 1).all(axis=0).reshape(size, size)
    return np.where(reach, membership, 0).astype(np.float32)


def crop_mask(subject: Subject, patch: Patch) -> NDArray[np.float32]:
    """The patch's mask as it lies over the aligned crop, ``(128, 128)`` in 0..1."""
    from_patch = subject.to_crop.copy()
    from_patch[:, 2] += from_patch[:, :2] @ (patch.left, patch.top)
    mask = cv2.warpAffine(patch.mask, from_patch, (CROP, CROP), flags=cv2.INTER_LINEAR)
    return np.asarray(mask, dtype=np.float32)


def to_patch(image: NDArray[np.float32], subject: Subject, patch: Patch) -> NDArray[np.float32]:
    """A crop-sized image ``(128, 128, 3)`` as it lies over the patch of the photo, ``(h, w, 3)``."""
    height, width = patch.mask.shape
    return warp_into(image, to_photo=invert(subject.to_crop), window=(patch.top, patch.left, height, width))
