"""Probes: new classifiers trained on frozen codes of the Fader network, which measure the remaining attribute.

The latent discriminator of the training is no measure, because the encoder was trained against it.
"""

import torch
from torch import Tensor

from models.fader import Fader
from models.precision import autocast, to_unit
from models.training.data import FaceSet
from models.training.loop import generator


@torch.no_grad()
def codes_of(fader: Fader, faces: FaceSet, rows: Tensor) -> Tensor:
    """Compute flat codes ``(len(rows), 16384)`` of unaugmented faces."""
    parts = []
    for chunk in rows.split(256):
        crops = to_unit(faces.pixels(chunk)).to(memory_format=torch.channels_last)
        with autocast():
            parts.append(fader.encode(crops).float().flatten(1).cpu())
    return torch.cat(parts)


def balanced_rows(faces: FaceSet, rows: Tensor, *, seed: int) -> Tensor:
    """Draw equally many feminine and masculine faces from the rows."""
    order = rows[torch.randperm(len(rows), generator=generator(seed, 0))]
    feminine, masculine = (order[(faces.gender[order] > 0) == wanted] for wanted in (False, True))
    count = min(len(feminine), len(masculine))
    return torch.cat([feminine[:count], masculine[:count]])


def gender_probe(
    train: tuple[Tensor, Tensor], test: tuple[Tensor, Tensor], *, hidden: int | None, seed: int = 0
) -> float:
    """Return the accuracy on ``test`` of a classifier trained on ``train``: codes ``(N, D)`` and 0/1 targets ``(N,)``.

    Args:
        train: balanced; its mean and deviation standardise both.
        test: balanced, so that guessing gives 0.5.
        hidden: units of a hidden layer, with early stopping on a tenth of ``train``; None for logistic regression.
        seed: seed of weights and batches.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    probe = (
        MLPClassifier((hidden,), alpha=1.0, early_stopping=True, n_iter_no_change=20, random_state=seed)
        if hidden
        else LogisticRegression(C=0.01, max_iter=2000)
    )
    model = make_pipeline(StandardScaler(), probe).fit(train[0].numpy(), train[1].numpy().astype(int))
    return float(model.score(test[0].numpy(), test[1].numpy().astype(int)))
