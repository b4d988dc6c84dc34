"""How a face responds to an edit, as the estimator perceives it: what one unit of a sweep is for this face.

The strength is raised, within bounds, where a face hardly moves; perceived age and smile are held by their own fields.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from models.fader import ATTRIBUTES
from models.judge import Classifier, perceive_crops
from pipeline.config.attributes import Attribute

STRENGTHS = (0.6, 1.6)  # the range of a face's own strength, in units of all faces' strength
# Logarithm of the odds of the higher pole that a version shall have by unit of its value: a rise from -1 to +1 by 0.36
# and by 0.46. Faces that move more easily are moved no further, those that hardly move as far as the bounds allow.
ODDS = {"gender": 0.75, "race": 1.0}
HELD = {"young": 15.0, "smiling": 0.6}  # what a unit of their fields moves, about: years of perceived age, smile
PROBE = 0.5  # units, by which it is measured on each face
MOST = (1.0, 0.5)  # units of each, at the end of a sweep
# Where a face hardly responds to a field, little of it is used: the response's square by which that is decided.
DOUBT = 0.03

# Aligned crops (128, 128, 3) uint8: for each of several tensors ``(B, 8)``, which say what one unit of the sweep is in
# units of the fields, the versions of the B faces, each at its own place in ``(B,)`` values.
Draw = Callable[[NDArray[np.float64], Sequence[Tensor]], list[NDArray[np.uint8]]]


@dataclass(frozen=True)
class Units:
    """What one unit of a sweep below and above a face's own value is, in units of the fields: ``(B, 8)`` each."""

    below: Tensor
    above: Tensor


def direction(attribute: Attribute) -> Tensor:
    """What one unit of an attribute's sweep is in units of the fields ``(8,)``."""
    unit = torch.zeros(len(ATTRIBUTES))
    if not attribute.categories:
        unit[ATTRIBUTES.index(attribute.inputs[0])] = 1
        return unit
    low, high = (ATTRIBUTES.index(attribute.inputs[attribute.categories.index(pole)]) for pole in attribute.poles)
    unit[high], unit[low] = 0.5, -0.5
    return unit


def fitted_units(attribute: Attribute, rows: Sequence[Mapping[str, float]], draw: Draw, estimator: Classifier) -> Units:
    """The units of each face of a batch.

    Args:
        attribute: what is swept.
        rows: the faces' own values, as the estimator perceives them.
        draw: makes versions.
        estimator: perceives them; the judge, which checks the versions, is another network on other data.
    """
    own = np.array([float(attribute.own_value(row)) for row in rows])
    unit = direction(attribute).expand(len(own), len(ATTRIBUTES))
    held = [ATTRIBUTES.index(name) for name in HELD]
    columns = {*attribute.inputs, "gender", "age", "smiling"}
    before, controls = _read(attribute, {name: np.array([float(row[name]) for row in rows]) for name in columns})
    ends = np.minimum(-1.0, own - 1), np.maximum(1.0, own + 1)
    crops: list[NDArray[np.uint8]] = []
    for end in ends:
        probes = [unit.clone() for _ in held]
        for probe, place in zip(probes, held, strict=True):
            probe[:, place] += torch.from_numpy(PROBE / (end - own)).float()
        crops += draw(end, [unit, *probes])
    # In float32 everywhere: the strength multiplies the whole edit, and half precision would show in the pixels.
    seen = {name: figure.double().numpy() for name, figure in perceive_crops(estimator, crops).named().items()}
    odds, moved = _read(attribute, seen)
    odds, moved = odds.reshape(2, 1 + len(held), -1), moved.reshape(2, 1 + len(held), len(own), -1)
    found = []
    for end, chances, (there, *probed) in zip(ends, odds[:, 0], moved, strict=True):
        strength = np.clip(needed_strength(attribute, before, chances, end, end - own), *STRENGTHS)
        responses = np.stack([(one - there) / PROBE for one in probed], axis=2)
        # Stronger edits move more of what is to be held.
        amounts = holding(strength[:, None] * (there - controls), responses)
        one = unit * torch.from_numpy(strength).float()[:, None]
        one[:, held] += torch.from_numpy(amounts / (end - own)[:, None]).float()
        found.append(one)
    return Units(*found)


def holding(moved: NDArray[np.float64], responses: NDArray[np.float64]) -> NDArray[np.float64]:
    """How many units of each held field ``(B, H)`` bring back what an edit moved (damped least squares).

    Args:
        moved: ``(B, H)`` what the edit moves, in units of `HELD`.
        responses: ``(B, H, H)`` what a unit of each field (last axis) moves.
    """
    transposed = responses.transpose(0, 2, 1)
    normal = transposed @ responses + DOUBT * np.eye(responses.shape[2])
    amounts = -np.linalg.solve(normal, transposed @ moved[..., None])[..., 0]
    return np.asarray(np.clip(amounts, -np.array(MOST), MOST))


def needed_strength(
    attribute: Attribute,
    before: NDArray[np.float64],
    seen: NDArray[np.float64],
    ends: NDArray[np.float64],
    steps: NDArray[np.float64],
) -> NDArray[np.float64]:
    """By how much each face's edit ``(B,)`` would have to be multiplied to be perceived as its value says.

    Args:
        attribute: what is swept.
        before: the logarithms of the odds of the higher pole ``(B,)`` as perceived in the photos.
        seen: the same in the versions.
        ends: the versions' values.
        steps: the same less the faces' own values.
    """
    sign = np.sign(steps)
    wanted = sign * (ODDS.get(attribute.name, 1.0) * ends - before)
    reached = np.maximum(sign * (seen - before), 0.1)
    return np.asarray(np.maximum(wanted, 0) / reached)


def _read(attribute: Attribute, seen: Mapping[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    """The logarithm of the odds of the higher pole ``(B,)``, and what is held ``(B, H)``, in units of `HELD`."""
    named = {f"judge_{name}": figure for name, figure in seen.items()} | {"judge_masculine": (1 + seen["gender"]) / 2}
    chance = np.clip(attribute.perceived(named), 1e-4, 1 - 1e-4)
    held = [-seen["age"] / HELD["young"], seen["smiling"] / HELD["smiling"]]
    return np.log(chance / (1 - chance)), np.stack(held, axis=1)
