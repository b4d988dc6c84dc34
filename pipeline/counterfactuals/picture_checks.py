"""Checks of what an edit does to the picture: the skin's tone, face against neck, change in one place or on one side.

Each is a pure function from rows of the counterfactuals table to lines of the card.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.config.attributes import Attribute
from pipeline.config.options import ValidityOptions
from pipeline.counterfactuals.checks import NAN, Check, line, rise, wide

CHANNELS = {"skin_l": "L*", "skin_a": "a*", "skin_b": "b*"}
TYPICAL_AGE = 40.0


def skin(attribute: Attribute, rows: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """Whether skin takes the step that lies between the groups, and the neck takes it with the face."""
    moved = np.array([rise(_table(rows, column)) for column in CHANNELS])
    wanted = group_shift(attribute)
    step = ", ".join(f"{name} {x:+.1f}" for name, x in zip(CHANNELS.values(), moved, strict=True))
    goal = ", ".join(f"{name} {x:+.1f}" for name, x in zip(CHANNELS.values(), wanted, strict=True))
    against = f"between the groups of the training faces lie {goal}" if wanted.any() else "it should stay"
    tone = f"Distance of the skin's mean shift from a = −1 to +1 ({step}) from what it should be: {against}."
    if np.isnan(moved).any():
        tone = "No complete sweep of faces that show enough skin."
    gap, faces = near_one(rows, "neck_gap")
    neck = (
        "Gap between the shifts of the face's skin and of the neck's and ears', mean of a = −1 and +1, of "
        f"{faces} faces that show enough of both."
    )
    return [
        line("tone", attribute.name, float(np.linalg.norm(moved - wanted)), "ΔE", tone, most=options.tone),
        line("face against neck", attribute.name, gap, "ΔE", neck, most=options.neck_gap),
    ]


def shape(attribute: Attribute, rows: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """Whether the change gathers in small places, or on one side of the face."""
    gathered, one_sided = (near_one(rows, column)[0] for column in ("concentration", "asymmetry"))
    words = "Share of the squared change of L* at a = −1 and +1 in the densest 5 % of the mask (an even change: 5 %)."
    sides = "Difference of the change's left and right half over its size, at a = −1 and +1: 0 alike, 2 one side alone."
    return [
        line("concentration", attribute.name, gathered, "share", words, most=options.concentration),
        line("asymmetry", attribute.name, one_sided, "", sides, most=options.asymmetry),
    ]


def group_shift(attribute: Attribute) -> NDArray[np.float64]:
    """The step of the skin's median CIELAB ``(3,)`` from a = -1 to +1 that lies between the groups; 0 where none is."""
    if not (attribute.moves_colour and attribute.categories):
        return np.zeros(3)
    from models.tone import load_tone_table

    table = load_tone_table()
    low, high = (table.group(gender=0.0, race=pole, age=TYPICAL_AGE) for pole in attribute.poles)
    return np.asarray((high - low).mean(axis=1))


def near_one(rows: pd.DataFrame, column: str) -> tuple[float, int]:
    """A column's mean over photos at the steps next to a = -1 and +1, and how many photos have it."""
    if column not in rows:
        return NAN, 0
    sizes = rows["value"].abs()
    steps = np.unique(sizes[sizes > 0])
    next_to = {steps[steps <= 1].max(initial=0.0), min(steps[steps >= 1], default=0.0)} - {0.0}
    known = rows[sizes.isin(next_to) & rows[column].notna()]
    by_photo = known.groupby("photo")[column].mean()
    return (float(by_photo.mean()) if len(by_photo) else NAN), len(by_photo)


def _table(rows: pd.DataFrame, column: str) -> pd.DataFrame:
    return wide(rows, column) if column in rows else pd.DataFrame()
