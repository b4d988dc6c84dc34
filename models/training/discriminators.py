"""The networks that the editors are trained against; nothing of them is shipped."""

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.attributes import RACES
from models.fader import ATTRIBUTES, FaderShape
from models.training.data import flip_some


class LatentDiscriminator(nn.Module):
    """Tries to read gender and race from a code; the encoder is trained to make it fail. Training only."""

    def __init__(self, shape: FaderShape | None = None) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(math.prod((shape or FaderShape()).code), 512),
            nn.LeakyReLU(0.2),
            nn.Dropout(0.2),
            nn.Linear(512, 256),
            nn.LeakyReLU(0.2),
            nn.Linear(256, 1 + len(RACES)),
        )

    def forward(self, codes: Tensor) -> tuple[Tensor, Tensor]:
        """Codes ``(B, 256, 8, 8)`` -> logits of masculine ``(B,)`` and of race ``(B, 5)``."""
        outputs = self.layers(codes)
        return outputs[:, 0], outputs[:, 1:]


class PatchDiscriminator(nn.Module):
    """Tells photos from edits, patch by patch, spectrally normalised (Miyato et al. 2018). Training only."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, width in zip((3, *widths[:-1]), widths, strict=True):
            conv = nn.Conv2d(before, width, 4, stride=2, padding=1)
            layers += [nn.utils.parametrizations.spectral_norm(conv), nn.LeakyReLU(0.2, inplace=True)]
        layers.append(nn.utils.parametrizations.spectral_norm(nn.Conv2d(widths[-1], 1, 4, padding=1)))
        self.layers = nn.Sequential(*layers)

    def forward(self, crops: Tensor) -> Tensor:
        """``(B, 3, 128, 128)`` in -1..1 -> one logit a patch, ``(B, 1, 15, 15)``."""
        logits: Tensor = self.layers(crops)
        return logits


class ProjectionDiscriminator(nn.Module):
    """Does a face look like a photo of somebody with these attribute values? (Miyato and Koyama 2018); training only.

    Spectrally normalised convolutions over whole composites of 64 pixels.
    """

    def __init__(self, widths: tuple[int, int, int, int] = (48, 80, 112, 128)) -> None:
        super().__init__()
        norm = nn.utils.parametrizations.spectral_norm
        layers: list[nn.Module] = []
        channels = 12
        for stage, width in enumerate(widths):
            layers.append(norm(nn.Conv2d(channels, width, 3, stride=1 if stage == 0 else 2, padding=1)))
            layers.append(nn.LeakyReLU(0.2, inplace=True))
            channels = width
        self.trunk = nn.Sequential(*layers)
        self.output = nn.Linear(channels, 1)
        self.patches = nn.Conv2d(widths[2], 1, 1)
        self.embedding = nn.Linear(len(ATTRIBUTES), channels, bias=False)

    def forward(self, faces: Tensor, attributes: Tensor) -> Tensor:
        """``(B, 3, 64, 64)`` in -1..1 with attribute values ``(B, 8)`` -> one logit each ``(B,)``."""
        x = F.pixel_unshuffle(faces, 2)
        x = self.trunk[:6](x)
        local: Tensor = self.patches(x).mean(dim=(1, 2, 3))
        features = self.trunk[6:](x).sum(dim=(2, 3)) / 8
        whole = self.output(features)[:, 0] + (features * self.embedding(attributes)).sum(dim=1)
        logits: Tensor = whole + local
        return logits


def augmented(faces: Tensor, random: torch.Generator, *, reach: int = 6, hole: int = 22) -> Tensor:
    """DiffAugment (Zhao et al. 2020) without colour: each face shifted by up to ``reach`` pixels, mirrored half the
    time, half of them with a square of ``hole`` pixels blanked."""
    count, _, side, _ = faces.shape
    padded = F.pad(flip_some(faces, random), (reach,) * 4, mode="replicate")
    offsets = torch.randint(0, 2 * reach + 1, (count, 2), generator=random).tolist()
    moved = torch.stack([face[:, y : y + side, x : x + side] for face, (y, x) in zip(padded, offsets, strict=True)])
    corner = torch.randint(-hole // 2, side - hole // 2, (count, 2), generator=random)
    rows, columns = (torch.arange(side)[None, :] - corner[:, axis, None] for axis in (0, 1))
    holes = ((rows >= 0) & (rows < hole))[:, None, :, None] & ((columns >= 0) & (columns < hole))[:, None, None, :]
    holes = holes & (torch.rand(count, generator=random) < 0.5)[:, None, None, None]
    return moved.masked_fill(holes, 0.0)


def gradient_penalty(discriminator: nn.Module, faces: Tensor, attributes: Tensor) -> Tensor:
    """R1 (Mescheder et al. 2018): the mean squared norm of the logit's gradient at real faces."""
    inputs = faces.detach().requires_grad_(True)
    (gradient,) = torch.autograd.grad(discriminator(inputs, attributes).sum(), inputs, create_graph=True)
    return gradient.square().sum(dim=(1, 2, 3)).mean()
