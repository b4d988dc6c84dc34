"""The page's picture of curves: many labels in one plot, of which a few are shown and the reader chooses others.

One specification draws them all (``charts.curve_chart``); here each label's marks are put into a group of their own, so
that a script can show, hide and colour it.
"""

from collections.abc import Sequence
from xml.etree import ElementTree as Xml

import pandas as pd

from pipeline.report import charts
from pipeline.report.words import Poles
from pipeline.run.formats import decimal
from pipeline.run.text import visible

SHOWN = len(charts.PALETTE)
MOST = 24  # labels of one picture: beyond, the file grows and no reader looks


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
    spoken = [words_of(label, curves[curves["label"] == label]) for label in labels]
    chart = charts.curve_chart(curves, poles, labels=labels)
    root = charts.to_element(chart, key=key, title=title, description="; ".join(spoken[:shown]))
    groups = _grouped(root, series=len(labels))
    for number, (group, words) in enumerate(zip(groups, spoken, strict=True)):
        name = Xml.Element("title")
        name.text = visible(words)
        group.insert(0, name)
        group.set("class", f"slot-{number % SHOWN + 1}")
        if number >= shown:
            group.set("display", "none")
    return Xml.tostring(root, encoding="unicode")


def words_of(label: str, curve: pd.DataFrame) -> str:
    """``smile: z from 1.24 to 0.76``, for those who do not see the curve."""
    first, *_, last = curve.sort_values("value")["z"].to_list()
    return f"{label}: z from {decimal(first, places=2)} to {decimal(last, places=2)}"


def _grouped(root: Xml.Element, *, series: int) -> list[Xml.Element]:
    """Move the marks of each series into one group, in the current colour; no layer has an offset of its own."""
    plot = next(child for child in root if child.tag == "g")
    groups = [Xml.Element("g", {"data-series": str(number)}) for number in range(series)]
    for parent in list(plot.iter()):
        for mark in [child for child in parent if "data-series" in child.attrib]:
            parent.remove(mark)
            groups[int(mark.attrib.pop("data-series"))].append(mark)
            for paint in ("fill", "stroke"):
                if mark.get(paint) in charts.PALETTE:
                    mark.set(paint, "currentColor")
    plot.extend(groups)
    return groups
