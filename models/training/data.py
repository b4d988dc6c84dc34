"""The labelled training faces: aligned crops, labels, splits and augmentation."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional as F

CROP = 128
MARGIN = 8  # pixels around each crop, so that augmentation can shift it without border pixels


@dataclass(frozen=True)
class FaceSet:
    """``N`` labelled faces.

    ``crops`` ``(N, 144, 144, 3)`` uint8; ``gender`` ``(N,)`` -1 or +1; ``race`` ``(N,)`` index into
    ``judge.RACES``; ``age`` ``(N,)`` years; ``smiling`` ``(N,)`` in -1..1, a proxy: the width of the mouth.
    ``part`` ``(N,)``: 0 and 1 the two halves, 2 held out.
    """

    crops: NDArray[np.uint8]
    gender: Tensor
    race: Tensor
    age: Tensor
    smiling: Tensor
    part: Tensor

    def __len__(self) -> int:
        return len(self.crops)

    def rows(self, *parts: int) -> Tensor:
        """Return the row numbers of the faces in these parts."""
        return torch.isin(self.part, torch.tensor(parts)).nonzero()[:, 0]

    def pixels(self, rows: Tensor, shift: Tensor | None = None) -> Tensor:
        """Return crops ``(B, 3, 128, 128)`` uint8, each shifted by its row of ``shift`` ``(B, 2)`` in -8..8 pixels."""
        return torch.from_numpy(shifted(self.crops, rows, shift)).permute(0, 3, 1, 2)


def shifted(pictures: NDArray[np.uint8], rows: Tensor, shift: Tensor | None = None) -> NDArray[np.uint8]:
    """Cut the centres ``(B, 128, 128, ...)`` of pictures ``(N, 144, 144, ...)``, shifted by the rows of ``shift``."""
    corners = torch.full((len(rows), 2), MARGIN) if shift is None else MARGIN + shift
    cut = [
        pictures[row, top : top + CROP, left : left + CROP]
        for row, (top, left) in zip(rows.tolist(), corners.tolist(), strict=True)
    ]
    return np.stack(cut)


def load_faces(folder: Path) -> FaceSet:
    """Load the crops written by ``scripts/train.py prepare``."""
    table = np.load(folder / "faces.npz")
    return FaceSet(
        crops=np.load(folder / "crops.npy", mmap_mode="r"),
        gender=torch.from_numpy(table["gender"]).float(),
        race=torch.from_numpy(table["race"]).long(),
        age=torch.from_numpy(table["age"]).float(),
        smiling=torch.from_numpy(table["smiling"]).float(),
        part=torch.tensor([part_of(str(name)) for name in table["files"]]),
    )


def part_of(file: str) -> int:
    """Assign a face to a part by its file name: 10 % held out (2), the rest in two halves (0, 1)."""
    draw = int(sha256(file.encode()).hexdigest()[:8], 16) % 20
    return 2 if draw < 2 else draw % 2


def selection_rows(faces: FaceSet) -> Tensor:
    """Return every fourth held-out face, for model selection; figures are reported on the others."""
    return faces.rows(2)[::4]


def report_rows(faces: FaceSet) -> Tensor:
    """Return the held-out faces that are not used for model selection."""
    held_out = faces.rows(2)
    return held_out[torch.arange(len(held_out)) % 4 != 0]


def smiling_proxy(landmarks: NDArray[np.floating]) -> NDArray[np.float64]:
    """Return the rank, scaled to -1..1, of the mouth's width relative to the distance of the eyes.

    Args:
        landmarks: ``(N, 5, 2)``.
    """
    eyes = np.linalg.norm(landmarks[:, 1] - landmarks[:, 0], axis=1)
    mouth = np.linalg.norm(landmarks[:, 4] - landmarks[:, 3], axis=1)
    ranks = (mouth / eyes).argsort().argsort()
    return np.asarray(2 * ranks / max(1, len(ranks) - 1) - 1, dtype=np.float64)


def balanced_weights(faces: FaceSet, rows: Tensor, *, power: float = 0.5) -> Tensor:
    """Return sampling weights that balance gender x race x age band (``power`` 1 fully, 0 not at all)."""
    band = torch.bucketize(faces.age[rows], torch.tensor([25.0, 40.0, 60.0]))
    cell = (faces.gender[rows] > 0).long() * 100 + faces.race[rows] * 10 + band
    _, index, counts = cell.unique(return_inverse=True, return_counts=True)
    weights: Tensor = counts[index].double().pow(-power)
    return weights


def shifts(count: int, *, reach: int, random: torch.Generator) -> Tensor:
    """Draw shifts ``(count, 2)`` in -reach..reach pixels."""
    return torch.randint(-reach, reach + 1, (count, 2), generator=random)


def flip_some(faces: Tensor, random: torch.Generator) -> Tensor:
    """Mirror each face of ``(B, 3, H, W)`` with probability a half."""
    coins = (torch.rand(len(faces), generator=random) < 0.5)[:, None, None, None].to(faces.device)
    return torch.where(coins, faces.flip(3), faces)


def disturb(faces: Tensor, random: torch.Generator, *, strength: float = 1.0) -> Tensor:
    """Augment square faces ``(B, 3, S, S)`` in -1..1, with parameters drawn per face.

    Contrast, brightness and tint change in all faces; one in ten loses colour; a third lose detail (downscaled and
    upscaled by a common factor); a quarter get noise.
    """
    count, device = len(faces), faces.device

    def draw(*shape: int) -> Tensor:
        return torch.rand(count, *shape, 1, 1, generator=random).to(device)

    gain = 1 + strength * 0.5 * (draw(1) - 0.5)
    lift = strength * 0.5 * (draw(1) - 0.5)
    tint = strength * 0.16 * (draw(3) - 0.5)
    out = faces * gain + lift + tint
    grey = out.mean(dim=1, keepdim=True)
    out = torch.where(draw(1) < 0.1, grey, out)
    size = faces.shape[-1]
    small = int(size * (0.25 + 0.5 * torch.rand((), generator=random)))
    blurred = F.interpolate(F.interpolate(out, size=(small, small), mode="area"), size=(size, size), mode="bilinear")
    out = torch.where(draw(1) < 0.34, blurred, out)
    noise = torch.randn(faces.shape, generator=random).to(device)
    return out + torch.where(draw(1) < 0.25, 0.08 * strength, 0.0) * noise
