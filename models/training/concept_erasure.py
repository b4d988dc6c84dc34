"""Concept erasure (LEACE): gender is taken out of the Fader network's code, so that no linear reading finds it."""

import torch
from torch import Tensor

from models.fader import Fader
from models.precision import autocast, to_unit
from models.training.data import FaceSet
from models.training.loop import generator

# Of the mean variance of a code's numbers: how much is added to each, since there are more numbers than faces.
RIDGE = 3.0
MOST = 6000  # faces that the covariance is estimated from


@torch.no_grad()
def fit_erasure(fader: Fader, faces: FaceSet, *, device: str) -> None:
    """Set what ``fader`` erases: the means from all training faces, their covariance from some of them.

    The means need every face: whatever they are off by is written into the codes as a difference of its own.

    Args:
        fader: the network; its buffers ``reading`` and ``erased`` are set in place.
        faces: the labelled faces.
        device: where the encoder runs.
    """
    rows = faces.rows(0, 1)
    rows = rows[torch.randperm(len(rows), generator=generator(0, 0))]
    sums = torch.zeros(2, len(fader.erased))
    kept: list[Tensor] = []
    for chunk in rows.split(256):
        crops = to_unit(faces.pixels(chunk)).to(device, memory_format=torch.channels_last)
        with autocast(device):
            codes = fader.encoder(crops).float().flatten(1).cpu()
        masculine = faces.gender[chunk] > 0
        sums += torch.stack([codes[masculine].sum(dim=0), codes[~masculine].sum(dim=0)])
        if len(kept) * 256 < MOST:
            kept.append(codes)
    masculine = faces.gender[rows] > 0
    means = sums / torch.stack([masculine.sum(), (~masculine).sum()])[:, None]
    codes = torch.cat(kept)[:MOST]
    reading, difference = erasure(codes, masculine[: len(codes)], difference=means[0] - means[1])
    fader.reading.copy_(reading.to(device))
    fader.erased.copy_(difference.to(device))


def erasure(
    codes: Tensor, masculine: Tensor, *, difference: Tensor | None = None, ridge: float = RIDGE
) -> tuple[Tensor, Tensor]:
    """The reading ``w`` and the difference of means ``d``, ``(D,)`` each: ``z - (w z) d`` has equal class means.

    Any reading with ``w d = 1`` does that, and where the class means agree no linear classifier beats a constant one
    (Belrose et al. 2023, theorem 3.1). Of these readings the linear discriminant, ``w`` along the inverse covariance
    within classes times ``d``, changes the codes least (ibid., theorem 4.3): a projection along ``d`` would take out
    whatever else varies in that direction.

    Args:
        codes: ``(N, D)``, of both classes.
        masculine: ``(N,)`` bool.
        difference: of the classes' means, where it is known from more codes than these.
        ridge: added to the covariance, as a multiple of the mean variance.
    """
    means = [codes[masculine == wanted].mean(dim=0) for wanted in (True, False)]
    difference = means[0] - means[1] if difference is None else difference
    rest = codes - torch.where(masculine[:, None], means[0], means[1])
    added = ridge * float(rest.square().sum()) / rest.shape[1]
    # The inverse by Woodbury's identity: N equations instead of D.
    inner = rest @ rest.T
    inner.diagonal().add_(added)
    reading = difference - rest.T @ torch.linalg.solve(inner, rest @ difference)
    scale = reading @ difference
    return reading / scale.clamp(min=1e-12), difference
