"""Directional bias amplification with the attribute intervened on, for the page: ``tables/amplification.csv``."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.report.charts import to_svg
from pipeline.report.extras.intervals import MOST, dots_chart
from pipeline.report.extras.shape import Drawing, Extra, Part, Sheet, bounds, kinds, things
from pipeline.report.words import Poles, poles_of, quoted
from pipeline.run.formats import MISSING, count, decimal, interval, is_missing, plain
from pipeline.run.text import visible

KEY = "amplification"


def amplification(
    frame: pd.DataFrame, about: Mapping[str, Any], *, swept: Mapping[str, Attribute], banners: Sequence[str] = ()
) -> Extra:
    """The section: one part for each adapter, attribute and pair of values.

    Args:
        frame: as ``intervening.amplification_of_run`` gives it.
        about: ``base``, where the signs come from, and ``level``, of the intervals.
        swept: the attributes of the sweeps by their names.
        banners: what stands over it.
    """
    parts = kinds(frame, "adapter", "attribute", "value_low", "value_high")
    return Extra(
        key=KEY,
        heading="Directional bias amplification",
        explanation=(
            "Shown the same faces with another perceived attribute, does the classifier lean further the way the base "
            "leans? Of each task, half the change of its rate from one end of the sweep to the other, counted positive "
            "where it goes the way of the base (BiasAmp→ from attribute to task, the attribute intervened on). "
            f"The base is {visible(about['base'])}."
        ),
        parts=[
            _part(rows, about, poles_of(attribute, swept), key=f"{KEY}-{number}", adapter=adapter)
            for number, ((adapter, attribute, _, _), rows) in enumerate(parts, start=1)
        ],
        caveats=[
            "The base is taken as it is; its own errors are not in the intervals, which are over photos.",
            "An interval is of one task; with many tasks some exclude 0 by chance.",
            "After Wang and Russakovsky, “Directional Bias Amplification”, 2021, with the observed groups replaced by "
            "two versions of the same photos.",
        ],
        banners=banners,
    )


def _part(rows: pd.DataFrame, about: Mapping[str, Any], poles: Poles, *, key: str, adapter: str) -> Part:
    level = float(about["level"])
    edits = rows[rows["arm"] == EDIT_ARM]
    tasks = edits[edits["task"] != ""]
    known = tasks[tasks["amplification"].notna()]
    known = known.sort_values("amplification", ascending=False, kind="stable")
    others = {str(arm): part.set_index("task") for arm, part in rows[rows["arm"] != EDIT_ARM].groupby("arm")}
    low, high = (plain(float(rows[name].iloc[0])) for name in ("value_low", "value_high"))
    heading = f"{visible(adapter)}, {poles.subject}: a = {low} against a = {high}"
    sentences = [_overall(edits[edits["task"] == ""].to_dict("records"), len(known), level), *_tasks(known, level)]
    for arm, part in others.items():
        if "" in part.index:
            sentences.append(_placebo(arm, part.loc[""], level))
    return Part(
        heading=heading,
        sentences=sentences,
        drawings=[_drawing(known, key=key, about=heading, level=level)] if len(known) else [],
        sheets=[_sheet(known, tasks[tasks["amplification"].isna()], poles, others, low, high, level)],
    )


def _overall(rows: Sequence[Mapping[Any, Any]], tasks: int, level: float) -> str:
    if not rows or is_missing(rows[0]["amplification"]):
        return "The base knows none of the tasks, so nothing can be said about amplification."
    row = rows[0]
    said = bounds(row["amplification"], row["low"], row["high"], level=level)
    mean = f"mean over {things(tasks, 'task')} {said}"
    if is_missing(row["low"]):
        return f"Without an interval, nothing can be concluded: {mean}."
    if row["low"] > 0:
        return f"The labels lean further the way the base leans: {mean}."
    if row["high"] < 0:
        return f"The labels lean against the way the base leans: {mean}."
    return f"No evidence of an amplification larger than {decimal(max(-row['low'], row['high']))} either way: {mean}."


def _tasks(known: pd.DataFrame, level: float) -> list[str]:
    more, less = known[known["low"] > 0], known[known["high"] < 0]
    sentences = []
    for rows, words in ((more, "further the way the base leans"), (less.iloc[::-1], "against it")):
        if len(rows):
            row = rows.iloc[0]
            said = bounds(row["amplification"], row["low"], row["high"], level=level)
            sentences.append(
                f"{count(len(rows))} of {count(len(known))} tasks lean{'s' if len(rows) == 1 else ''} {words}, "
                f"their intervals excluding 0; farthest {quoted(row['task'])}: {said}."
            )
    return sentences


def _placebo(arm: str, row: Any, level: float) -> str:
    said = bounds(row["amplification"], row["low"], row["high"], level=level)
    return f"Beside it the placebo {quoted(arm)}, which should not change the attribute: {said}."


def _drawing(known: pd.DataFrame, *, key: str, about: str, level: float) -> Drawing:
    shown = known if len(known) <= MOST else pd.concat([known[: MOST // 2], known[-MOST // 2 :]])
    chart = dots_chart(
        shown.assign(label=shown["task"], value=shown["amplification"])[["label", "value", "low", "high"]],
        title="← against · BiasAmp→ · with the base →",
    )
    first, last = known.iloc[0], known.iloc[-1]
    description = (
        f"{things(len(shown), 'task')}, from {quoted(first['task'])} ({decimal(first['amplification'])}) "
        f"to {quoted(last['task'])} ({decimal(last['amplification'])})."
    )
    caption = f"BiasAmp→ of each task with its {100 * level:g} % interval; full where the interval excludes 0."
    if len(shown) < len(known):
        caption += f" The {len(shown)} farthest ends of {len(known)} tasks; the table has them all."
    return Drawing(to_svg(chart, key=key, title=f"BiasAmp→: {about}", description=description), caption)


def _sheet(
    known: pd.DataFrame,
    unknown: pd.DataFrame,
    poles: Poles,
    others: Mapping[str, pd.DataFrame],
    low: str,
    high: str,
    level: float,
) -> Sheet:
    mapped = bool((known["labels"] != known["task"]).any())
    leans = {1: poles.short_high, -1: poles.short_low}
    rows = []
    for row in (*known.to_dict("records"), *unknown.to_dict("records")):
        placebos = [part["amplification"].get(row["task"]) for part in others.values()]
        rows.append(
            (
                row["task"],
                *([row["labels"]] if mapped else []),
                row["reason"] or leans.get(int(row["sign"]), "neither"),
                decimal(row["rate_low"]),
                decimal(row["rate_high"]),
                decimal(row["amplification"], sign=True),
                interval(row["low"], row["high"]),
                *(decimal(value, sign=True) if value is not None else MISSING for value in placebos),
            )
        )
    columns = (
        "Task", *(["Labels"] if mapped else []), "Base leans to", f"Rate at a = {low}", f"Rate at a = {high}",
        "BiasAmp→",
        f"{100 * level:g} % interval", *(f"Placebo “{visible(arm)}”" for arm in others),
    )  # fmt: skip
    return Sheet(
        caption=f"{things(len(rows), 'task')}, largest BiasAmp→ first",
        columns=columns,
        rows=rows,
        texts=frozenset({1, 2} if mapped else {1}),
    )
