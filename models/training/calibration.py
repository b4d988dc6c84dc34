"""Calibrate the strength of a unit: changes are scaled until the estimator perceives a target difference."""

import numpy as np
import torch
from numpy.typing import NDArray

from models.fader import SCALED, Fader
from models.judge import Classifier
from models.training.data import FaceSet
from models.training.edits import composite, held_out_batch, high_end, with_value

STRENGTHS = tuple(1 + step / 20 for step in range(21))
# Target rises, set by trial after seeing the judge's figures, not derived from theory.
WANTED = {"gender": 0.45, "race": 0.62}


@torch.no_grad()
def calibrate(fader: Fader, estimator: Classifier, faces: FaceSet, masks: NDArray[np.uint8]) -> None:
    """Set the network's strengths to the smallest (1 to 2) at which the mean probability rises by the target.

    The rise from a = -1 to +1 is measured by the estimator on the held-out faces for model selection; the guide cannot
    measure it, because the network was trained to satisfy it.

    Args:
        fader: the network; its strengths are changed in place.
        estimator: evaluates the composites.
        faces: the labelled faces.
        masks: the faces' edit regions ``(N, 144, 144)`` uint8.
    """
    crops, mask, own = held_out_batch(faces, masks, count=None, device="cpu")
    codes = fader.encode(crops)
    null = fader.decode(codes, own)
    for attribute, wanted in WANTED.items():
        ends = [fader.decode(codes, with_value(own, attribute, value)) for value in (-1.0, 1.0)]
        for strength in STRENGTHS:
            low, high = (
                high_end(estimator.perceive(composite(crops, mask, null + strength * (end - null), null)), attribute)
                for end in ends
            )
            fader.strength[SCALED.index(attribute)] = strength
            if float((high - low).mean()) >= wanted:
                break
