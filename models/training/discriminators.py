"""The discriminators of the Fader network's training; they are not shipped."""

import math

from torch import Tensor, nn

from models.attributes import RACES
from models.fader import FaderShape


class LatentDiscriminator(nn.Module):
    """Reads gender and race from a code; the encoder is trained against it."""

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
        """Map codes ``(B, 256, 8, 8)`` to logits of masculine ``(B,)`` and of race ``(B, 5)``."""
        outputs = self.layers(codes)
        return outputs[:, 0], outputs[:, 1:]


class PatchDiscriminator(nn.Module):
    """Distinguishes photos from edits per patch, with spectral normalisation (Miyato et al. 2018)."""

    def __init__(self, widths: tuple[int, ...] = (32, 64, 128)) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, width in zip((3, *widths[:-1]), widths, strict=True):
            conv = nn.Conv2d(before, width, 4, stride=2, padding=1)
            layers += [nn.utils.parametrizations.spectral_norm(conv), nn.LeakyReLU(0.2, inplace=True)]
        layers.append(nn.utils.parametrizations.spectral_norm(nn.Conv2d(widths[-1], 1, 4, padding=1)))
        self.layers = nn.Sequential(*layers)

    def forward(self, crops: Tensor) -> Tensor:
        """Map ``(B, 3, 128, 128)`` in -1..1 to one logit per patch, ``(B, 1, 15, 15)``."""
        logits: Tensor = self.layers(crops)
        return logits
