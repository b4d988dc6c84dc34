"""Checks of the pictures: skin tone, face against neck, concentration, common changes, asymmetry, detection.

Each is a pure function from rows of the counterfactuals table and of the table of checks to lines of the card.
"""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.config.options import ValidityOptions
from pipeline.counterfactuals.checks import NAN, Check, each, end_to_end, line, rise, wide
from pipeline.run.formats import measured

CHANNELS = {"skin_l": "L*", "skin_a": "a*", "skin_b": "b*"}
TYPICAL_AGE = 40.0
MAPS = ("map: low", "map: high")


def skin(attribute: Attribute, rows: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """Check that skin shifts by the expected difference, and that face and neck shift alike."""
    moved = np.array([rise(_table(rows, column)) for column in CHANNELS])
    wanted = group_shift(attribute)
    step = ", ".join(f"{name} {x:+.1f}" for name, x in zip(CHANNELS.values(), moved, strict=True))
    goal = ", ".join(f"{name} {x:+.1f}" for name, x in zip(CHANNELS.values(), wanted, strict=True))
    source = "between the groups of the training faces lie" if attribute.categories else "asked for are"
    against = f"{source} {goal}" if wanted.any() else "it should stay"
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


def shape(attribute: Attribute, rows: pd.DataFrame, pictures: pd.DataFrame, options: ValidityOptions) -> list[Check]:
    """Check whether the change is concentrated, common to all faces, or one-sided."""
    gathered, one_sided = (near_one(rows, column)[0] for column in ("concentration", "asymmetry"))
    real = figure_of(pictures, "paste: concentration")
    against = f"between real faces of both groups {measured(real, 'share')}, an even change 5 %"
    if np.isnan(real):
        against = (
            f"no threshold: the run has too few real faces of both groups; an even change {measured(0.05, 'share')}"
        )
    words = f"Share of the squared change of L* at a = −1 and +1 in the densest 5 % of the mask ({against})."
    sides = "Difference of the change's left and right half over its size, at a = −1 and +1: 0 alike, 2 one side alone."
    drawn = max((figure_of(pictures, name) for name in MAPS), default=NAN)
    where = " of skin" if attribute.moves_colour else ""
    picture = f"Largest deviation of the mean change of L*{where} over all faces from its own mean, at a = −1 or +1."
    return [
        line("concentration", attribute.name, gathered, "share", words, most=options.concentration * real),
        line("stencil", attribute.name, drawn, "ΔL*", picture, most=options.stencil),
        line("asymmetry", attribute.name, one_sided, "", sides, most=options.asymmetry),
    ]


def together(
    attribute: Attribute, targets: Mapping[str, pd.DataFrame], pictures: pd.DataFrame, options: ValidityOptions
) -> list[Check]:
    """Check a sample of pictures: comparison with real faces, detection, and separate effects of tone and features.

    Args:
        attribute: the swept attribute.
        targets: each judge's probability of the higher pole, one row per photo, one column per value.
        pictures: the attribute's rows of the table of checks.
        options: the thresholds.
    """
    shares, near = {}, {}
    for judge, table in targets.items():
        swing = figure_of(pictures, "paste", arm=judge)
        if swing > 0:
            shares[judge] = float(end_to_end(table).mean()) / swing
            near[judge] = rise(table) / swing
    pasted = f"Fewer than {options.smallest_group} faces of either group: no real faces could be pasted."
    if shares:
        most = max(shares, key=lambda judge: shares[judge])
        pasted = (
            "Effect of the whole sweep over that of real faces of the other group, pasted into the same masks"
            f"{each(shares, 'share')}; from a = −1 to +1 {measured(near[most], 'share')}."
        )
    found = pictures[pictures["measure"].str.startswith("detection")]
    edits = found[found["measure"] == "detection"]
    area, seen = NAN, "Too few photos for a classifier to learn what edits look like."
    if len(edits):
        area = float(edits["figure"].iloc[0])
        bounds = f"{edits['low'].iloc[0]:.2f} to {edits['high'].iloc[0]:.2f}"
        seen = (
            "Area under the ROC curve of the better of a small network and a logistic regression, each cross-fitted by "
            f"face, that look for edits at a = −1 and +1 among {int(edits['photos'].iloc[0])} faces (95 % interval "
            f"{bounds}){_at_ends(found)}."
        )
    checks = [
        line("share of a real paste", attribute.name, max(shares.values(), default=NAN), "share", pasted,
             most=options.real_paste),
        line("detection", attribute.name, area, "AUC", seen, most=options.detection),
    ]  # fmt: skip
    both, tone, features = (figure_of(pictures, f"parts: {part}") for part in ("both", "tone", "features"))
    if not np.isnan(both):
        split = (
            f"Effect of the skin's tone alone; of the features alone {features:.2f}, of both {both:.2f} "
            f"(judge, a = −1 to +1, each switched off in turn)."
        )
        checks.append(line("tone alone", attribute.name, tone, "probability", split))
    return checks


def figure_of(pictures: pd.DataFrame, measure: str, *, arm: str = EDIT_ARM) -> float:
    """Look up a figure in the table of checks; NaN if it was not measured."""
    found = pictures[(pictures["measure"] == measure) & (pictures["arm"] == arm)]
    return float(found["figure"].iloc[0]) if len(found) else NAN


def _at_ends(found: pd.DataFrame) -> str:
    """Format ``; at the ends of the sweep edit 0.86, placebo “random” 0.91``; empty without placebos."""
    ends = found[found["measure"] == "detection: ends"]
    if not len(ends):
        return ""
    areas = dict(zip(ends["arm"], ends["figure"], strict=True))
    texts = [f"edit {areas.pop(EDIT_ARM):.2f}"] if EDIT_ARM in areas else []
    texts += [f"placebo “{arm}” {area:.2f}" for arm, area in areas.items()]
    return f"; at the ends of the sweep {', '.join(texts)}"


def group_shift(attribute: Attribute) -> NDArray[np.float64]:
    """Return the expected shift of the skin's median CIELAB ``(3,)`` from a = -1 to +1; 0 if none is expected."""
    if not attribute.moves_colour:
        return np.zeros(3)
    from models.tone import load_tone_table

    table = load_tone_table()
    if attribute.scale is not None:
        middle, unit = attribute.scale
        low, high = (table.typical(middle + sign * unit) for sign in (-1, 1))
        return high - low
    low, high = (table.group(gender=0.0, race=pole, age=TYPICAL_AGE) for pole in attribute.poles)
    return np.asarray((high - low).mean(axis=1))


def near_one(rows: pd.DataFrame, column: str) -> tuple[float, int]:
    """Return a column's mean over photos at the steps next to a = -1 and +1, and the number of photos with it."""
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
