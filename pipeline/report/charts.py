"""Charts as Altair specifications, and their SVG for the page; the same specification serves a paper.

Each is drawn 360 units wide, so that its text is legible on a phone. A colour is never the only mark of a difference:
lines are labelled where they end, directions have their own symbols. Colours are those of Okabe & Ito 2008 for
colour-blind readers, the lightest darkened to a contrast of 3 on white; the page's style sheet has lighter ones for the
dark.
"""

import re
from collections.abc import Sequence
from itertools import cycle, islice
from typing import Any
from xml.etree import ElementTree as Xml

import altair as alt
import numpy as np
import pandas as pd

from pipeline.report.embedding import checked_id
from pipeline.report.words import Poles
from pipeline.run.formats import decimal
from pipeline.run.text import visible

BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY = "#0072b2", "#d55e00", "#009e73", "#b8588e", "#a87400", "#3a8fc4"
PALETTE = (BLUE, VERMILION, GREEN, PURPLE, ORANGE, SKY)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
INK, MUTED, GRID = "#24292f", "#667080", "#dde1e6"
FONT = "system-ui, -apple-system, Segoe UI, Roboto, Helvetica Neue, Arial, sans-serif"

SHOWN = len(PALETTE)  # curves of one picture that are seen at first
MOST = 24  # labels of one picture of curves: beyond, the file grows and no reader looks
JUST_SEEN = 1.0  # ΔL*
LABEL_GAP = 14  # units between the middles of two labels
INTERVAL_LABEL = 300  # units; only beyond is a label cut
CURVE_WIDTH, CURVE_HEIGHT = 196, 240
INTERVAL_WIDTH, INTERVAL_STEP = 200, 18
# What a still picture does not need; the font stands once, at the root.
_LEFT_OUT = {"role", "class", "pointer-events", "font-family"}
_LONG_NUMBER = re.compile(r"-?\d+\.\d{2,}")
SVG_NAMESPACE = "http://www.w3.org/2000/svg"


def curve_chart(curves: pd.DataFrame, poles: Poles, *, labels: Sequence[str]) -> Any:
    """z against a with bands, several labels over each other.

    Args:
        curves: rows of the curves frame, of one adapter, attribute and arm.
        labels: which ones, each labelled where its line ends. From the seventh on colours come again, and the names are
            not kept apart: that is for a page that shows a few at a time.

    Raises:
        ValueError: no label, or one without a curve.
    """
    if not labels:
        raise ValueError("a chart of curves takes at least one label")
    rows = curves[curves["label"].isin(labels) & curves["z"].notna()]
    missing = set(labels) - set(rows["label"])
    if missing:
        raise ValueError(f"no normalised curve for: {', '.join(sorted(visible(label) for label in missing))}")
    low, high = _domain(rows[["z", "z_low", "z_high"]].to_numpy(float), around=1.0)
    # A band may be infinite, or reach far beyond the curves; a chart is about the curves.
    rows = rows.assign(z_low=rows["z_low"].clip(low, high), z_high=rows["z_high"].clip(low, high))
    series = {label: f"s{number}" for number, label in enumerate(labels)}
    rows = rows.assign(series=rows["label"].map(series))
    names = list(series.values())
    colors, shapes = (list(islice(cycle(values), len(names))) for values in (PALETTE, SHAPES))
    color = alt.Color("series:N", scale=alt.Scale(domain=names, range=colors), legend=None)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=names, range=shapes), legend=None)
    x = alt.X("value:Q", **_value_axis(rows["value"], poles))
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    y = alt.Y("z:Q", scale=scale, axis=alt.Axis(title="z = rate ÷ rate at a = 0", tickCount=5, titlePadding=10))
    base = alt.Chart(rows).encode(description="series:N")
    return finish(
        alt.layer(
            _rule(alt.Y("at:Q", scale=scale), 1.0),
            base.mark_area(opacity=0.16).encode(x=x, y=alt.Y("z_low:Q", scale=scale), y2="z_high:Q", color=color),
            base.mark_line(strokeWidth=2).encode(x=x, y=y, color=color),
            base.mark_point(filled=True, size=34, opacity=1).encode(x=x, y=y, color=color, shape=shape),
            *_end_labels(rows, series, scale=scale, color=color),
        ).properties(width=CURVE_WIDTH, height=CURVE_HEIGHT)
    )


