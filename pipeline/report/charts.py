"""Charts as Altair specifications, which ``embedding`` renders for the page and ``figures`` for papers.

Charts are 360 units wide, so that their text is legible on a phone. Differences are never marked by colour alone. The
colours are those of Okabe & Ito 2008, the lightest darkened to a contrast of 3 on white.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import cycle, islice
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from pipeline.analyses.sections import Chart, Curves, Dots, Heatmap, Scatter
from pipeline.report.words import Poles, poles_of
from pipeline.run.formats import decimal
from pipeline.run.text import visible

BLUE, VERMILION = "#0072b2", "#d55e00"
PALETTE = (BLUE, VERMILION, "#009e73", "#b8588e", "#a87400", "#3a8fc4")
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK, MUTED, GRID, PAPER = "#24292f", "#667080", "#dde1e6", "#f7f7f7"
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif"
METRICS = {
    "dpa": "DPA, A->T", "leakage_amplification": "leakage amplification", "bias_amplification": "BiasAmp, A->T",
    "multi_amplification": "Multi, A->T",
}  # fmt: skip

JUST_SEEN = 1.0  # ΔL*: a just noticeable difference
LABEL_GAP = 14  # units between the centres of two labels
LONGEST_LABEL = 300  # units beyond which a label is truncated
CURVE_SIZE, EFFECT_SIZE = (196, 240), (250, 140)
INTERVAL_WIDTH, INTERVAL_STEP, SERIES_STEP, HEATMAP_SIDE = 200, 18, 12, 252
PRINTED_SIDE = 11  # largest number of rows or columns of a heatmap that prints its values
_TEXT: dict[str, Any] = {"fontSize": 11, "color": INK, "limit": LONGEST_LABEL, "font": FONT}
_LEGEND = {"labelFont": FONT, "labelFontSize": 11, "labelColor": INK, "labelLimit": LONGEST_LABEL}
_SIDES = ["negative", "positive"]


def curve_chart(curves: pd.DataFrame, poles: Poles, *, labels: Sequence[str]) -> Any:
    """Plot z against a with bands for several labels.

    Args:
        curves: rows of the curves frame, of one adapter, attribute and arm.
        labels: the labels, each printed at the end of its line. From the seventh on colours repeat and names may
            overlap, for a page that shows only a few at a time.

    Raises:
        ValueError: there is no label, or a label without a curve.
    """
    if not labels:
        raise ValueError("a chart of curves needs at least one label")
    rows = curves[curves["label"].isin(labels) & curves["z"].notna()]
    if missing := set(labels) - set(rows["label"]):
        raise ValueError(f"no normalised curve for: {', '.join(sorted(map(visible, missing)))}")
    low, high = domain(rows[["z", "z_low", "z_high"]].to_numpy(float), around=1.0)
    # A band may be infinite or reach far beyond the curves.
    rows = rows.assign(y=rows["z"], low=rows["z_low"].clip(low, high), high=rows["z_high"].clip(low, high))
    return _lines(rows, poles, labels=labels, axis="z = rate ÷ rate at a = 0", ends=(low, high), at=1.0)


def effectiveness_chart(effectiveness: pd.DataFrame, poles: Poles) -> Any:
    """Plot the judge's mean probability of the higher pole along a, with a band.

    Columns: value, mean, low, high of one attribute; probabilities in 0-1.
    """
    rows, axis = effectiveness.assign(label="", y=effectiveness["mean"]), f"judge: P({poles.short_high})"
    return _lines(rows, poles, labels=[""], axis=axis, ends=(0.0, 1.0), at=0.5, size=EFFECT_SIZE)


def lightness_chart(lightness: pd.DataFrame, poles: Poles) -> Any:
    """Plot the mean change of lightness along a, one line per source group, with its number of photos.

    Columns: group, photos, value, change (ΔL*) of one attribute; at most as many groups as ``PALETTE``. The axis spans
    at least a just noticeable difference, so that noise does not look large.
    """
    names = [f"{group} ({photos})" for group, photos in zip(lightness["group"], lightness["photos"], strict=True)]
    ends = domain(np.array([[*lightness["change"], -JUST_SEEN, JUST_SEEN]], float).T, around=0.0)
    rows = lightness.assign(label=names, y=lightness["change"])
    return _lines(rows, poles, labels=list(dict.fromkeys(names)), axis="change of lightness, ΔL*", ends=ends, at=0.0)


def interval_chart(rows: pd.DataFrame, poles: Poles, *, highlighted: Sequence[str] = ()) -> Any:
    """Plot the sorted slopes of estimable labels with 95 % intervals; all but the ``highlighted`` ones are pale."""
    rows = rows.sort_values("slope", ascending=False, ignore_index=True)
    found = rows["label"].isin(list(highlighted))
    title = f"← {poles.short_low} · slope · {poles.short_high} →"
    return _intervals(
        rows[["slope", "slope_low", "slope_high"]].to_numpy(float),
        rows["label"],
        axis=alt.Axis(title=title, tickCount=4, labelOverlap="greedy", labelSeparation=6),
        around=0.0,
        columns={"series": np.where(rows["slope"] < 0, *_SIDES), "strength": np.where(found, 1.0, 0.55)},
        names={"strength": np.where(found, 1.0, 0.75)},
        series=_SIDES,
        colors=[VERMILION, BLUE],
        shapes=["triangle-left", "triangle-right"],
        opacity=alt.Opacity("strength:Q", scale=None, legend=None),
        point={"size": 58},
    )


def chart_of(chart: Chart) -> Any:
    """Return the specification of a chart in a section of an analysis."""
    match chart:
        case Heatmap():
            return bias_heatmap(chart.grid, metric=chart.metric)
        case Scatter():
            return _scatter(chart)
        case Curves():
            labels, name = list(dict.fromkeys(chart.rows["label"])), chart.attribute.name
            poles = poles_of(name, {name: chart.attribute})
            rows = chart.rows.assign(low=chart.rows["low"].clip(0, 1), high=chart.rows["high"].clip(0, 1))
            return _lines(rows, poles, labels=labels, axis=chart.axis, ends=(0.0, 1.0), shares=True)
        case Dots():
            return _dots(chart)


def _scatter(chart: Scatter) -> Any:
    """Plot points with vertical intervals, and the line on which both shares are equal."""
    columns = [chart.x, chart.y, f"{chart.y}_low", f"{chart.y}_high"]
    data = chart.rows[columns].set_axis(["x", "y", "low", "high"], axis=1).dropna(subset=["x", "y"])
    scale = alt.Scale(domain=[0, 1], nice=False)
    x, y = (
        kind(f"{name}:Q", scale=scale, axis=alt.Axis(title=visible(title), format=".0%", tickCount=5))
        for kind, name, title in ((alt.X, "x", chart.titles[0]), (alt.Y, "y", chart.titles[1]))
    )
    line = alt.Chart(pd.DataFrame({"x": [0.0, 1.0], "y": [0.0, 1.0]})).mark_line(color=MUTED, strokeDash=[3, 3])
    base = alt.Chart(data)
    layers = [
        line.encode(x=x, y=y),
        base.mark_rule(color=PALETTE[0], opacity=0.35).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"),
        base.mark_point(filled=True, size=36, color=PALETTE[0], opacity=0.9).encode(x=x, y=y),
    ]
    return _finished(layers, HEATMAP_SIDE, HEATMAP_SIDE)


def _dots(chart: Dots) -> Any:
    """Plot dots in the order of the rows. Without series, dots whose interval includes ``around`` are hollow.

    Raises:
        ValueError: there are no rows, or too many series.
    """
    rows, around = chart.rows, chart.around
    if rows.empty or len(chart.series) > len(PALETTE):
        raise ValueError(f"a chart of dots needs at least 1 row and at most {len(PALETTE)} series")
    numbers = rows[["value", "low", "high"]].to_numpy(float, copy=True)
    numbers[:, 1:] = np.where(np.isnan(numbers[:, 1:]), numbers[:, :1], numbers[:, 1:])
    series = [visible(name) for name in chart.series]
    judged = around is not None and not series
    percent = {"format": ".0%"} if chart.shares else {}
    options: dict[str, Any] = {}
    if series:
        columns = 1 if len(series) < 3 else 2
        options = {
            "legend": alt.Legend(title=None, orient="top", columns=columns, symbolSize=70, **_LEGEND),
            "offset": alt.YOffset("series:N", sort=series),
            "step": alt.Step(SERIES_STEP * len(series) + 6, **{"for": "position"}),
        }
    return _intervals(
        numbers,
        rows["label"],
        axis=alt.Axis(title=visible(chart.axis), tickCount=4, labelOverlap="greedy", labelSeparation=6, **percent),
        around=around,
        ends=(0.0, 1.0) if chart.shares else None,
        columns={
            "series": [visible(name) for name in rows["series"]] if series else "",
            "sure": (numbers[:, 1] > around) | (numbers[:, 2] < around) if judged else True,
        },
        series=series or [""],
        point={"size": 52, "stroke": BLUE, "strokeWidth": 0 if series else 1.5},
        fill=alt.condition("datum.sure", alt.value(1.0), alt.value(0.0)),
        **options,
    )


def bias_heatmap(grid: pd.DataFrame, *, metric: str = "dpa") -> Any:
    """Plot a metric in colour: vermilion below 0, blue above, pale at 0, blank without a value.

    Up to ``PRINTED_SIDE`` rows and columns, the values are printed too.

    Args:
        grid: the table of ``statistics.bias_grid``.
        metric: the column to plot.

    Raises:
        ValueError: the grid lacks a column, or has no value of the metric.
    """
    if missing := {"dataset_bias", "model_bias", metric} - set(grid.columns):
        raise ValueError(f"the grid lacks the column {', '.join(sorted(missing))}")
    rows = grid.loc[grid[metric].notna(), ["dataset_bias", "model_bias", metric]].rename(columns={metric: "metric"})
    if rows.empty:
        raise ValueError(f"the grid has no value of {metric!r}")
    reach = max(float(rows["metric"].abs().max()), 1e-9)
    # Without the leading zero, so that a minus sign does not touch the number in the next cell.
    rows = rows.assign(printed=[re.sub(r"\b0\.", ".", decimal(value, places=2)) for value in rows["metric"]])
    across, upward = (sorted(grid[name].unique()) for name in ("model_bias", "dataset_bias"))

    def axis(title: str, values: list[Any], **options: Any) -> alt.Axis:
        return alt.Axis(title=title, values=values[:: max(1, len(values) // 5)], format=".2~f", **options)

    x = alt.X("model_bias:O", sort=across, axis=axis("bias of the model", across, labelAngle=0))
    y = alt.Y("dataset_bias:O", sort=upward[::-1], axis=axis("bias of the dataset", upward))
    letters = {**_LEGEND, "titleFont": FONT, "titleFontSize": 11, "titleFontWeight": "normal", "titleColor": INK}
    legend = alt.Legend(title=METRICS.get(metric, metric), format=".2f", gradientLength=HEATMAP_SIDE // 2, **letters)
    colours = alt.Scale(domain=[-reach, 0, reach], range=[VERMILION, PAPER, BLUE])
    base = alt.Chart(rows).encode(x=x, y=y)
    layers = [base.mark_rect().encode(color=alt.Color("metric:Q", scale=colours, legend=legend))]
    if max(len(across), len(upward)) <= PRINTED_SIDE:
        strong = alt.condition(f"abs(datum.metric) > {0.6 * reach}", alt.value("white"), alt.value(INK))
        layers.append(base.mark_text(fontSize=8).encode(text="printed:N", color=strong))
    return _finished(layers, HEATMAP_SIDE, HEATMAP_SIDE)


def domain(
    numbers: np.ndarray[Any, np.dtype[np.float64]], *, around: float | None, least: float = 0.05
) -> tuple[float, float]:
    """Return an axis for all estimates (first column), ``around``, and intervals up to that range beyond them."""
    inner = np.append(numbers[np.isfinite(numbers[:, 0]), 0], [] if around is None else [around])
    finite, room = numbers[np.isfinite(numbers)], max(float(np.ptp(inner)), least)
    low = max(finite.min(initial=inner.min()), inner.min() - room)
    high = min(finite.max(initial=inner.max()), inner.max() + room)
    margin = 0.04 * max(high - low, least)
    return float(low - margin), float(high + margin)


def spread(places: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Return ascending positions moved at least ``gap`` apart, inside ``low``-``high`` if they fit there."""
    moved = list(places)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    ceiling = high
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - gap
    lift = max(0.0, low - moved[0]) if moved else 0.0
    return [place + lift for place in moved]


