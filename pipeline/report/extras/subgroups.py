"""Slopes for groups of photos, for the page: ``tables/subgroups.csv`` and ``subgroup_differences.csv``."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.report.charts import PALETTE, to_svg
from pipeline.report.extras.intervals import dots_chart
from pipeline.report.extras.shape import Drawing, Extra, Part, Sheet, bounds, kinds, listed, things
from pipeline.report.words import Poles, poles_of, quoted
from pipeline.run.formats import count, decimal, interval, p_equals, p_value
from pipeline.run.text import visible

KEY = "groups"
SURE = 0.05
NAMED, DRAWN = 3, 6


def subgroups(
    slopes: pd.DataFrame,
    differences: pd.DataFrame,
    *,
    by: str,
    swept: Mapping[str, Attribute],
    banners: Sequence[str] = (),
) -> Extra:
    """The section: one part for each adapter and attribute.

    Args:
        slopes: the columns ``statistics.subgroups.SUBGROUP_COLUMNS``.
        differences: ``DIFFERENCE_COLUMNS``.
        by: what the photos are grouped by.
        swept: the attributes of the sweeps by their names.
        banners: what stands over it.
    """
    parts = []
    edits = slopes[slopes["arm"] == EDIT_ARM]
    for number, ((adapter, attribute), rows) in enumerate(kinds(edits, "adapter", "attribute"), start=1):
        own = (
            (differences["adapter"] == adapter)
            & (differences["attribute"] == attribute)
            & (differences["arm"] == EDIT_ARM)
        )
        poles = poles_of(attribute, swept)
        parts.append(_part(rows, differences[own], adapter, poles, key=f"{KEY}-{number}"))
    groups = "how the unchanged face is perceived" if by == "perceived" else visible(by)
    return Extra(
        key=KEY,
        heading="Groups of photos",
        explanation=f"The slopes again, for groups of photos by {groups}: "
        "does a label move more in one group than in another?",
        parts=parts,
        caveats=[
            "Groups hold fewer photos than the whole: more labels are too rare, and intervals are wider.",
            "q: Benjamini–Hochberg over all groups and labels.",
        ],
        banners=banners,
    )


def _part(slopes: pd.DataFrame, differences: pd.DataFrame, adapter: str, poles: Poles, *, key: str) -> Part:
    known = slopes[slopes["estimable"].astype(bool)]
    heading = f"{visible(adapter)}, {poles.subject}"
    if known.empty:
        groups = listed(list(dict.fromkeys(slopes["group"])))
        return Part(heading, [f"No label can be estimated in any group ({groups})."])
    order = known["slope"].abs().groupby(known["label"]).max().sort_values(ascending=False, kind="stable")
    return Part(
        heading=heading,
        sentences=_sentences(differences, known),
        drawings=[_drawing(known, list(order.index[:DRAWN]), heading, poles, key=key)],
        sheets=[_sheet(known, list(order.index)), *([_difference_sheet(differences)] if len(differences) else [])],
    )


def _sentences(differences: pd.DataFrame, known: pd.DataFrame) -> list[str]:
    sizes = known.groupby("group", sort=False)["photos"].max()
    groups = listed([f"{visible(group)} ({things(photos, 'photo')})" for group, photos in sizes.items()], most=8)
    opening = f"{things(known['label'].nunique(), 'label')} can be estimated in a group or more: {groups}."
    tested = differences[differences["difference"].notna()]
    if tested.empty:
        return [opening, "No label can be estimated in two groups, so none can be compared."]
    differ = tested[tested["q"] < SURE]
    differ = differ.reindex(differ["difference"].abs().sort_values(ascending=False, kind="stable").index)
    if differ.empty:
        reach = tested[["difference_low", "difference_high"]].abs().to_numpy(float).max()
        return [
            opening,
            f"{things(len(tested), 'difference')} between groups tested: no evidence of one larger than "
            f"{decimal(reach)}, "
            "the farthest end of the 95 % intervals (none has q < 0.05).",
        ]
    return [
        opening,
        f"{count(len(differ))} of {count(len(tested))} differences between groups have q < 0.05.",
        *map(_sentence, differ[:NAMED].to_dict("records")),
    ]


def _sentence(row: Mapping[Any, Any]) -> str:
    slopes = (
        f"slope {decimal(row['group_slope'], sign=True)} among {visible(row['group'])}, "
        f"{decimal(row['other_slope'], sign=True)} among {visible(row['other'])}"
    )
    said = bounds(row["difference"], row["difference_low"], row["difference_high"])
    return f"{quoted(row['label'])}: {slopes}; difference {said}, {p_equals('q', row['q'])}."


def _drawing(known: pd.DataFrame, labels: Sequence[str], heading: str, poles: Poles, *, key: str) -> Drawing:
    sizes = known.groupby("group")["photos"].max().sort_values(ascending=False, kind="stable")
    groups = [str(group) for group in sizes.index[: len(PALETTE)]]
    rows = known[known["label"].isin(labels) & known["group"].isin(groups)]
    rows = rows.assign(place=rows["label"].map({label: place for place, label in enumerate(labels)}))
    data = rows.sort_values("place", kind="stable").rename(
        columns={"slope": "value", "slope_low": "low", "slope_high": "high", "group": "series"}
    )
    chart = dots_chart(data, title=f"← {poles.short_low} · slope · {poles.short_high} →", series=groups)
    caption = (
        f"Slopes by group with their 95 % intervals: the {len(labels)} labels with the largest slope in any group."
    )
    if len(groups) < len(sizes):
        caption += f" The {len(groups)} largest of {len(sizes)} groups; the table has them all."
    description = f"Labels {listed(labels)}, in the groups {listed(groups)}."
    return Drawing(to_svg(chart, key=key, title=f"Slopes by group: {heading}", description=description), caption)


def _sheet(known: pd.DataFrame, labels: Sequence[str]) -> Sheet:
    place = {label: number for number, label in enumerate(labels)}
    ordered = known.assign(place=known["label"].map(place)).sort_values(["place", "group"], kind="stable")
    return Sheet(
        caption=f"{things(len(ordered), 'slope')} by label and group",
        columns=("Label", "Group", "Photos", "Slope", "95 % interval", "p", "q"),
        rows=[
            (
                row["label"],
                row["group"],
                count(row["photos"]),
                decimal(row["slope"], sign=True),
                interval(row["slope_low"], row["slope_high"]),
                p_value(row["p"]),
                p_value(row["q"]),
            )
            for row in ordered.to_dict("records")
        ],
        texts=frozenset({1}),
    )


def _difference_sheet(differences: pd.DataFrame) -> Sheet:
    known = differences[differences["difference"].notna()]
    known = known.reindex(known["difference"].abs().sort_values(ascending=False, kind="stable").index)
    return Sheet(
        caption=f"{things(len(known), 'difference')} between two groups, largest first",
        columns=("Label", "Group", "Less", "Difference", "95 % interval", "p", "q"),
        rows=[
            (
                row["label"],
                row["group"],
                row["other"],
                decimal(row["difference"], sign=True),
                interval(row["difference_low"], row["difference_high"]),
                p_value(row["p"]),
                p_value(row["q"]),
            )
            for row in known.to_dict("records")
        ],
        texts=frozenset({1, 2}),
    )
