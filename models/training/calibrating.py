"""How strong a unit of the dial is: the changes are scaled until the estimator perceives a given difference."""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.attributes import RACES
from models.fader import Fader, race_line
from models.judge import Estimator, Judge
from models.training.edits import GENDER, RACE, composite, mask_pixels, own_attributes
from models.training.faces import FaceSet, selection_rows, to_unit

STRENGTHS = tuple(1 + step / 20 for step in range(21))
# Set by trial, with an eye on what the judge makes of the result; not by any theory.
WANTED = {"gender": 0.45, "race": 0.62}


@torch.no_grad()
def calibrate(fader: Fader, estimator: Estimator | Judge, faces: FaceSet, masks: NDArray[np.uint8]) -> None:
    """Set the network's strengths to the smallest (1 to 2) that raise the mean probability from a = -1 to +1 as wanted.

    The probability is that of masculine, and of White given White or Black. Measured on the held-out faces kept for
    choosing, by the estimator rather than by the training's guide, whose taste the changes meet anyway.
    """
    rows = selection_rows(faces)
    crops = to_unit(faces.pixels(rows))
    mask = mask_pixels(masks, rows, torch.zeros(len(rows), 2, dtype=torch.long))
    own = own_attributes(faces, rows)
    codes = fader.encode(crops)
    null = fader.decode(codes, own)
    for place, (attribute, wanted) in enumerate(WANTED.items()):
        ends = [fader.decode(codes, _values(own, attribute, value)) for value in (-1.0, 1.0)]
        for strength in STRENGTHS:
            low, high = (
                _perceived(estimator, composite(crops, mask, null + strength * (end - null), null), attribute)
                for end in ends
            )
            fader.strength[place] = strength
            if float((high - low).mean()) >= wanted:
                break


def _values(own: Tensor, attribute: str, value: float) -> Tensor:
    wanted = own.clone()
    if attribute == "gender":
        wanted[:, GENDER] = value
    else:
        low, high = (torch.full((len(own),), RACES.index(race)) for race in ("Black", "White"))
        wanted[:, RACE] = race_line(torch.full((len(own),), value), low, high)
    return wanted


def _perceived(network: Estimator | Judge, crops: Tensor, attribute: str) -> Tensor:
    seen = network.perceive(crops)
    if attribute == "gender":
        return seen.masculine
    low, high = (seen.race[:, RACES.index(race)] for race in ("Black", "White"))
    return high / (low + high)