def interval_chart(rows: pd.DataFrame, poles: Poles, *, highlighted: Sequence[str] = ()) -> Any:
    """Slopes with their 95 % intervals, sorted; findings strong, the others pale.

    Args:
        rows: estimable rows of the slopes frame, of one adapter, attribute and arm; at least one.
        highlighted: labels that are findings.
    """
    ends = rows[["slope", "slope_low", "slope_high"]].to_numpy(float)
    low, high = _domain(ends, around=0.0)
    data = pd.DataFrame(
        {
            "key": [f"r{number}" for number in range(len(rows))],
            "label": [visible(label) for label in rows["label"]],
            "slope": ends[:, 0],
            "low": ends[:, 1].clip(low, high),
            "high": ends[:, 2].clip(low, high),
            "side": np.where(ends[:, 0] < 0, "negative", "positive"),
            "finding": rows["label"].isin(highlighted).to_numpy(),
        }
    ).sort_values("slope", ascending=False, ignore_index=True)
    y = alt.Y("key:N", sort=list(data["key"]), axis=None)
    sides = ["negative", "positive"]
    color = alt.Color("side:N", scale=alt.Scale(domain=sides, range=[VERMILION, BLUE]), legend=None)
    shape = alt.Shape("side:N", scale=alt.Scale(domain=sides, range=["triangle-left", "triangle-right"]), legend=None)
    strength = alt.condition("datum.finding", alt.value(1.0), alt.value(0.55))
    legibility = alt.condition("datum.finding", alt.value(1.0), alt.value(0.75))
    title = f"← {poles.short_low} · slope · {poles.short_high} →"
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    x = alt.X("slope:Q", scale=scale, axis=alt.Axis(title=title, tickCount=4, labelOverlap="greedy", labelSeparation=6))
    base = alt.Chart(data)
    return finish(
        alt.layer(
            _rule(alt.X("at:Q", scale=scale), 0.0),
            base.mark_rule(strokeWidth=2).encode(
                y=y, x=alt.X("low:Q", scale=scale), x2="high:Q", color=color, opacity=strength
            ),
            base.mark_point(filled=True, size=58).encode(y=y, x=x, color=color, shape=shape, opacity=strength),
            base.mark_text(align="right", fontSize=11, color=INK, limit=INTERVAL_LABEL, font=FONT).encode(
                y=y, x=alt.value(-8), text="label:N", opacity=legibility
            ),
        ).properties(width=INTERVAL_WIDTH, height=alt.Step(INTERVAL_STEP))
    )  # fmt: skip


def effectiveness_chart(effectiveness: pd.DataFrame, poles: Poles) -> Any:
    """The judge's mean probability of the high pole along a, with the band it is given.

    Args:
        effectiveness: columns value, mean, low, high of one attribute; probabilities 0-1.
    """
    x = alt.X("value:Q", **_value_axis(effectiveness["value"], poles))
    title = f"judge: P({poles.short_high})"
    scale = alt.Scale(domain=[0, 1])
    y = alt.Y("mean:Q", scale=scale, axis=alt.Axis(title=title, tickCount=5, titlePadding=10))
    base = alt.Chart(effectiveness)
    return finish(
        alt.layer(
            _rule(alt.Y("at:Q", scale=scale), 0.5),
            base.mark_area(opacity=0.16, color=BLUE).encode(x=x, y=alt.Y("low:Q", scale=scale), y2="high:Q"),
            base.mark_line(strokeWidth=2, color=BLUE).encode(x=x, y=y),
            base.mark_point(filled=True, size=34, opacity=1, color=BLUE).encode(x=x, y=y),
        ).properties(width=250, height=140)
    )


def lightness_chart(lightness: pd.DataFrame, poles: Poles) -> Any:
    """The mean change of lightness along a, one line a source group, with how many photos it has.

    The axis spans at least a change that can just be seen, so that noise does not look like more.

    Args:
        lightness: columns group, photos, value, change (ΔL*) of one attribute; at most as many groups as ``PALETTE``.
    """
    names = [f"{group} ({photos})" for group, photos in zip(lightness["group"], lightness["photos"], strict=True)]
    rows = lightness.assign(label=names, z=lightness["change"])
    series = {label: f"s{number}" for number, label in enumerate(dict.fromkeys(names))}
    rows = rows.assign(series=rows["label"].map(series))
    reach = np.array([[-JUST_SEEN], [JUST_SEEN]])
    low, high = _domain(np.vstack([rows[["change"]].to_numpy(float), reach]), around=0.0)
    color = alt.Color("series:N", scale=alt.Scale(domain=list(series.values()), range=list(PALETTE)), legend=None)
    shape = alt.Shape("series:N", scale=alt.Scale(domain=list(series.values()), range=list(SHAPES)), legend=None)
    x = alt.X("value:Q", **_value_axis(rows["value"], poles))
    scale = alt.Scale(domain=[low, high], nice=False, zero=False)
    y = alt.Y("z:Q", scale=scale, axis=alt.Axis(title="change of lightness, ΔL*", tickCount=5, titlePadding=10))
    base = alt.Chart(rows)
    return finish(
        alt.layer(
            _rule(alt.Y("at:Q", scale=scale), 0.0),
            base.mark_line(strokeWidth=2).encode(x=x, y=y, color=color),
            base.mark_point(filled=True, size=34, opacity=1).encode(x=x, y=y, color=color, shape=shape),
            *_end_labels(rows, series, scale=scale, color=color),
        ).properties(width=CURVE_WIDTH, height=CURVE_HEIGHT)
    )


