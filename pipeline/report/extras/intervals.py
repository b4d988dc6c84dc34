"""The chart of these sections: dots with their intervals, a row for each label, one mark for each series.

As those of ``charts``: one Altair specification for the page and for a paper.
"""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from pipeline.report.charts import FONT, INK, INTERVAL_LABEL, INTERVAL_WIDTH, MUTED, PALETTE, SHAPES, finish
from pipeline.run.text import visible

MOST = 20  # rows of a chart; the table has them all
STEP, BAND = 18, 12  # units a row, and a series in a row of several
LETTERS = {"labelFont": FONT, "labelFontSize": 11, "labelColor": INK, "labelLimit": 220, "symbolSize": 70}


def dots_chart(
    rows: pd.DataFrame, *, title: str, around: float | None = 0.0, shares: bool = False, series: Sequence[str] = ()
) -> Any:
    """Values with their intervals in the order of the rows, the first on top.

    Without series a dot is full where its interval excludes ``around``, else hollow; series have colours and shapes.

    Args:
        rows: columns label, value, low, high, and with ``series`` the column series; a value may lack its interval.
        title: of the axis.
        around: a dashed line; None for none.
        shares: values are in 0-1 and printed as per cent.
        series: their names, at most as many as ``PALETTE`` has colours.

    Raises:
        ValueError: no row, or too many series.
    """
    if rows.empty or len(series) > len(PALETTE):
        raise ValueError(f"a chart of dots takes 1 row or more and at most {len(PALETTE)} series")
    ends = rows[["value", "low", "high"]].to_numpy(float, copy=True)
    ends[:, 1:] = np.where(np.isnan(ends[:, 1:]), ends[:, :1], ends[:, 1:])
    low, high = (0.0, 1.0) if shares else domain(ends, around=around)
    keys = {label: f"r{number}" for number, label in enumerate(dict.fromkeys(rows["label"]))}
    data = pd.DataFrame(
        {
            "key": [keys[label] for label in rows["label"]],
            "value": ends[:, 0],
            "low": ends[:, 1].clip(low, high),
            "high": ends[:, 2].clip(low, high),
            "series": [visible(name) for name in rows["series"]] if series else "",
            "sure": (ends[:, 1] > around) | (ends[:, 2] < around) if around is not None and not series else True,
        }
    )
    names = pd.DataFrame({"key": list(keys.values()), "name": [visible(label) for label in keys]})
    y = alt.Y("key:N", sort=list(keys.values()), axis=None)
    shown = [visible(name) for name in series] or [""]
    legend = alt.Legend(title=None, orient="top", columns=1 if len(shown) < 3 else 2, **LETTERS) if series else None
    marks: dict[str, Any] = {
        "y": y,
        "color": alt.Color("series:N", scale=alt.Scale(domain=shown, range=list(PALETTE)), legend=legend),
    }
    if series:
        marks["yOffset"] = alt.YOffset("series:N", sort=shown)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=shown, range=list(SHAPES)), legend=legend)
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    axis = alt.Axis(title=title, tickCount=4, labelOverlap="greedy", labelSeparation=6, **_percent(shares))
    x = alt.X("value:Q", scale=scale, axis=axis)
    fill = alt.condition("datum.sure", alt.value(1.0), alt.value(0.0))
    base = alt.Chart(data)
    line = [alt.Chart(pd.DataFrame({"at": [around]})).mark_rule(color=MUTED, strokeDash=[3, 3])] * (around is not None)
    layers = [
        *(each.encode(x=alt.X("at:Q", scale=scale)) for each in line),
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2="high:Q", **marks),
        base.mark_point(filled=True, size=52, stroke=PALETTE[0], strokeWidth=0 if series else 1.5, opacity=1).encode(
            x=x, shape=shape, fillOpacity=fill, **marks
        ),
        alt.Chart(names)
        .mark_text(align="right", fontSize=11, color=INK, limit=INTERVAL_LABEL, font=FONT)
        .encode(y=y, x=alt.value(-8), text="name:N"),
    ]
    step = alt.Step(STEP) if not series else alt.Step(BAND * len(series) + 6, **{"for": "position"})
    return finish(alt.layer(*layers).properties(width=INTERVAL_WIDTH, height=step))


def domain(ends: "np.ndarray[Any, np.dtype[np.float64]]", *, around: float | None) -> tuple[float, float]:
    """Ends of the axis: all values and ``around``, and as much of the intervals again on either side.

    Args:
        ends: ``(n, 3)`` value, low, high.
    """
    inner = np.append(ends[np.isfinite(ends[:, 0]), 0], [] if around is None else [around])
    room = max(float(np.ptp(inner)), 0.02)
    finite = ends[np.isfinite(ends)]
    low, high = max(finite.min(), inner.min() - room), min(finite.max(), inner.max() + room)
    low, high = min(low, inner.min()), max(high, inner.max())
    margin = 0.04 * max(high - low, 0.02)
    return float(low - margin), float(high + margin)


def _percent(shares: bool) -> dict[str, str]:
    return {"format": ".0%"} if shares else {}
