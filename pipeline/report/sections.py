"""The sections of analyses as the page prints them: cells as text, charts as SVG, faces as images, and warnings.

What a section says is decided in ``pipeline.analyses``; how it looks is in the templates.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from pipeline.analyses.sections import Dots, Gallery, Heatmap, Kind, Section, Subsection, Table
from pipeline.report.card import CheckResult, banner
from pipeline.report.charts import FONT, INK, INTERVAL_LABEL, INTERVAL_WIDTH, MUTED, PALETTE, SHAPES, finish, to_svg
from pipeline.report.heatmaps import bias_heatmap
from pipeline.run.formats import MISSING, count, decimal, interval, is_missing, measured, p_value
from pipeline.run.text import visible

SMALL = 12  # rows of a table that is shown without a click
STEP, BAND = 18, 12  # units a row, and a series in a row of several
LETTERS = {"labelFont": FONT, "labelFontSize": 11, "labelColor": INK, "labelLimit": 220, "symbolSize": 70}


@dataclass(frozen=True)
class PrintedTable:
    """A table of text; ``texts`` are the columns that hold words, not numbers; a long one opens with a click."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: frozenset[int]

    @property
    def folded(self) -> bool:
        """Whether it opens with a click only."""
        return len(self.rows) > SMALL


def section_views(
    sections: Sequence[Section], *, card: Sequence[CheckResult], pictures: Mapping[str, bytes]
) -> list[dict[str, Any]]:
    """What the template prints of each section.

    Args:
        sections: in their order.
        card: the validity card; where it fails for an attribute, a banner stands over the sections that rest on it.
        pictures: photo -> a small WebP image of its face.
    """
    return [
        {
            "section": section,
            "banners": [text for name in section.attributes if (text := banner(card, name)) is not None],
            "parts": [
                _part_view(part, key=f"{section.key}-{number}", pictures=pictures)
                for number, part in enumerate(section.parts, start=1)
            ],
        }
        for section in sections
    ]


def _part_view(part: Subsection, *, key: str, pictures: Mapping[str, bytes]) -> dict[str, Any]:
    return {
        "part": part,
        "charts": [
            (
                to_svg(
                    chart_of(chart),
                    key=f"{key}-{number}",
                    title=visible(chart.title),
                    description=visible(chart.description),
                ),
                chart.caption,
            )
            for number, chart in enumerate(part.charts, start=1)
        ],
        "tables": [printed_table(table) for table in part.tables],
        "galleries": [(gallery.heading, _faces(gallery, pictures)) for gallery in part.galleries],
    }


def _faces(gallery: Gallery, pictures: Mapping[str, bytes]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Name of a row -> (data address, photo) of the photos that can be shown."""
    return [
        (
            name,
            [
                (f"data:image/webp;base64,{base64.b64encode(pictures[photo]).decode()}", photo)
                for photo in photos
                if photo in pictures
            ],
        )
        for name, photos in gallery.rows
    ]


def printed_table(table: Table) -> PrintedTable:
    """A table with its cells as text."""
    columns = [_cells(table.rows, source, kind) for _, source, kind in table.columns]
    return PrintedTable(
        caption=table.caption,
        headings=[heading for heading, *_ in table.columns],
        rows=[list(row) for row in zip(*columns, strict=True)],
        texts=frozenset(place for place, (*_, kind) in enumerate(table.columns) if place and kind == "text"),
    )


def _cells(rows: pd.DataFrame, source: str | tuple[str, str], kind: Kind) -> list[str]:
    if isinstance(source, str):
        return [_cell(value, kind) for value in rows[source]]
    ends = zip(rows[source[0]], rows[source[1]], strict=True)
    if kind == "interval":
        return [interval(low, high) for low, high in ends]
    return [
        MISSING if is_missing(low) or is_missing(high) else f"{measured(low, 'share')} to {measured(high, 'share')}"
        for low, high in ends
    ]


def _cell(value: Any, kind: Kind) -> str:
    if kind == "text":
        return str(value)
    if kind == "count":
        return count(value)
    if kind == "p":
        return p_value(value)
    return measured(value, "share") if kind == "share" else decimal(value, sign=kind == "signed")


def chart_of(chart: Dots | Heatmap) -> Any:
    """The Altair specification of a chart, for the page and for a paper."""
    return bias_heatmap(chart.grid, metric=chart.metric) if isinstance(chart, Heatmap) else _dots(chart)


def _dots(chart: Dots) -> Any:
    """Dots with their intervals in the order of the rows, the first on top.

    Without series a dot is full where its interval excludes ``around``, else hollow; series have colours and shapes.

    Raises:
        ValueError: no row, or too many series.
    """
    rows, around, series = chart.rows, chart.around, chart.series
    if rows.empty or len(series) > len(PALETTE):
        raise ValueError(f"a chart of dots takes 1 row or more and at most {len(PALETTE)} series")
    ends = rows[["value", "low", "high"]].to_numpy(float, copy=True)
    ends[:, 1:] = np.where(np.isnan(ends[:, 1:]), ends[:, :1], ends[:, 1:])
    low, high = (0.0, 1.0) if chart.shares else _domain(ends, around=around)
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
    percent = {"format": ".0%"} if chart.shares else {}
    axis = alt.Axis(title=visible(chart.axis), tickCount=4, labelOverlap="greedy", labelSeparation=6, **percent)
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


def _domain(ends: "np.ndarray[Any, np.dtype[np.float64]]", *, around: float | None) -> tuple[float, float]:
    """Ends of the axis: all values and ``around``, and as much of the intervals again on either side.

    Args:
        ends: ``(n, 3)`` value, low, high.
        around: the value of the dashed line, if there is one.
    """
    inner = np.append(ends[np.isfinite(ends[:, 0]), 0], [] if around is None else [around])
    room = max(float(np.ptp(inner)), 0.02)
    finite = ends[np.isfinite(ends)]
    low, high = max(finite.min(), inner.min() - room), min(finite.max(), inner.max() + room)
    low, high = min(low, inner.min()), max(high, inner.max())
    margin = 0.04 * max(high - low, 0.02)
    return float(low - margin), float(high + margin)
