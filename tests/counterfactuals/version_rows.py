"""Tables of versions for which the figures of the validity card are known."""

import numpy as np
import pandas as pd

from models.attributes import RACES
from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.config.options import ValidityOptions
from pipeline.counterfactuals.validity import validity_card
from pipeline.run.tables import column_types, frame_from_csv, frame_to_csv

FIVE = np.linspace(-2, 2, 5)
GOALS = ValidityOptions()
PERFECT = {
    "background_kept": 1.0, "clipped_share": 0.0, "mask_line": 0.0, "lightness": 60.0, "identity": 0.9,
    "null_psnr": 30.0, "null_ssim": 0.95, "cycles_psnr": 27.0, "cycles_ssim": 0.9,
    "judge_young": 0.0, "judge_smiling": 0.0, "judge_masculine": 0.5, "judge_age": 40.0,
    **{f"judge_race_{race}": 0.2 for race in RACES},
}  # fmt: skip


def read_back(frame):
    """The frame after a round trip through CSV."""
    return frame_from_csv(frame_to_csv(frame), column_types(frame))


def versions(*, photos=20, values=FIVE, attribute="gender", arm=EDIT_ARM, **columns):
    """The versions of a sweep; a column is a number or a function of photo number and value."""
    rows = []
    for photo in range(photos):
        for step, value in enumerate(values, start=1):
            row = {"attribute": attribute, "arm": arm, "photo": f"p{photo}", "step": step, "value": value}
            row |= {"status": "ok", "reason": None}
            figures = PERFECT | columns
            rows.append(row | {name: v(photo, value) if callable(v) else v for name, v in figures.items()})
    return pd.DataFrame(rows)


def card_fails(card):
    return any(passed is False for passed in card["passed"])


def card_of(table, groups=None, *, mode="delta", pictures=None, **goals):
    options = ValidityOptions(**goals)
    card = validity_card(table, swept=ATTRIBUTES, groups=groups or {}, options=options, mode=mode, pictures=pictures)
    assert not card.duplicated(["name", "attribute"]).any()
    return card.set_index("name").astype({"passed": object})


def masculine(slope):
    return lambda photo, value: 0.5 + slope * value


def white_share(slope):
    return {
        "judge_race_White": lambda photo, value: 0.8 * (0.5 + slope * value),
        "judge_race_Black": lambda photo, value: 0.8 * (0.5 - slope * value),
    }


def groups_of(photos, count=2):
    return {f"p{photo}": f"group {photo % count}" for photo in range(photos)}
