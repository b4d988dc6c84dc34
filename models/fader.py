"""The Fader network (Lample et al. 2017): an encoder whose code should contain no attribute, and a decoder that
receives the attributes in every layer. Any real number is a valid value.
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attributes import RACES
from models.image_metrics import batch_luma

# The decoder's inputs, in order. gender: -1 feminine, +1 masculine. race: shares that sum to 1 (a sweep
# between two races moves along the line through their corners). young and smiling: -1..1, held fixed in a sweep.
ATTRIBUTES = ("gender", *(f"race_{race}" for race in RACES), "young", "smiling")
GENDER, RACE = ATTRIBUTES.index("gender"), slice(1, 1 + len(RACES))
SCALED = ("gender", "race")  # the attributes that `Fader.strength` scales, in its order


@dataclass(frozen=True)
class FaderShape:
    """Channels of each stride-2 layer, first to last."""

    widths: tuple[int, ...] = (32, 64, 128, 256)

    @property
    def code(self) -> tuple[int, int, int]:
        """Channels, height and width of the code of a crop of 128 pixels."""
        side = Fader.size >> len(self.widths)
        return self.widths[-1], side, side


class Fader(nn.Module):
    """Encoder and decoder over aligned crops of 128 pixels; the code of a crop is ``(256, 8, 8)``."""

    size = 128
    reading: Tensor
    erased: Tensor
    strength: Tensor

    def __init__(self, shape: FaderShape | None = None) -> None:
        super().__init__()
        self.shape = shape or FaderShape()
        widths = self.shape.widths
        self.encoder = nn.Sequential(
            *(_Down(before, width) for before, width in zip((3, *widths[:-1]), widths, strict=True))
        )
        self.decoder = nn.ModuleList(
            _Up(before, width) for before, width in zip(widths[:0:-1], widths[-2::-1], strict=True)
        )
        # ``erased``: the difference of the mean codes of masculine and feminine faces. ``reading``: a linear reading
        # of a code, 1 on that difference; this multiple of the difference is subtracted. The class means of the
        # training faces then agree, and no linear reading separates the classes (LEACE, Belrose et al. 2023,
        # theorem 3.1). The encoder is frozen afterwards, because it would learn to use other directions.
        self.register_buffer("reading", torch.zeros(math.prod(self.shape.code)))
        self.register_buffer("erased", torch.zeros(math.prod(self.shape.code)))
        # Factors of the changes of each of `SCALED`, so that one unit of the value has the same meaning for all.
        self.register_buffer("strength", torch.ones(len(SCALED)))
        # Directly to colours: feature maps at full resolution would cost as much as all other layers together.
        self.to_rgb = nn.ConvTranspose2d(widths[0], 3, 4, stride=2, padding=1)

    def encode(self, crops: Tensor) -> Tensor:
        """Encode ``(B, 3, 128, 128)`` RGB in -1..1 to codes ``(B, 256, 8, 8)``."""
        return self.erase(self.encoder(crops))

    def erase(self, codes: Tensor) -> Tensor:
        """Remove the linearly readable gender from codes ``(B, 256, 8, 8)``."""
        flat = codes.float().flatten(1)
        # A sum of products, because autocast would round a matrix product to half precision.
        part = (flat * self.reading).sum(dim=1, keepdim=True)
        return (flat - part * self.erased).view_as(codes)

    def decode(self, codes: Tensor, attributes: Tensor) -> Tensor:
        """Decode codes ``(B, 256, 8, 8)`` with values ``(B, 8)`` of `ATTRIBUTES` to ``(B, 3, 128, 128)`` in -1..1."""
        x = codes
        for layer in self.decoder:
            x = layer(x, attributes)
        return torch.tanh(self.to_rgb(x))

    def strength_of(self, attribute: str) -> float:
        """Return the factor of an attribute's change; 1 if it was not calibrated."""
        return float(self.strength[SCALED.index(attribute)]) if attribute in SCALED else 1.0

    def forward(self, crops: Tensor, attributes: Tensor) -> Tensor:
        """Decode the code of ``crops`` with ``attributes``."""
        return self.decode(self.encode(crops), attributes)


class _Down(nn.Sequential):
    def __init__(self, channels: int, width: int) -> None:
        super().__init__(
            nn.Conv2d(channels, width, 4, stride=2, padding=1), nn.GroupNorm(8, width), nn.LeakyReLU(0.2, inplace=True)
        )


class _Up(nn.Module):
    """Doubles the size; the attribute values scale and shift every channel (FiLM, Perez et al. 2018). The shift is
    equivalent to the constant input maps of the original network."""

    def __init__(self, channels: int, width: int) -> None:
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels, width, 4, stride=2, padding=1)
        self.norm = nn.GroupNorm(8, width)
        self.film = nn.Linear(len(ATTRIBUTES), 2 * width)

    def forward(self, x: Tensor, attributes: Tensor) -> Tensor:
        scale, shift = self.film(attributes)[:, :, None, None].chunk(2, dim=1)
        return F.leaky_relu(self.norm(self.conv(x)) * (1 + scale) + shift, 0.2)


def category_line(value: Tensor, low: Tensor, high: Tensor, *, count: int = len(RACES)) -> Tensor:
    """Return points on the line through two categories, such as races: the first at -1, the second at +1.

    Args:
        value: ``(B,)``, any real numbers.
        low: ``(B,)`` index of the category at -1.
        high: ``(B,)`` index of the category at +1.
        count: number of categories.

    Returns:
        Shares ``(B, count)``, each row summing to 1.
    """
    ends = torch.eye(count, dtype=torch.float32, device=value.device)
    weight = ((1 + value) / 2)[:, None]
    return (1 - weight) * ends[low] + weight * ends[high]


def smooth_difference(edited: Tensor, reference: Tensor) -> Tensor:
    """Return the change ``edited - reference`` ``(B, 3, S, S)``, its luma at half resolution, its colour at an eighth.

    As in a photo, colour varies more slowly than light. Finer changes by a network of this size are noise, which
    deceives classifiers; the photo keeps its own fine texture.
    """
    change = edited - reference
    luma = batch_luma(change)
    return _coarse(luma, 2) + _coarse(change - luma, 8)


def _coarse(images: Tensor, factor: int) -> Tensor:
    small = F.avg_pool2d(images, factor)
    return F.interpolate(small, scale_factor=factor, mode="bilinear", align_corners=False)
