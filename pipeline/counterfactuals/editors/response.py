"""Units per face: the response of each face to an edit, measured by the estimator, determines the edit's strength.

The strength is adapted within bounds; perceived age and smile are held by their own fields.
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

STRENGTHS = (0.5, 2.0)  # bounds of a face's strength, as multiples of the common strength
# Target log-odds of the higher pole per unit of the value: a rise from -1 to +1 by 0.40 and by 0.42. Faces that respond
# more are moved less, faces that hardly respond are moved as far as the bounds allow.
ODDS = {"gender": 0.85, "race": 0.9}
# Scales that bring perceived age and smile to units near 1.
HELD = {"young": 15.0, "smiling": 0.6}
# Units of each held field that are applied against a unit of change. The fields move 0.27 and 0.5 units (24 portraits).
# The change is not fully compensated, because other networks see only half of it and a mouth soon turns down.
ANSWERS = {"young": 1.8, "smiling": 0.6}
MOST = {"young": 1.0, "smiling": 0.25}  # largest number of units of each at the end of a sweep

# Strengths of the trial versions, of a face that is already at that end and of one that is at the other end: near the
# strengths that such faces need, because the response is not proportional to the strength.
TRIALS = {"gender": (0.5, 2.0)}

# Makes versions of the B faces at values ``(V, B)`` with the given units: V * B aligned crops (128, 128, 3) uint8.
Draw = Callable[["Units", NDArray[np.float64]], list[NDArray[np.uint8]]]


@dataclass(frozen=True)
class Units:
    """One unit of a sweep below and above each face's own value, ``(B, 8)``: amounts of the fields of
    ``models.fader.ATTRIBUTES``."""

    below: Tensor
    above: Tensor


def held_by(attribute: Attribute) -> list[str]:
    """Return the names of `HELD` that an edit holds: all except those it moves itself."""
    return [name for name in HELD if name not in attribute.unit]


def plain_units(attribute: Attribute, count: int) -> Units:
    """Return units of equal strength for ``count`` faces, with nothing held."""
    unit = _scaled(attribute, np.ones(count))
    return Units(unit, unit)


def fitted_units(attribute: Attribute, rows: Sequence[Mapping[str, float]], draw: Draw, estimator: Classifier) -> Units:
    """Measure the units of each face of a batch.

    Args:
        attribute: the swept attribute.
        rows: the faces' own values, as perceived by the estimator.
        draw: makes versions.
        estimator: perceives them; the judges of the versions are other networks.
    """
    own = np.array([float(attribute.own_value(row)) for row in rows])
    columns, names = {*attribute.inputs, "gender", "age", "smiling"}, held_by(attribute)
    before, controls = _read(attribute, {name: np.array([float(row[name]) for row in rows]) for name in columns})
    ends = np.stack([np.minimum(-1.0, own - 1), np.maximum(1.0, own + 1)])
    tried = np.interp(np.abs(ends - own), (1.0, 2.0), TRIALS.get(attribute.base, (1.0, 1.0)))
    # In float32, because the strength multiplies the whole edit and half precision would be visible in the pixels.
    seen = perceive_crops(estimator, draw(Units(*(_scaled(attribute, one) for one in tried)), ends)).named()
    odds, held = _read(attribute, {name: figure.double().numpy() for name, figure in seen.items()})
    found = []
    for end, trial, chances, there in zip(ends, tried, np.split(odds, 2), np.split(held, 2), strict=True):
        strength = np.clip(trial * needed_strength(attribute, before, chances, end, end - own), *STRENGTHS)
        # Stronger edits also change the held attributes more.
        amounts = holding((strength / trial)[:, None] * (there - controls), names) / (end - own)[:, None]
        unit = _scaled(attribute, strength)
        unit[:, [ATTRIBUTES.index(name) for name in names]] = torch.from_numpy(amounts).float()
        found.append(unit)
    return Units(*found)


def holding(moved: NDArray[np.float64], names: Sequence[str] = tuple(HELD)) -> NDArray[np.float64]:
    """Return the units ``(B, H)`` of the fields ``names`` that counteract what an edit ``moved`` ``(B, H)``, in units
    of `HELD`."""
    most, answers = (np.array([of[name] for name in names]) for of in (MOST, ANSWERS))
    return np.asarray(np.clip(-answers * moved, -most, most))


def needed_strength(
    attribute: Attribute,
    before: NDArray[np.float64],
    seen: NDArray[np.float64],
    ends: NDArray[np.float64],
    steps: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the factor ``(B,)`` by which each face's edit would reach its target.

    Args:
        attribute: the swept attribute.
        before: log-odds of the higher pole ``(B,)``, or positions on the attribute's scale, as perceived in the
            photos.
        seen: the same in the versions.
        ends: the versions' values.
        steps: `ends` minus the faces' own values.
    """
    sign = np.sign(steps)
    wanted = sign * (ODDS.get(attribute.base, 1.0) * ends - (0 if attribute.relative else before))
    reached = np.maximum(sign * (seen - before), 0.1)
    return np.asarray(np.maximum(wanted, 0) / reached)


def _read(attribute: Attribute, seen: Mapping[str, NDArray[np.float64]]) -> tuple[NDArray[np.float64], ...]:
    """Return the log-odds of the higher pole ``(B,)``, or the position on the attribute's scale, and the held
    attributes ``(B, H)`` in units of `HELD`."""
    named = {f"judge_{name}": figure for name, figure in seen.items()} | {"judge_masculine": (1 + seen["gender"]) / 2}
    chance = attribute.perceived(named)
    if attribute.scale is None:
        chance = np.clip(chance, 1e-4, 1 - 1e-4)
        place = np.log(chance / (1 - chance))
    else:
        place = 4 * chance - 2
    held = {"young": -seen["age"] / HELD["young"], "smiling": seen["smiling"] / HELD["smiling"]}
    return place, np.stack([held[name] for name in held_by(attribute)], axis=1)


def _scaled(attribute: Attribute, strengths: NDArray[np.float64]) -> Tensor:
    """Return the amounts ``(B, 8)`` of each field in one unit of the sweep, with a strength ``(B,)`` per face."""
    unit = torch.zeros(len(ATTRIBUTES))
    for name, amount in attribute.unit.items():
        unit[ATTRIBUTES.index(name)] = amount
    return torch.from_numpy(strengths).float()[:, None] * unit
