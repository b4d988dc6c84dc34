"""Concept erasure (LEACE): remove gender from the Fader network's code, so that it cannot be read linearly."""

import torch
from torch import Tensor

from models.fader import Fader
from models.precision import autocast, to_unit
from models.training.data import FaceSet
from models.training.loop import generator

# Ridge as a multiple of the mean variance; needed because a code has more dimensions than there are faces.
RIDGE = 3.0
COVARIANCE_FACES = 6000  # number of faces from which the covariance is estimated


@torch.no_grad()
def fit_erasure(fader: Fader, faces: FaceSet, *, device: str) -> None:
    """Fit the erasure of ``fader``: means from all training faces, covariance from a part of them.

    The means need all faces, because their error becomes a difference between the classes in the codes.

    Args:
        fader: the network; its buffers ``reading`` and ``erased`` are set in place.
        faces: the labelled faces.
        device: where the encoder runs.
    """
    rows = faces.rows(0, 1)
    rows = rows[torch.randperm(len(rows), generator=generator(0, 0))]
    sums = torch.zeros(2, len(fader.erased))
    covariance_codes: list[Tensor] = []
    for chunk in rows.split(256):
        crops = to_unit(faces.pixels(chunk)).to(device, memory_format=torch.channels_last)
        with autocast(device):
            codes = fader.encoder(crops).float().flatten(1).cpu()
        masculine = faces.gender[chunk] > 0
        sums += torch.stack([codes[masculine].sum(dim=0), codes[~masculine].sum(dim=0)])
        if len(covariance_codes) * 256 < COVARIANCE_FACES:
            covariance_codes.append(codes)
    masculine = faces.gender[rows] > 0
    means = sums / torch.stack([masculine.sum(), (~masculine).sum()])[:, None]
    codes = torch.cat(covariance_codes)[:COVARIANCE_FACES]
    reading, difference = erasure(codes, masculine[: len(codes)], difference=means[0] - means[1])
    fader.reading.copy_(reading.to(device))
    fader.erased.copy_(difference.to(device))


def erasure(
    codes: Tensor, masculine: Tensor, *, difference: Tensor | None = None, ridge: float = RIDGE
) -> tuple[Tensor, Tensor]:
    """Return a reading ``w`` and the difference of means ``d``, ``(D,)`` each: ``z - (w z) d`` has equal class means.

    Any reading with ``w d = 1`` has this property, and if the class means agree, no linear classifier beats a constant
    one (Belrose et al. 2023, theorem 3.1). Of these readings the linear discriminant, ``w`` along the inverse
    covariance within classes times ``d``, changes the codes least (ibid., theorem 4.3). A projection along ``d`` would
    remove everything else that varies in that direction.

    Args:
        codes: ``(N, D)``, of both classes.
        masculine: ``(N,)`` bool.
        difference: the difference of the class means, if it is known from more codes.
        ridge: added to the covariance, as a multiple of the mean variance.
    """
    means = [codes[masculine == wanted].mean(dim=0) for wanted in (True, False)]
    difference = means[0] - means[1] if difference is None else difference
    residuals = codes - torch.where(masculine[:, None], means[0], means[1])
    added = ridge * float(residuals.square().sum()) / residuals.shape[1]
    # The inverse by Woodbury's identity: N equations instead of D.
    inner = residuals @ residuals.T
    inner.diagonal().add_(added)
    reading = difference - residuals.T @ torch.linalg.solve(inner, residuals @ difference)
    scale = reading @ difference
    return reading / scale.clamp(min=1e-12), difference
