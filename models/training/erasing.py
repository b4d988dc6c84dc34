"""The direction of the code that tells gender: found from mean codes, so that the Fader network can take it out."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from models.fader import Fader
from models.judge import RACES
from models.precision import autocast
from models.training.edits import GENDER, RACE, own_attributes
from models.training.faces import FaceSet, to_unit


class MeanCodes(nn.Module):
    """Running mean codes ``(2, 5, D)`` by gender and race, for the direction that is erased."""

    means: Tensor

    def __init__(self, dimensions: int) -> None:
        super().__init__()
        self.register_buffer("means", torch.zeros(2, len(RACES), dimensions))

    @torch.no_grad()
    def update(self, codes: Tensor, own: Tensor, step: int) -> None:
        """Move the means towards those of a batch of codes before erasure ``(B, D)``."""
        sums, counts = sums_by_group(codes, own)
        pace = max(0.01, 1 / (1 + step)) * (counts > 0)
        self.means.lerp_(sums / counts.clamp(min=1), pace)


def sums_by_group(codes: Tensor, own: Tensor) -> tuple[Tensor, Tensor]:
    """Sums ``(2, 5, D)`` and counts ``(2, 5, 1)`` of codes ``(B, D)`` by gender and race, from values ``(B, 8)``."""
    cell = len(RACES) * (own[:, GENDER] > 0).long() + own[:, RACE].argmax(dim=1)
    members = F.one_hot(cell, 2 * len(RACES)).to(codes.dtype)
    return (members.T @ codes).view(2, len(RACES), -1), members.sum(dim=0).view(2, len(RACES), 1)


def gender_direction(means: Tensor) -> Tensor:
    """The direction ``(D,)`` of length 1 in which mean codes ``(2, 5, D)`` of the genders differ, every race alike."""
    difference = (means[1] - means[0]).mean(dim=0)
    direction: Tensor = difference / difference.norm().clamp(min=1e-12)
    return direction


@torch.no_grad()
def fit_erasure(fader: Fader, faces: FaceSet, *, device: str) -> None:
    """Set the erased direction from the mean codes of all training faces."""
    sums = torch.zeros(2, len(RACES), len(fader.erased))
    counts = torch.zeros(2, len(RACES), 1)
    for chunk in faces.rows(0, 1).split(256):
        crops = to_unit(faces.pixels(chunk)).to(device, memory_format=torch.channels_last)
        with autocast(device):
            codes = fader.encoder(crops).float().flatten(1).cpu()
        more, found = sums_by_group(codes, own_attributes(faces, chunk))
        sums, counts = sums + more, counts + found
    fader.erased.copy_(gender_direction(sums / counts.clamp(min=1)).to(device))