def curve_figure(curves: pd.DataFrame, labels: Sequence[str], poles: Poles, *, shown: int, key: str, title: str) -> str:
    """An SVG with one group a label, ``<g data-series="0">`` and so on; those after the first ``shown`` are hidden.

    Args:
        curves: rows of the curves frame, of one adapter, attribute and arm.
        labels: 1 to ``MOST``, each with a curve.
        poles: the attribute's ends.
        shown: how many are seen at first, at most ``SHOWN``.
        key: unique on the page; the ids inside begin with it.
        title: what the picture is.
    """
    spoken = [curve_words(label, curves[curves["label"] == label]) for label in labels]
    chart = curve_chart(curves, poles, labels=labels)
    root = to_element(chart, key=key, title=title, description="; ".join(spoken[:shown]))
    groups = _grouped(root, series=len(labels))
    for number, (group, words) in enumerate(zip(groups, spoken, strict=True)):
        name = Xml.Element("title")
        name.text = visible(words)
        group.insert(0, name)
        group.set("class", f"slot-{number % SHOWN + 1}")
        if number >= shown:
            group.set("display", "none")
    return Xml.tostring(root, encoding="unicode")


def curve_words(label: str, curve: pd.DataFrame) -> str:
    """``smile: z from 1.24 to 0.76``, for those who do not see the curve."""
    first, *_, last = curve.sort_values("value")["z"].to_list()
    return f"{label}: z from {decimal(first, places=2)} to {decimal(last, places=2)}"


def to_svg(chart: Any, *, key: str, title: str, description: str) -> str:
    """An inline SVG that scales, with a name and a description for screen readers; nothing in it is fetched or run.

    Args:
        chart: a chart above.
        key: unique on the page, letters, digits and hyphens; its ids begin with it.
        title: what the chart is.
        description: what is to be seen in it, in words.

    Raises:
        ValueError: ``key`` is no id.
    """
    return Xml.tostring(to_element(chart, key=key, title=title, description=description), encoding="unicode")


def to_element(chart: Any, *, key: str, title: str, description: str) -> Xml.Element:
    """``to_svg`` before it is text; marks of a chart of curves have their series' number as ``data-series``."""
    import vl_convert

    checked_id(key)
    root = Xml.fromstring(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))  # noqa: S314 - made here, from our own specification
    _simplify(root)
    # Drawn as large as a picture of this size would be, and smaller where there is less room.
    for side in ("width", "height"):
        root.set(side, f"{1.3 * float(root.attrib[side]):.0f}")
    root.attrib.update(
        {
            "xmlns": SVG_NAMESPACE,
            "class": "chart",
            "role": "img",
            "aria-labelledby": f"{key}-title {key}-text",
            "font-family": FONT,
        }
    )
    for place, (name, text) in enumerate((("title", title), ("desc", description))):
        element = Xml.Element(name, {"id": f"{key}-{'text' if name == 'desc' else name}"})
        element.text = visible(text)
        root.insert(place, element)
    return root


def _simplify(root: Xml.Element) -> None:
    """Drop namespaces, what is not drawn, and roles that would have a reader spell out every mark."""
    for parent in root.iter():
        parent.tag = parent.tag.rpartition("}")[2]
        for child in list(parent):
            if child.get("class") in {"background", "foreground"} or child.get("fill") == "transparent":
                parent.remove(child)
    for element in root.iter():
        if re.fullmatch(r"s\d+", series := element.get("aria-label", "")):
            element.set("data-series", series[1:])
        for name in ("d", "transform"):
            if name in element.attrib:
                element.set(name, _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.1f}", element.attrib[name]))
        for name in [n for n in element.attrib if n.startswith("aria-") or n in _LEFT_OUT]:
            del element.attrib[name]
        if element.get("opacity") == "1":
            del element.attrib["opacity"]


