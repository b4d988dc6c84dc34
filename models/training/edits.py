"""Edits for training the Fader network: target values of each face, and the resulting composite."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

from models.attributes import RACES
from models.fader import GENDER, RACE, category_line, smooth_difference
from models.judge import Perception, young_from_age
from models.precision import to_unit
from models.training.data import FaceSet, flip_some, selection_rows, shifted, shifts

DEFAULT_PAIR = ("Black", "White")  # the races at -1 and +1


@dataclass(frozen=True)
class Edits:
    """Target values of a batch of faces.

    ``attributes`` ``(B, 8)`` are the decoder's inputs; ``value`` ``(B,)`` is that of the edited attribute, which is
    gender where ``of_gender`` ``(B,)`` is true, else race; ``low`` and ``high`` ``(B,)`` are the races at -1 and +1.
    """

    attributes: Tensor
    value: Tensor
    of_gender: Tensor
    low: Tensor
    high: Tensor


def own_attributes(faces: FaceSet, rows: Tensor) -> Tensor:
    """Return the labelled attribute values ``(B, 8)`` of faces."""
    race = F.one_hot(faces.race[rows], len(RACES)).float()
    young = young_from_age(faces.age[rows])
    return torch.cat([faces.gender[rows, None], race, young[:, None], faces.smiling[rows, None]], dim=1)


def draw_batch(
    faces: FaceSet, masks: NDArray[np.uint8], rows: Tensor, *, reach: float, random: torch.Generator, device: str
) -> tuple[Tensor, Tensor, Tensor, Edits]:
    """Draw a batch of shifted and mirrored faces, with edits.

    Returns:
        Crops ``(B, 3, 128, 128)`` in -1..1, masks ``(B, 1, 128, 128)`` in 0..1, own values ``(B, 8)`` and, on the CPU,
        edits; see ``draw_edits``.
    """
    shift = shifts(len(rows), reach=3, random=random)
    both = torch.cat([to_unit(faces.pixels(rows, shift)), mask_pixels(masks, rows, shift)], dim=1)
    both = flip_some(both, random).to(device, memory_format=torch.channels_last)
    own = own_attributes(faces, rows)
    edits = draw_edits(own, reach=reach, random=random)
    return both[:, :3], both[:, 3:], own.to(device), edits


def held_out_batch(
    faces: FaceSet, masks: NDArray[np.uint8], *, count: int | None, device: str
) -> tuple[Tensor, Tensor, Tensor]:
    """Return crops, masks and own values ``(B, 8)`` of about ``count`` held-out faces for model selection."""
    rows = selection_rows(faces)
    rows = rows if count is None else rows[:: max(1, len(rows) // count)]
    crops = to_unit(faces.pixels(rows)).to(device, memory_format=torch.channels_last)
    mask = mask_pixels(masks, rows).to(device)
    return crops, mask, own_attributes(faces, rows).to(device)


def draw_edits(own: Tensor, *, reach: float, random: torch.Generator) -> Edits:
    """Draw a gender value for half of the faces and a point on a race line for the others; keep all other values."""
    count = len(own)
    value = reach * (2 * torch.rand(count, generator=random) - 1)
    of_gender = torch.rand(count, generator=random) < 0.5
    low = torch.randint(len(RACES) - 1, (count,), generator=random)
    high = (low + torch.randint(1, len(RACES) - 1, (count,), generator=random)) % (len(RACES) - 1)
    # Half of the race edits use the default pair, the others any two of the first four races.
    default = torch.rand(count, generator=random) < 0.5
    low = torch.where(default, RACES.index(DEFAULT_PAIR[0]), low)
    high = torch.where(default, RACES.index(DEFAULT_PAIR[1]), high)
    attributes = own.clone()
    attributes[of_gender, GENDER] = value[of_gender]
    attributes[~of_gender, RACE] = category_line(value, low, high)[~of_gender]
    return Edits(attributes, value, of_gender, low, high)


def with_value(own: Tensor, attribute: str, value: float) -> Tensor:
    """Return attribute values ``(B, 8)`` with one of ``fader.SCALED`` at ``value``; race uses the default pair."""
    wanted, everywhere = own.clone(), torch.full((len(own),), value, device=own.device)
    if attribute == "gender":
        wanted[:, GENDER] = everywhere
    else:
        low, high = (torch.full((len(own),), RACES.index(race), device=own.device) for race in DEFAULT_PAIR)
        wanted[:, RACE] = category_line(everywhere, low, high)
    return wanted


def high_end(seen: Perception, attribute: str) -> Tensor:
    """Return the perceived probability ``(B,)`` of the end at +1: masculine, or the pair's second given the pair."""
    if attribute == "gender":
        return seen.masculine
    low, high = (seen.race[:, RACES.index(race)] for race in DEFAULT_PAIR)
    return high / (low + high)


def composite(photos: Tensor, masks: Tensor, edited: Tensor, reference: Tensor) -> Tensor:
    """Return the `delta` composite: ``photos + masks * (edited - reference)``, clipped to -1..1."""
    return (photos + masks * smooth_difference(edited, reference)).clamp(-1, 1)


def mask_pixels(masks: NDArray[np.uint8], rows: Tensor, shift: Tensor | None = None) -> Tensor:
    """Return masks ``(B, 1, 128, 128)`` in 0..1, shifted like the crops."""
    return torch.from_numpy(shifted(masks, rows, shift)).float()[:, None] / 255


def skin_tones(faces: FaceSet, masks: NDArray[np.uint8], rows: Tensor) -> Tensor:
    """Return the mean colour ``(5, 3)`` in -1..1 inside the masks of the faces labelled with each race."""
    sums, counts = torch.zeros(len(RACES), 3), torch.zeros(len(RACES), 1)
    for chunk in rows.split(256):
        crops = to_unit(faces.pixels(chunk))
        inside = mask_pixels(masks, chunk)
        means = (crops * inside).sum(dim=(2, 3)) / inside.sum(dim=(2, 3)).clamp(min=1)
        sums.index_add_(0, faces.race[chunk], means)
        counts.index_add_(0, faces.race[chunk], torch.ones(len(chunk), 1))
    return sums / counts.clamp(min=1)
