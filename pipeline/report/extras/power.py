"""How many photos a run like this one needs, for the page: ``tables/power.csv``."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pipeline.config.attributes import Attribute
from pipeline.report.extras.shape import Extra, Part, Sheet, kinds, things
from pipeline.report.words import poles_of
from pipeline.run.formats import count, decimal, measured, plain
from pipeline.run.text import visible

KEY = "power"


def power(frame: pd.DataFrame, about: Mapping[str, Any], *, swept: Mapping[str, Attribute]) -> Extra:
    """The section; ``about`` holds the ``width``, ``slope``, ``max_p`` and ``power`` that were asked for."""
    wanted = (
        f"an interval {plain(about['width'])} wide",
        f"a slope of {plain(about['slope'])} found (p < {plain(about['max_p'])}) with probability "
        f"{plain(about['power'])}",
    )
    return Extra(
        key=KEY,
        heading="How many photos it takes",
        explanation="From how much slopes differ between the photos of this run: how many such photos for "
        f"{wanted[0]}, and "
        f"how many for {wanted[1]}?",
        parts=[
            _part(rows, f"{visible(adapter)}, {poles_of(attribute, swept).subject}")
            for (adapter, attribute), rows in kinds(frame, "adapter", "attribute")
        ],
        caveats=["The figures hold for photos like these; of few photos they are themselves unsure."],
    )


def _part(rows: pd.DataFrame, heading: str) -> Part:
    known = rows[rows["estimable"].astype(bool)].sort_values("photos_for_width", kind="stable")
    if known.empty:
        return Part(heading, ["No label can be estimated, so nothing can be said of how many photos it would take."])
    sheet = Sheet(
        caption=f"{things(len(known), 'label')}, those that take the fewest photos first",
        columns=("Label", "Photos now", "Rate at a = 0", "Width now", "Photos for the width", "Photos for the slope"),
        rows=[
            (
                row["label"],
                count(row["photos"]),
                measured(row["y_c"], "share"),
                decimal(row["width"]),
                count(row["photos_for_width"]),
                count(row["photos_to_detect"]),
            )
            for row in known.to_dict("records")
        ],
    )
    enough = int((known["photos_to_detect"] <= known["photos"]).sum())
    sentence = f"{count(enough)} of {count(len(known))} labels have photos enough now to find such a slope."
    return Part(heading, [sentence], sheets=[sheet])
