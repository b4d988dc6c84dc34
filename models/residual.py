"""The residual editor: what a change of an attribute's value adds to an aligned face (Shen and Liu 2017).

The network looks at a face once and returns fields of change (light, colour, displacement) for one unit of each
attribute;
any value is a sum of them, so an edit is zero at the face's own value and runs straight through a sweep. How the
fields are put into a photo is elsewhere (``pipeline.counterfactuals``).
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.fader import ATTRIBUTES

COUNT = len(ATTRIBUTES)
LUMA_SIDE = 64  # light is changed at half the resolution of a crop of 128 pixels,
COARSE_SIDE = 16  # colour and position at an eighth, as in `models.fader.smooth_difference`
INNER = 0.14  # crop sides: over so much of a face's rim, displacements fade to zero
# What one unit of the network's last layers means: RGB in -1..1, and the crop's sides.
LUMA_UNIT, CHROMA_UNIT, DISPLACEMENT_UNIT = 0.2, 0.1, 0.02


@dataclass(frozen=True)
class ChangeFields:
    """Change by one unit of each attribute in the order of ``models.fader.ATTRIBUTES``, for ``B`` faces.

    ``luma`` ``(B, 8, 64, 64)`` in units of RGB -1..1; ``chroma`` ``(B, 8, 2, 16, 16)``, Cb and Cr in the same units;
    ``displacement`` ``(B, 8, 2, 16, 16)``: x and y, in crop sides, of the place that a pixel's content is fetched from.
    """

    luma: Tensor
    chroma: Tensor
    displacement: Tensor


@dataclass(frozen=True)
class Change:
    """A change of ``B`` faces: ``colour`` ``(B, 3, S, S)`` added in RGB -1..1, ``displacement`` ``(B, 2, S, S)`` in
    crop sides."""

    colour: Tensor
    displacement: Tensor


class ResidualEditor(nn.Module):
    """A U-shaped network (Ronneberger et al. 2015) over crops of 64 pixels, added to fields common to all faces.

    The common fields (``*_template``) start as the differences of the groups' mean faces; the network adds what depends
    on the face. In evaluation mode every output is the mean of the face's and its mirror image's: no edit prefers one
    side.
    """

    size = LUMA_SIDE
    """Pixels a side of the input: the crop of 128 pixels, halved."""

    mixing: Tensor
    luma_template: Tensor
    chroma_template: Tensor
    displacement_template: Tensor

    def __init__(self, widths: tuple[int, int, int] = (32, 56, 96)) -> None:
        super().__init__()
        first, second, third = widths
        self.stem = _Block(12, first)
        self.down = nn.ModuleList([_Block(first, second, stride=2), _Block(second, third, stride=2)])
        self.middle = nn.ModuleList([_Block(third, third), _Block(third, third)])
        self.up = nn.ModuleList([_Block(third, second), _Block(second, first)])
        self.coarse = nn.Conv2d(second, 4 * COUNT, 3, padding=1)
        self.fine = nn.Conv2d(first, 4 * COUNT, 3, padding=1)
        for head in (self.coarse, self.fine):
            nn.init.zeros_(head.weight)
            nn.init.zeros_(head.bias)  # type: ignore[arg-type]  # built with a bias
        # Not trained: gradients turn them into what only classifiers see.
        self.register_buffer("luma_template", torch.zeros(COUNT, LUMA_SIDE, LUMA_SIDE))
        self.register_buffer("chroma_template", torch.zeros(COUNT, 2, COARSE_SIDE, COARSE_SIDE))
        self.register_buffer("displacement_template", torch.zeros(COUNT, 2, COARSE_SIDE, COARSE_SIDE))
        # One unit of the k-th attribute changes the face by the sum of ``mixing[k, j]`` times the j-th fields: the
        # diagonal
        # makes a value mean as much for all attributes, the rest takes out what drifts along (age, smile). Calibrated.
        self.register_buffer("mixing", torch.eye(COUNT))

    def forward(self, faces: Tensor) -> ChangeFields:
        """``(B, 3, 64, 64)`` RGB in -1..1 -> the fields of change of each face, calibrated by ``mixing``."""
        luma, chroma, displacement = self._one_sided(faces)
        if not self.training:
            # Half the cost in training, where every face is shown either way round in turn.
            luma_, chroma_, displacement_ = self._one_sided(faces.flip(3))
            luma, chroma = (luma + luma_.flip(3)) / 2, (chroma + chroma_.flip(4)) / 2
            displacement = (displacement + mirrored_displacement(displacement_)) / 2
        moved = (self.displacement_template + mirrored_displacement(self.displacement_template)) / 2
        return ChangeFields(
            luma=torch.einsum("kj,bjhw->bkhw", self.mixing, symmetric(self.luma_template) + luma),
            chroma=torch.einsum("kj,bjchw->bkchw", self.mixing, symmetric(self.chroma_template) + chroma),
            displacement=torch.einsum("kj,bjchw->bkchw", self.mixing, moved + displacement),
        )

    def common_luma(self) -> Tensor:
        """The light's fields common to all faces ``(8, 64, 64)``."""
        return torch.einsum("kj,jhw->khw", self.mixing, symmetric(self.luma_template))

    def _one_sided(self, faces: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        at32 = self.stem(F.pixel_unshuffle(faces, 2))
        at16 = self.down[0](at32)
        x = self.down[1](at16)
        for block in self.middle:
            x = x + block(x)
        x16 = at16 + self.up[0](F.interpolate(x, scale_factor=2.0, mode="nearest"))
        x32 = at32 + self.up[1](F.interpolate(x16, scale_factor=2.0, mode="nearest"))
        coarse = self.coarse(x16).unflatten(1, (COUNT, 4))
        luma = F.pixel_shuffle(self.fine(x32), 2)
        return LUMA_UNIT * luma, CHROMA_UNIT * coarse[:, :, :2], DISPLACEMENT_UNIT * coarse[:, :, 2:]


class _Block(nn.Sequential):
    def __init__(self, channels: int, width: int, *, stride: int = 1) -> None:
        super().__init__(
            nn.Conv2d(channels, width, 3, stride, 1), nn.GroupNorm(8, width), nn.LeakyReLU(0.2, inplace=True)
        )


def change_by(fields: ChangeFields, difference: Tensor, *, size: int) -> Change:
    """The change by ``difference`` ``(B, 8)`` (wanted minus own attribute values), at ``size`` pixels a side."""
    luma = torch.einsum("bahw,ba->bhw", fields.luma, difference)[:, None]
    chroma = torch.einsum("bachw,ba->bchw", fields.chroma, difference)
    displacement = torch.einsum("bachw,ba->bchw", fields.displacement, difference)
    cb, cr = _resized(chroma, size).split(1, dim=1)
    luma = _resized(luma, size)
    # BT.601: luma and colour differences to RGB.
    colour = torch.cat([luma + 1.402 * cr, luma - 0.344 * cb - 0.714 * cr, luma + 1.772 * cb], dim=1)
    return Change(colour, _resized(displacement, size))


def apply_change(faces: Tensor, change: Change, masks: Tensor) -> Tensor:
    """Faces ``(B, 3, S, S)`` in -1..1, moved and recoloured inside ``masks`` ``(B, 1, S, S)``; clipped to -1..1."""
    moved = displaced(faces, inner(masks) * change.displacement)
    return (moved + masks * change.colour).clamp(-1, 1)


def inner(masks: Tensor) -> Tensor:
    """Masks ``(B, 1, S, S)`` that fall to zero inside the face already: content must not be fetched from beyond it."""
    size = 2 * round(INNER * masks.shape[-1] / 2) + 1
    return masks * (2 * F.avg_pool2d(masks, size, stride=1, padding=size // 2) - 1).clamp(0, 1)


def centred(change: Change, masks: Tensor) -> Change:
    """The change without its mean colour inside ``masks`` ``(B, 1, S, S)``: skin tone is ``models.tone``'s matter."""
    area = masks.sum(dim=(2, 3)).clamp(min=1e-6)
    means = (masks * change.colour).sum(dim=(2, 3)) / area
    return Change(change.colour - means[:, :, None, None], change.displacement)


def displaced(images: Tensor, displacement: Tensor) -> Tensor:
    """Images ``(B, C, S, S)`` sampled at each pixel plus ``displacement`` ``(B, 2, S, S)`` (x, y in sides),
    bilinear."""
    side = images.shape[-1]
    centres = (torch.arange(side, device=images.device, dtype=images.dtype) + 0.5) * 2 / side - 1
    y, x = torch.meshgrid(centres, centres, indexing="ij")
    grid = torch.stack([x, y], dim=-1) + 2 * displacement.permute(0, 2, 3, 1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)


def symmetric(field: Tensor) -> Tensor:
    """The mean of a field ``(..., H, W)`` and its mirror image."""
    return (field + field.flip(-1)) / 2


def mirrored_displacement(field: Tensor) -> Tensor:
    """A displacement ``(..., 2, H, W)`` of the mirrored face: mirrored, and the other way along x."""
    sign = field.new_tensor([-1.0, 1.0])[:, None, None]
    return sign * field.flip(-1)


def _resized(field: Tensor, size: int) -> Tensor:
    if field.shape[-1] == size:
        return field
    return F.interpolate(field, size=(size, size), mode="bicubic", align_corners=False)
