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

STRENGTHS = (0.5, 2.2)  # the range of a face's own strength, in units of all faces' strength
# Logarithm of the odds of the higher pole that a version should have by unit of its value: a rise from -1 to +1 by 0.40
# and by 0.46. Faces that move more easily are moved no further, those that hardly move as far as the bounds allow.
ODDS = {"gender": 0.85, "race": 1.0}
# By what the estimator's view of perceived age and of smile is put in units near 1.
HELD = {"young": 15.0, "smiling": 0.6}
# How many units of each held field are taken against a unit of what moved. The fields move 0.27 and 0.5 of one (24
# portraits): not all is brought back, as other networks see half of it only, and a mouth soon turns down.
ANSWERS = {"young": 1.8, "smiling": 0.6}
MOST = {"young": 1.0, "smiling": 0.25}  # units of each, at the end of a sweep

# The versions of the B faces at ``(B,)`` values, as aligned crops (128, 128, 3) uint8, with the fields' own strength.
Draw = Callable[[NDArray[np.float64]], list[NDArray[np.uint8]]]


@dataclass(frozen=True)
class Units:
    """How far one unit of a sweep goes along each of its J ``directions``, below and above a face's own value:
    ``(B, J)`` each."""

    below: Tensor
    above: Tensor


def directions(attribute: Attribute) -> Tensor:
    """Along which attribute values an edit goes, ``(J, 8)``: its own first, then what holds perceived age and smile."""
    own = torch.zeros(len(ATTRIBUTES))
    for name, amount in attribute.unit.items():
        own[ATTRIBUTES.index(name)] = amount
    return torch.stack([own, *(torch.eye(len(ATTRIBUTES))[ATTRIBUTES.index(name)] for name in held_by(attribute))])


def held_by(attribute: Attribute) -> list[str]:
    """What of `HELD` an edit of an attribute holds: all but what it moves itself."""
    return [name for name in HELD if name not in attribute.unit]


def plain_units(attribute: Attribute, count: int) -> Units:
    """The same strength for ``count`` faces, with nothing held."""
    unit = torch.zeros(count, 1 + len(held_by(attribute)))
    unit[:, 0] = 1
    return Units(unit, unit)


def fitted_units(attribute: Attribute, rows: Sequence[Mapping[str, float]], draw: Draw, estimator: Classifier) -> Units:
    """The units of each face of a batch.

    Args:
        attribute: what is swept.
        rows: the faces' own values, as the estimator perceives them.
        draw: makes versions.
        estimator: perceives them; the judge, which checks the versions, is another network on other data.
    """
    own = np.array([float(attribute.own_value(row)) for row in rows])
    columns, names = {*attribute.inputs, "gender", "age", "smiling"}, held_by(attribute)
    before, controls = _read(attribute, {name: np.array([float(row[name]) for row in rows]) for name in columns})
    ends = np.minimum(-1.0, own - 1), np.maximum(1.0, own + 1)
    # In float32 everywhere: the strength multiplies the whole edit, and half precision would show in the pixels.
    seen = perceive_crops(estimator, [crop for end in ends for crop in draw(end)]).named()
    odds, held = _read(attribute, {name: figure.double().numpy() for name, figure in seen.items()})
    found = []
    for end, chances, there in zip(ends, np.split(odds, 2), np.split(held, 2), strict=True):
        strength = np.clip(needed_strength(attribute, before, chances, end, end - own), *STRENGTHS)
        # Stronger edits move more of what is to be held.
        amounts = holding(strength[:, None] * (there - controls), names) / (end - own)[:, None]
        found.append(torch.from_numpy(np.column_stack([strength, amounts])).float())
    return Units(*found)


def holding(moved: NDArray[np.float64], names: Sequence[str] = tuple(HELD)) -> NDArray[np.float64]:
    """How many units of each field ``names`` ``(B, H)`` bring back what an edit ``moved`` ``(B, H)``, in units of
    `HELD`."""
    most, answers = (np.array([of[name] for name in names]) for of in (MOST, ANSWERS))
    return np.asarray(np.clip(-answers * moved, -most, most))


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
        before: the logarithms of the odds of the higher pole ``(B,)``, or places on its scale, as perceived in the
            photos.
        seen: the same in the versions.
        ends: the versions' values.
        steps: the same less the faces' own values.
    """
    sign = np.sign(steps)
    wanted = sign * (ODDS.get(attribute.base, 1.0) * ends - (0 if attribute.relative else before))
    reached = np.maximum(sign * (seen - before), 0.1)
    return np.asarray(np.maximum(wanted, 0) / reached)


def _read(attribute: Attribute, seen: Mapping[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    """The logarithm of the odds of the higher pole ``(B,)``, or the place on the attribute's scale, and what it holds
    ``(B, H)``, in units of `HELD`."""
    named = {f"judge_{name}": figure for name, figure in seen.items()} | {"judge_masculine": (1 + seen["gender"]) / 2}
    chance = attribute.perceived(named)
    if attribute.scale is None:
        chance = np.clip(chance, 1e-4, 1 - 1e-4)
        place = np.log(chance / (1 - chance))
    else:
        place = 4 * chance - 2
    held = {"young": -seen["age"] / HELD["young"], "smiling": seen["smiling"] / HELD["smiling"]}
    return place, np.stack([held[name] for name in held_by(attribute)], axis=1)
