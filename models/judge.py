"""Perceived attributes of an aligned face: the *estimator* takes part in the edit, two *judges* only check it.

The three networks have different architectures. The judge was trained on the half of the data that estimator and
second judge did not see. The second judge, `GreyJudge`, sees neither colour nor exposure.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional as F

from models.attributes import RACES
from models.image_metrics import batch_luma
from models.precision import autocast, batch_size, device_of, to_unit

AGE_STEPS = (20, 30, 40, 50, 60, 70)  # one output each: at least this many years old
# gender, races, AGE_STEPS, age, smiling
OUTPUTS = 1 + len(RACES) + len(AGE_STEPS) + 1 + 1

# The input region of an aligned crop, in template fractions (left, top, side): brow to chin and a little hair.
# Every training photo contains this region; the rest of the crop may be repeated border.
VIEW = (0.125, 0.12, 0.75)


@dataclass(frozen=True)
class Perception:
    """Outputs of a network for ``B`` faces; tensors of float32.

    ``masculine`` ``(B,)`` probability; ``race`` ``(B, 5)`` probabilities in the order of ``RACES``;
    ``at_least`` ``(B, 6)`` probabilities of being perceived as at least ``AGE_STEPS`` years old;
    ``age`` ``(B,)`` years; ``smiling`` ``(B,)`` in -1..1; ``features`` ``(B, F)`` the penultimate layer.
    """

    masculine: Tensor
    race: Tensor
    at_least: Tensor
    age: Tensor
    smiling: Tensor
    features: Tensor

    @property
    def gender(self) -> Tensor:
        """Perceived gender ``(B,)``: -1 feminine, +1 masculine."""
        return 2 * self.masculine - 1

    @property
    def young(self) -> Tensor:
        """Perceived youth ``(B,)``: +1 young, -1 old, 0 at 40 years."""
        return young_from_age(self.age)

    def named(self) -> dict[str, Tensor]:
        """Return each output ``(B,)`` by name; the probability of a race is ``race_<race>``."""
        races = {f"race_{race}": self.race[:, place] for place, race in enumerate(RACES)}
        figures = {"gender": self.gender, "masculine": self.masculine, **races}
        return figures | {"age": self.age, "young": self.young, "smiling": self.smiling}


def young_from_age(age: Tensor) -> Tensor:
    """Return the control "young" in -1..1: ``tanh((40 - age) / 15)``."""
    return torch.tanh((40 - age) / 15)


def view(crops: Tensor) -> Tensor:
    """Cut the input region of aligned crops ``(B, 3, S, S)``: ``(B, 3, 0.75 S, 0.75 S)``."""
    size = crops.shape[-1]
    left, top, side = (round(part * size) for part in VIEW)
    return crops[..., top : top + side, left : left + side]


class Classifier(nn.Module):
    """Base class: layout of the outputs, temperatures, and conversion of outputs to a `Perception`."""

    size = 96
    """Side of the input in pixels, the `view` of a 128-pixel crop."""

    trunk: nn.Module
    heads: nn.Linear
    gender_temperature: Tensor
    race_temperature: Tensor

    def __init__(self) -> None:
        super().__init__()
        # Calibrated on held-out faces after training (Guo et al. 2017).
        self.register_buffer("gender_temperature", torch.ones(()))
        self.register_buffer("race_temperature", torch.ones(()))

    def forward(self, faces: Tensor) -> tuple[Tensor, Tensor]:
        """Map ``(B, 3, size, size)`` in -1..1 to outputs ``(B, 14)`` and features ``(B, F)``."""
        features = self.trunk(faces).mean(dim=(2, 3))
        return self.heads(features), features

    def look(self, crops: Tensor) -> Tensor:
        """Return the `view` of aligned crops ``(B, 3, S, S)`` of any size, scaled to the network's input size."""
        faces = view(crops)
        if faces.shape[-1] == self.size:
            return faces
        return F.interpolate(faces, size=(self.size, self.size), mode="bilinear", antialias=True)

    def perceive(self, crops: Tensor) -> Perception:
        """Perceive the attributes of aligned crops ``(B, 3, S, S)`` in -1..1, of any size ``S``."""
        outputs, features = self(self.look(crops))
        gender, race, at_least, age, smiling = split(outputs.float())
        return Perception(
            masculine=torch.sigmoid(gender / self.gender_temperature),
            race=torch.softmax(race / self.race_temperature, dim=1),
            at_least=torch.sigmoid(at_least),
            age=age_in_years(age),
            smiling=torch.tanh(smiling),
            features=features.float(),
        )


@torch.inference_mode()
def perceive_crops(network: Classifier, crops: Sequence[NDArray[np.uint8]], *, half: bool = False) -> Perception:
    """Perceive the attributes of aligned crops ``(S, S, 3)`` uint8 of one size.

    Batches are padded with black crops, so that the last digits of a face do not depend on the number of faces.

    Args:
        network: the estimator or a judge.
        crops: the faces.
        half: compute in `models.precision.network_dtype` instead of float32.
    """
    device = device_of(network)
    size = batch_size(device)
    parts = []
    for start in range(0, max(1, len(crops)), size):
        chunk = crops[start : start + size]
        batch = np.zeros((size, *(chunk[0].shape if len(chunk) else (network.size, network.size, 3))), dtype=np.uint8)
        for place, crop in enumerate(chunk):
            batch[place] = crop
        with autocast(device.type, half=half):
            parts.append(network.perceive(to_unit(torch.from_numpy(batch).permute(0, 3, 1, 2)).to(device)))
    names = [field.name for field in fields(Perception)]
    return Perception(
        **{name: torch.cat([getattr(part, name) for part in parts])[: len(crops)].cpu() for name in names}
    )