def _value_axis(values: pd.Series, poles: Poles) -> dict[str, Any]:
    reach = float(values.abs().max())
    ticks = [float(tick) for tick in range(-int(reach), int(reach) + 1)] if reach >= 1 else [-reach, 0.0, reach]
    title = f"← {poles.short_low} · value a · {poles.short_high} →"
    axis = alt.Axis(title=title, values=ticks, format="d" if reach >= 1 else ".1f", grid=False)
    return {"scale": alt.Scale(domain=[-reach, reach], nice=False), "axis": axis}


def _domain(numbers: np.ndarray[Any, np.dtype[np.float64]], *, around: float) -> tuple[float, float]:
    """Ends of an axis: all estimates (first column) and ``around``; intervals up to as much again on either side."""
    centre = numbers[:, 0][np.isfinite(numbers[:, 0])]
    inner_low, inner_high = min(centre.min(initial=around), around), max(centre.max(initial=around), around)
    room = max(inner_high - inner_low, 0.05)
    finite = numbers[np.isfinite(numbers)]
    low = max(finite.min(initial=inner_low), inner_low - room)
    high = min(finite.max(initial=inner_high), inner_high + room)
    margin = 0.04 * max(high - low, 0.05)
    return float(low - margin), float(high + margin)


def _end_labels(rows: pd.DataFrame, series: dict[str, str], *, scale: Any, color: Any) -> list[Any]:
    """Names next to the ends of their lines, pushed apart where they would overlap, each with a thin leader."""
    ends = rows.sort_values("value").groupby("label").tail(1).sort_values("z")
    low, high = scale.domain
    unit = (high - low) / CURVE_HEIGHT
    together = ends["label"].isin(list(series)[: len(PALETTE)])
    places = ends["z"].copy()
    places[together] = spread(ends.loc[together, "z"].to_list(), gap=LABEL_GAP * unit, low=low, high=high)
    names = pd.DataFrame(
        {"series": ends["label"].map(series), "name": [visible(label) for label in ends["label"]],
         "end": ends["z"], "place": places}
    )  # fmt: skip
    base = alt.Chart(names).encode(description="series:N")
    leader = base.mark_rule(strokeWidth=1, opacity=0.7).encode(
        x=alt.value(CURVE_WIDTH + 4),
        x2=alt.value(CURVE_WIDTH + 14),
        y=alt.Y("end:Q", scale=scale),
        y2="place:Q",
        color=color,
    )
    text = base.mark_text(align="left", fontSize=11, color=INK, limit=INTERVAL_LABEL, font=FONT).encode(
        x=alt.value(CURVE_WIDTH + 18), y=alt.Y("place:Q", scale=scale), text="name:N"
    )
    return [leader, text]


def spread(places: Sequence[float], *, gap: float, low: float, high: float) -> list[float]:
    """Ascending places moved to be at least ``gap`` apart, inside ``low``-``high`` if they fit there."""
    moved = list(places)
    for i in range(1, len(moved)):
        moved[i] = max(moved[i], moved[i - 1] + gap)
    ceiling = high
    for i in reversed(range(len(moved))):
        moved[i] = min(moved[i], ceiling)
        ceiling = moved[i] - gap
    lift = max(0.0, low - moved[0]) if moved else 0.0
    return [place + lift for place in moved]


def _rule(position: Any, at: float) -> Any:
    return alt.Chart(pd.DataFrame({"at": [at]})).mark_rule(color=MUTED, strokeDash=[3, 3]).encode(position)


def finish(chart: Any) -> Any:
    """A chart in the page's fonts and colours, ready for ``to_svg``."""
    axis = {
        "labelFont": FONT, "titleFont": FONT, "labelFontSize": 11, "titleFontSize": 11, "titleFontWeight": "normal",
        "labelColor": INK, "titleColor": INK, "gridColor": GRID, "domainColor": MUTED, "tickColor": MUTED,
        "labelFlush": False,
    }  # fmt: skip
    return (
        chart.configure(background="transparent", padding={"left": 14, "right": 8, "top": 6, "bottom": 4})
        .configure_view(stroke=None)
        .configure_axis(**axis)
        .resolve_scale(color="shared", shape="shared")
    )


def _grouped(root: Xml.Element, *, series: int) -> list[Xml.Element]:
    """Move the marks of each series into one group, in the current colour; no layer has an offset of its own."""
    plot = next(child for child in root if child.tag == "g")
    groups = [Xml.Element("g", {"data-series": str(number)}) for number in range(series)]
    for parent in list(plot.iter()):
        for mark in [child for child in parent if "data-series" in child.attrib]:
            parent.remove(mark)
            groups[int(mark.attrib.pop("data-series"))].append(mark)
            for paint in ("fill", "stroke"):
                if mark.get(paint) in PALETTE:
                    mark.set(paint, "currentColor")
    plot.extend(groups)
    return groups
