"""Two classifiers, or two runs, on the same photos, for the page: frames of ``statistics.comparison``."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.report.charts import to_svg
from pipeline.report.extras.intervals import MOST, dots_chart
from pipeline.report.extras.shape import Drawing, Extra, Part, Sheet, bounds, kinds, things
from pipeline.report.words import Poles, poles_of, quoted
from pipeline.run.formats import count, decimal, interval, p_equals, p_value
from pipeline.run.text import visible

SURE = 0.05
NAMED = 3
PAIRED = (
    "The same photos are compared with themselves, so what both see in a photo cancels out: the interval of a "
    "difference is narrower than the two slopes' own suggest."
)


def adapters_compared(frame: pd.DataFrame, *, swept: Mapping[str, Attribute], banners: Sequence[str] = ()) -> Extra:
    """The section for every two classifiers of a run that have labels in common."""
    return Extra(
        key="classifiers",
        heading="Classifiers compared",
        explanation=(
            "Labels of the same name from two classifiers: does one move more with the perceived attribute than the "
            "other? " + PAIRED
        ),
        parts=_parts(frame, "classifiers", swept),
        caveats=[
            "Labels of the same name need not mean the same to both classifiers, nor be given as often.",
            "q: Benjamini–Hochberg over the labels compared.",
        ],
        banners=banners,
    )


def runs_compared(
    frame: pd.DataFrame, about: Mapping[str, Any], *, swept: Mapping[str, Attribute], banners: Sequence[str] = ()
) -> Extra:
    """The section for this run and another; ``about``: the ``other``, photos in ``only_first``, ``only_second``."""
    left_out = [
        f"Not compared, being in {where} only: {things(about[name], 'photo')}."
        for name, where in (("only_first", "this run"), ("only_second", f"“{visible(about['other'])}”"))
        if about[name]
    ]
    return Extra(
        key="runs",
        heading="Runs compared",
        explanation=f"This run against the run “{visible(about['other'])}” on the photos that both have. {PAIRED}",
        parts=_parts(frame, "runs", swept),
        caveats=[
            *left_out,
            "Two runs differ in whatever was changed between them: the classifier's version, its options, the edits. "
            "The "
            "difference does not say which.",
            "q: Benjamini–Hochberg over the labels compared.",
        ],
        banners=banners,
    )


def _parts(frame: pd.DataFrame, key: str, swept: Mapping[str, Attribute]) -> list[Part]:
    edits = frame[frame["arm"] == EDIT_ARM]
    return [
        _part(rows, first, second, poles_of(attribute, swept), key=f"{key}-{number}")
        for number, ((attribute, first, second), rows) in enumerate(kinds(edits, "attribute", "first", "second"), 1)
    ]


def _part(rows: pd.DataFrame, first: str, second: str, poles: Poles, *, key: str) -> Part:
    names = visible(first), visible(second)
    known = rows[rows["estimable"].astype(bool)]
    known = known.reindex(known["difference"].abs().sort_values(ascending=False, kind="stable").index)
    heading = f"{names[0]} less {names[1]}, {poles.subject}"
    return Part(
        heading=heading,
        sentences=_sentences(known, rows, names),
        drawings=[_drawing(known, heading, poles, key=key)] if len(known) else [],
        sheets=[_sheet(known, names)] if len(known) else [],
    )


def _sentences(known: pd.DataFrame, rows: pd.DataFrame, names: tuple[str, str]) -> list[str]:
    missing = len(rows) - len(known)
    left_out = [f"{count(missing)} more can be estimated in one of the two at most."] if missing else []
    if known.empty:
        return ["No label can be estimated in both, so nothing can be said about a difference.", *left_out]
    tested = f"{things(len(known), 'label')} compared on {things(known['photos'].max(), 'photo')}"
    differ = known[known["q"] < SURE]
    if differ.empty:
        reach = known[["difference_low", "difference_high"]].abs().to_numpy(float).max()
        return [
            f"{tested}: no evidence of a difference of slopes larger than {decimal(reach)}, the farthest end of the "
            "95 % "
            "intervals (none has q < 0.05).",
            *left_out,
        ]
    return [
        f"{tested}: the slopes of {count(len(differ))} differ (q < 0.05).",
        *(_sentence(row, names) for row in differ[:NAMED].to_dict("records")),
        *left_out,
    ]


def _sentence(row: Mapping[Any, Any], names: tuple[str, str]) -> str:
    slopes = (
        f"slope {decimal(row['first_slope'], sign=True)} by {names[0]}, {decimal(row['second_slope'], sign=True)} by"
    )
    said = bounds(row["difference"], row["difference_low"], row["difference_high"])
    return f"{quoted(row['label'])}: {slopes} {names[1]}; difference {said}, {p_equals('q', row['q'])}."


def _drawing(known: pd.DataFrame, heading: str, poles: Poles, *, key: str) -> Drawing:
    shown = known[:MOST].sort_values("difference", ascending=False, kind="stable")
    data = pd.DataFrame(
        {name: shown[column] for name, column in
         (("label", "label"), ("value", "difference"), ("low", "difference_low"), ("high", "difference_high"))}
    )  # fmt: skip
    chart = dots_chart(data, title=f"← {poles.short_low} · difference · {poles.short_high} →")
    largest = known.iloc[0]
    caption = "Differences of slopes with their 95 % intervals; full where the interval excludes 0."
    if len(shown) < len(known):
        caption += f" The {len(shown)} largest of {len(known)}; the table has them all."
    farthest = f"the largest difference is {decimal(largest['difference'])}, {quoted(largest['label'])}"
    description = f"{things(len(shown), 'label')}; {farthest}."
    return Drawing(to_svg(chart, key=key, title=f"Differences of slopes: {heading}", description=description), caption)


def _sheet(known: pd.DataFrame, names: tuple[str, str]) -> Sheet:
    return Sheet(
        caption=f"{things(len(known), 'label')}, largest difference first",
        columns=("Label", f"Slope, {names[0]}", f"Slope, {names[1]}", "Difference", "95 % interval", "p", "q"),
        rows=[
            (
                row["label"],
                decimal(row["first_slope"], sign=True),
                decimal(row["second_slope"], sign=True),
                decimal(row["difference"], sign=True),
                interval(row["difference_low"], row["difference_high"]),
                p_value(row["p"]),
                p_value(row["q"]),
            )
            for row in known.to_dict("records")
        ],
    )