def _lines(
    rows: pd.DataFrame,
    poles: Poles,
    *,
    labels: Sequence[str],
    axis: str,
    ends: tuple[float, float],
    at: float | None = None,
    shares: bool = False,
    size: tuple[int, int] = CURVE_SIZE,
) -> Any:
    """Plot lines with dots along a, with bands if ``rows`` have low and high, and names at their ends."""
    series = {label: f"s{number}" for number, label in enumerate(labels)}
    rows = rows.assign(series=rows["label"].map(series))
    color, shape = _series(list(series.values()), PALETTE, SHAPES)
    scale = _scale(*ends)
    reach = float(rows["value"].abs().max())
    ticks = [float(tick) for tick in range(-int(reach), int(reach) + 1)] if reach >= 1 else [-reach, 0.0, reach]
    title = f"← {poles.short_low} · value a · {poles.short_high} →"
    across = alt.Axis(title=title, values=ticks, format="d" if reach >= 1 else ".1f", grid=False)
    x = alt.X("value:Q", scale=alt.Scale(domain=[-reach, reach], nice=False), axis=across)
    percent = {"format": ".0%"} if shares else {}
    y = alt.Y("y:Q", scale=scale, axis=alt.Axis(title=axis, tickCount=5, titlePadding=10, **percent))
    base = alt.Chart(rows).encode(x=x, color=color, description="series:N")
    layers = [] if at is None else [_rule(alt.Y("at:Q", scale=scale), at)]
    if {"low", "high"} <= set(rows.columns):
        layers.append(base.mark_area(opacity=0.16).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q"))
    layers += [
        base.mark_line(strokeWidth=2).encode(y=y),
        base.mark_point(filled=True, size=34, opacity=1).encode(y=y, shape=shape),
        *(_end_labels(rows, series, ends=ends, color=color) if any(labels) else ()),
    ]
    return _finished(layers, *size)


def _end_labels(rows: pd.DataFrame, series: Mapping[str, str], *, ends: tuple[float, float], color: Any) -> list[Any]:
    """Return layers of names at the ends of lines, moved apart to avoid overlaps, with thin leaders."""
    last = rows.sort_values("value").groupby("label").tail(1).sort_values("y")
    low, high = ends
    together = last["label"].isin(list(series)[: len(PALETTE)])
    places = last["y"].copy()
    gap = LABEL_GAP * (high - low) / CURVE_SIZE[1]
    places[together] = spread(last.loc[together, "y"].to_list(), gap=gap, low=low, high=high)
    names = last[["series"]].assign(name=[visible(label) for label in last["label"]], end=last["y"], place=places)
    base, scale = alt.Chart(names).encode(description="series:N"), _scale(low, high)
    leader = base.mark_rule(strokeWidth=1, opacity=0.7).encode(
        x=_right(4), x2=_right(14), y=alt.Y("end:Q", scale=scale), y2="place:Q", color=color
    )
    text = base.mark_text(align="left", **_TEXT)
    return [leader, text.encode(x=_right(18), y=alt.Y("place:Q", scale=scale), text="name:N")]


def _intervals(
    numbers: np.ndarray[Any, np.dtype[np.float64]],
    labels: "pd.Series[Any]",
    *,
    axis: Any,
    around: float | None,
    columns: Mapping[str, Any],
    series: Sequence[str],
    point: Mapping[str, Any],
    ends: tuple[float, float] | None = None,
    names: Mapping[str, Any] | None = None,
    colors: Sequence[str] = PALETTE,
    shapes: Sequence[str] = SHAPES,
    legend: Any = None,
    opacity: Any = alt.Undefined,
    fill: Any = alt.Undefined,
    offset: Any = alt.Undefined,
    step: Any = alt.Undefined,
) -> Any:
    """Plot values with intervals (``numbers``: value, low, high), one row per label, names to the left."""
    low, high = ends or domain(numbers, around=around, least=0.02 if opacity is alt.Undefined else 0.05)
    keys = {label: f"r{number}" for number, label in enumerate(dict.fromkeys(labels))}
    data = pd.DataFrame({"key": labels.map(keys).to_numpy(), "value": numbers[:, 0], **columns})
    data = data.assign(low=numbers[:, 1].clip(low, high), high=numbers[:, 2].clip(low, high))
    named = pd.DataFrame({"key": list(keys.values()), "name": [visible(label) for label in keys], **(names or {})})
    scale, y = _scale(low, high), alt.Y("key:N", sort=list(keys.values()), axis=None)
    color, shape = _series(list(series), colors, shapes, legend)
    base = alt.Chart(data).encode(y=y, color=color, opacity=opacity, yOffset=offset)
    layers = [
        base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", scale=scale), x2="high:Q"),
        base.mark_point(filled=True, **({"opacity": 1} if opacity is alt.Undefined else {}), **point).encode(
            x=alt.X("value:Q", scale=scale, axis=axis), shape=shape, fillOpacity=fill
        ),
        alt.Chart(named).mark_text(align="right", **_TEXT).encode(y=y, x=alt.value(-8), text="name:N", opacity=opacity),
    ]
    if around is not None:
        layers.insert(0, _rule(alt.X("at:Q", scale=scale), around))
    return _finished(layers, INTERVAL_WIDTH, alt.Step(INTERVAL_STEP) if step is alt.Undefined else step)


def _series(names: list[str], colors: Sequence[str], shapes: Sequence[str], legend: Any = None) -> tuple[Any, Any]:
    """Return the encodings of series by colour and by shape."""
    found = [alt.Scale(domain=names, range=list(islice(cycle(values), len(names)))) for values in (colors, shapes)]
    return (
        alt.Color("series:N", scale=found[0], legend=legend),
        alt.Shape("series:N", scale=found[1], legend=legend),
    )


def _scale(low: float, high: float) -> Any:
    return alt.Scale(domain=[low, high], nice=False, zero=False)


def _right(units: int) -> Any:
    """Return a position to the right of the plot, whatever its width."""
    return alt.value({"expr": f"width + {units}"})


def _rule(position: Any, at: float) -> Any:
    return alt.Chart(pd.DataFrame({"at": [at]})).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(position)


def _finished(layers: Sequence[Any], width: int, height: Any) -> Any:
    """Return the layers as one chart in the page's fonts and colours."""
    axis = {
        "labelFont": FONT, "titleFont": FONT, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
        "labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": MUTED, "tickColor": MUTED,
        "labelFlush": False,
    }  # fmt: skip
    return (
        alt.layer(*layers)
        .properties(width=width, height=height)
        .configure(background="transparent", padding={"left": 14, "right": 8, "top": 6, "bottom": 4})
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .resolve_scale(color="shared", shape="shared")
    )
