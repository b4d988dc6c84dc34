"""The residual editor's fields: what one unit of an attribute adds to an aligned face (Rowland and Perrett 1995).

They are differences of the groups' mean faces at three ages, as light, colour and displacement; an edit is a multiple
of them. Compositing into a photo is in ``pipeline.counterfactuals``.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.fader import ATTRIBUTES

COUNT = len(ATTRIBUTES)
LUMA_SIDE = 64  # light is changed at half the resolution of a crop of 128 pixels,
COARSE_SIDE = 16  # colour and position at an eighth, as in `models.fader.smooth_difference`
INNER = 0.14  # crop sides: width of the rim of a face over which displacements fade to zero
AGES = (25.0, 42.0, 60.0)  # years of the prototypes; fields are interpolated between them


@dataclass(frozen=True)
class ChangeFields:
    """Change by one unit of each attribute in the order of ``models.fader.ATTRIBUTES``, for ``B`` faces.

    ``luma`` ``(B, 8, 64, 64)`` in units of RGB -1..1; ``chroma`` ``(B, 8, 2, 16, 16)``, Cb and Cr in the same units;
    ``displacement`` ``(B, 8, 2, 16, 16)``: x and y, in crop sides, of the position from which a pixel is sampled.
    """

    luma: Tensor
    chroma: Tensor
    displacement: Tensor


@dataclass(frozen=True)
class Change:
    """A change of ``B`` faces: ``colour`` ``(B, 3, S, S)`` added in RGB -1..1, ``displacement`` ``(B, 2, S, S)`` in
    crop sides; or J changes of each, ``(B, J, …)``."""

    colour: Tensor
    displacement: Tensor


class Prototypes(nn.Module):
    """The symmetric fields of every attribute at each of `AGES`, and the strength of a unit of each attribute."""

    luma: Tensor
    chroma: Tensor
    displacement: Tensor
    strength: Tensor

    def __init__(self) -> None:
        super().__init__()
        ages = len(AGES)
        self.register_buffer("luma", torch.zeros(ages, COUNT, LUMA_SIDE, LUMA_SIDE))
        self.register_buffer("chroma", torch.zeros(ages, COUNT, 2, COARSE_SIDE, COARSE_SIDE))
        self.register_buffer("displacement", torch.zeros(ages, COUNT, 2, COARSE_SIDE, COARSE_SIDE))
        self.register_buffer("strength", torch.ones(COUNT))

    def forward(self, age: Tensor) -> ChangeFields:
        """Interpolate the fields of each face at its perceived age ``(B,)`` in years."""
        knots = torch.tensor(AGES)
        place = age.clamp(AGES[0], AGES[-1] - 1e-3)
        above = torch.searchsorted(knots, place, right=True)
        share = (place - knots[above - 1]) / (knots[above] - knots[above - 1])
        weights = torch.zeros(len(age), len(AGES))
        weights.scatter_(1, (above - 1)[:, None], (1 - share)[:, None]).scatter_(1, above[:, None], share[:, None])
        fields = (self.luma, self.chroma, self.displacement)
        return ChangeFields(*(torch.einsum("bt,tk...,k->bk...", weights, one, self.strength) for one in fields))


def changes_along(fields: ChangeFields, amounts: Tensor, *, size: int) -> Change:
    """Return J changes of each face, ``size`` pixels a side: sums of fields weighted by ``amounts`` ``(B, J, 8)``."""
    luma = torch.einsum("bahw,bja->bjhw", fields.luma, amounts).flatten(0, 1)[:, None]
    chroma, displacement = (
        torch.einsum("bachw,bja->bjchw", field, amounts).flatten(0, 1) for field in (fields.chroma, fields.displacement)
    )
    cb, cr = _resized(chroma, size).split(1, dim=1)
    luma = _resized(luma, size)
    # BT.601: luma and colour differences to RGB.
    colour = torch.cat([luma + 1.402 * cr, luma - 0.344 * cb - 0.714 * cr, luma + 1.772 * cb], dim=1)
    apart = amounts.shape[:2]
    return Change(colour.unflatten(0, apart), _resized(displacement, size).unflatten(0, apart))


def inner(masks: Tensor) -> Tensor:
    """Shrink masks ``(B, 1, S, S)`` so that they fall to zero inside the face and no content outside it is sampled."""
    size = 2 * round(INNER * masks.shape[-1] / 2) + 1
    # The mean over a square, computed separably because that is much faster.
    mean = F.avg_pool2d(masks, (size, 1), stride=1, padding=(size // 2, 0))
    mean = F.avg_pool2d(mean, (1, size), stride=1, padding=(0, size // 2))
    return masks * (2 * mean - 1).clamp(0, 1)


def centred(change: Change, masks: Tensor) -> Change:
    """Subtract the mean colour inside ``masks`` ``(B, 1, S, S)``, because ``models.tone`` changes the skin tone."""
    shares = masks / masks.sum(dim=(2, 3), keepdim=True).clamp(min=1e-6)
    means = torch.einsum("bhw,bjchw->bjc", shares[:, 0], change.colour)
    return Change(change.colour - means[..., None, None], change.displacement)


def displaced(images: Tensor, displacement: Tensor) -> Tensor:
    """Sample images ``(B, C, S, S)`` bilinearly at each pixel plus ``displacement`` ``(B, 2, S, S)`` in sides."""
    side = images.shape[-1]
    centres = (torch.arange(side, device=images.device, dtype=images.dtype) + 0.5) * 2 / side - 1
    y, x = torch.meshgrid(centres, centres, indexing="ij")
    grid = torch.stack([x, y], dim=-1) + 2 * displacement.permute(0, 2, 3, 1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def symmetric(field: Tensor) -> Tensor:
    """Return the mean of a field ``(..., H, W)`` and its mirror image."""
    return (field + field.flip(-1)) / 2


def mirrored_displacement(field: Tensor) -> Tensor:
    """Mirror a displacement ``(..., 2, H, W)``, which also reverses its x component."""
    sign = field.new_tensor([-1.0, 1.0])[:, None, None]
    return sign * field.flip(-1)


def _resized(fields: Tensor, size: int) -> Tensor:
    """Resize fields ``(N, C, s, s)`` to ``(N, C, size, size)``, bicubically; OpenCV is four times as fast as torch."""
    if fields.shape[-1] == size:
        return fields
    maps = [cv2.resize(one, (size, size), interpolation=cv2.INTER_CUBIC) for one in fields.flatten(0, 1).numpy()]
    resized: Tensor = torch.from_numpy(np.stack(maps)).unflatten(0, fields.shape[:2])
    return resized