def split(outputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Split raw outputs ``(B, 14)``: gender ``(B,)``, race ``(B, 5)``, at_least ``(B, 6)``, age, smiling ``(B,)``."""
    gender, race, at_least, age, smiling = outputs.split((1, len(RACES), len(AGE_STEPS), 1, 1), dim=1)
    return gender[:, 0], race, at_least, age[:, 0], smiling[:, 0]


def age_in_years(raw: Tensor) -> Tensor:
    """Convert the raw age output to years, at least 0."""
    return (40 + 20 * raw).clamp(min=0)


class Estimator(Classifier):
    """A residual network (He et al. 2016) of four stages; it estimates the starting values of the edit."""

    def __init__(self, widths: tuple[int, int, int, int] = (32, 64, 128, 224)) -> None:
        super().__init__()
        layers: list[nn.Module] = [
            nn.Conv2d(3, widths[0], 5, stride=2, padding=2, bias=False),
            nn.BatchNorm2d(widths[0]),
            nn.ReLU(inplace=True),
        ]
        channels = widths[0]
        for stage, width in enumerate(widths):
            layers.append(_Residual(channels, width, stride=1 if stage == 0 else 2))
            if stage > 0:
                layers.append(_Residual(width, width, stride=1))
            channels = width
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.Linear(channels, OUTPUTS)


class _Residual(nn.Module):
    def __init__(self, channels: int, width: int, *, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(width)
        same = stride == 1 and channels == width
        self.shortcut = nn.Identity() if same else nn.Conv2d(channels, width, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norm1(self.conv1(x)), inplace=True)
        return F.relu(self.norm2(self.conv2(inner)) + self.shortcut(x), inplace=True)


class Judge(Classifier):
    """A plain stack of convolutions with group norm and channel attention (Hu et al. 2018); used only for checks."""

    def __init__(self, widths: tuple[int, int, int, int] = (40, 80, 160, 240)) -> None:
        super().__init__()
        layers: list[nn.Module] = [nn.Conv2d(3, widths[0], 4, stride=4), nn.GroupNorm(8, widths[0]), nn.SiLU()]
        channels = widths[0]
        for stage, width in enumerate(widths):
            if stage > 0:
                layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.GroupNorm(8, width), nn.SiLU()]
            for _ in range(1 if stage == 0 else 2):
                layers.append(_AttentionBlock(width))
            channels = width
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.Linear(channels, OUTPUTS)

    def forward(self, faces: Tensor) -> tuple[Tensor, Tensor]:
        """See ``Classifier``. Group norm in bfloat16 takes many times as long on channels-last faces."""
        return super().forward(faces.contiguous())


class _AttentionBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.GroupNorm(8, width)
        self.attention = nn.Sequential(nn.Linear(width, width // 4), nn.SiLU(), nn.Linear(width // 4, width))

    def forward(self, x: Tensor) -> Tensor:
        inner = F.silu(self.norm(self.conv(x)))
        return x + inner * torch.sigmoid(self.attention(inner.mean(dim=(2, 3))))[:, :, None, None]


class GreyJudge(Classifier):
    """The second judge: a light network of max-feature-map units (Wu et al. 2018) that sees only luma.

    Each face is normalised to one brightness and contrast, so that tint and exposure have no effect.
    """

    size = 64

    def __init__(self, widths: tuple[int, int, int, int] = (24, 48, 96, 192)) -> None:
        super().__init__()
        layers: list[nn.Module] = [_MaxFeatureMap(1, widths[0], kernel=5, stride=2)]
        for stage, (channels, width) in enumerate(pairwise(widths)):
            if stage > 0:
                layers.append(nn.MaxPool2d(2))
            layers += [_MaxFeatureMap(channels, width, kernel=3), _MaxFeatureMap(width, width, kernel=3)]
        self.trunk = nn.Sequential(*layers)
        self.heads = nn.Linear(widths[-1], OUTPUTS)

    def forward(self, faces: Tensor) -> tuple[Tensor, Tensor]:
        """Map ``(B, 3, 64, 64)`` in any range to outputs ``(B, 14)`` and features ``(B, F)``."""
        return super().forward(one_contrast(batch_luma(faces)))


def one_contrast(luma: Tensor) -> Tensor:
    """Normalise lumas ``(B, 1, S, S)`` to mean 0 and standard deviation 1 (less for nearly flat faces)."""
    spread = luma.std(dim=(2, 3), keepdim=True)
    return (luma - luma.mean(dim=(2, 3), keepdim=True)) / (spread + 0.02)


class _MaxFeatureMap(nn.Module):
    def __init__(self, channels: int, width: int, *, kernel: int, stride: int = 1) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels, 2 * width, kernel, stride, kernel // 2, bias=False)
        self.norm = nn.BatchNorm2d(width)

    def forward(self, x: Tensor) -> Tensor:
        one, other = self.conv(x).chunk(2, dim=1)
        # The gradient of torch.maximum costs more than the convolution.
        larger = other + F.relu(one - other) if torch.is_grad_enabled() else torch.maximum(one, other)
        normed: Tensor = self.norm(larger)
        return normed
