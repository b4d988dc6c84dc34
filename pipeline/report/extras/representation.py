"""Who is shown, for the page: ``tables/representation.csv``, shares raw and corrected for the estimator's errors."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from pipeline.report.charts import to_svg
from pipeline.report.extras.intervals import MOST, dots_chart
from pipeline.report.extras.shape import Drawing, Extra, Part, Sheet, kinds, listed
from pipeline.run.formats import MISSING, count, is_missing, measured
from pipeline.run.text import visible

KEY = "representation"
RAW, CORRECTED = "as perceived", "corrected for the estimator's errors"
CHARTS = 6


def representation(frame: pd.DataFrame, about: Mapping[str, Any]) -> Extra:
    """The section: one part for each attribute.

    Args:
        frame: as ``statistics.representation.representation_frame`` gives it.
        about: ``by``, the column of the groups, and ``notes``, what else is to be said.
    """
    by = visible(about["by"])
    return Extra(
        key=KEY,
        heading="Who is shown",
        explanation=(
            f"How the faces of these photos are perceived, by {by}: the shares as the estimator perceives them, and "
            "the true shares that explain these best, given how often it errs on held-out faces."
        ),
        parts=[
            _part(rows, by, attribute, key=f"{KEY}-{number}")
            for number, ((attribute,), rows) in enumerate(kinds(frame, "attribute"), start=1)
        ],
        caveats=[
            *map(str, about.get("notes", ())),
            "The corrected shares hold if the estimator errs on these photos as it does on the held-out faces; their "
            "intervals count how well its errors are known.",
            "They are shares of perceived attributes among the central faces of these photos, not of anybody's "
            "identity, "
            "and say nothing of photos that are not here.",
        ],
    )


def _part(rows: pd.DataFrame, by: str, attribute: str, *, key: str) -> Part:
    categories = list(dict.fromkeys(rows["category"]))
    groups = kinds(rows, "group")
    several = len(groups) > 1
    drawings = []
    if len(categories) == 2 and several:
        one = rows[rows["category"] == categories[0]].sort_values("share", ascending=False, kind="stable")
        drawings.append(_drawing(one, "group", key=key, about=f"share perceived as {categories[0]}, by {by}"))
    else:
        largest = sorted(groups, key=lambda item: -int(item[1]["photos"].iloc[0]))[:CHARTS]
        for number, ((group,), own) in enumerate(largest, start=1):
            name = f"perceived {attribute}" + (f", {by} {visible(group)}" if several else "")
            drawings.append(_drawing(own, "category", key=f"{key}-{number}", about=name))
    return Part(
        heading=f"Perceived {visible(attribute)}",
        sentences=[_sentence(own, group if several else "", by) for (group,), own in groups[:CHARTS]],
        drawings=drawings,
        sheets=[_sheet(rows, by, attribute)],
    )


def _sentence(rows: pd.DataFrame, group: str, by: str) -> str:
    """The largest share of a group, as perceived and corrected."""
    row = rows.sort_values("share", ascending=False, kind="stable").iloc[0]
    about = f"{by} “{visible(group)}”: " if group else ""
    said = f"{_share(row['share'])} of {count(row['photos'])} faces perceived as {visible(row['category'])}"
    bounds = f"95 % interval {_interval(row['share_low'], row['share_high'])}"
    if is_missing(row["corrected"]):
        return f"{about}{said} ({bounds}; not corrected)."
    corrected = f"{_share(row['corrected'])}, {_interval(row['corrected_low'], row['corrected_high'])}"
    return f"{about}{said} ({bounds}; corrected {corrected})."


def _drawing(rows: pd.DataFrame, column: str, *, key: str, about: str) -> Drawing:
    shown = rows[:MOST]
    raw = shown.assign(label=shown[column], value=shown["share"], low=shown["share_low"], high=shown["share_high"])
    parts = [raw.assign(series=RAW)]
    if shown["corrected"].notna().any():
        better = {"value": shown["corrected"], "low": shown["corrected_low"], "high": shown["corrected_high"]}
        parts.append(raw.assign(**better, series=CORRECTED)[shown["corrected"].notna()])
    data = pd.concat(parts)
    series = list(dict.fromkeys(data["series"]))
    chart = dots_chart(data, title=about, around=None, shares=True, series=series)
    names = listed([f"{row['label']} {_share(row['value'])}" for row in raw.to_dict("records")])
    caption = f"{about[:1].upper()}{about[1:]}, with 95 % intervals."
    if len(shown) < len(rows):
        caption += f" The {len(shown)} largest of {len(rows)}; the table has them all."
    return Drawing(to_svg(chart, key=key, title=caption, description=f"As perceived: {names}."), caption)


def _sheet(rows: pd.DataFrame, by: str, attribute: str) -> Sheet:
    return Sheet(
        caption=f"Perceived {visible(attribute)} by {by}",
        columns=(by.capitalize(), "Perceived as", "Faces", "Share", "95 % interval", "Corrected", "95 % interval"),
        rows=[
            (
                row["group"],
                row["category"],
                f"{count(row['count'])} of {count(row['photos'])}",
                _share(row["share"]),
                _interval(row["share_low"], row["share_high"]),
                _share(row["corrected"]),
                _interval(row["corrected_low"], row["corrected_high"]),
            )
            for row in rows.to_dict("records")
        ],
        texts=frozenset({1}),
    )


def _share(value: float) -> str:
    return measured(value, "share")


def _interval(low: float, high: float) -> str:
    return MISSING if is_missing(low) or is_missing(high) else f"{_share(low)} to {_share(high)}"
