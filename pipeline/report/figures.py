"""Figures for papers: the page's charts with file names and captions, as PDF, SVG or PNG files.

The same figure gives the same bytes. Sheets of faces are in ``sheets``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from pipeline.config.attributes import ATTRIBUTES, Attribute
from pipeline.report import charts
from pipeline.report.tables import FindingTable, slug
from pipeline.report.words import nothing_found, poles_of, quoted
from pipeline.run.files import write_bytes
from pipeline.run.formats import count, decimal
from pipeline.run.text import visible

FIGURE_FORMATS = ("pdf", "svg", "png")
# The first font is part of the renderer, so files do not depend on the machine. The others are for SVG viewers.
PAPER_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
PNG_PPI = 300
WIDTHS = {1: 241.0, 2: 504.0}  # points of one column of a page, and of two
SCALE = 241 / 360  # points per unit of a chart, which makes its text 7.4 points large
NARROWEST = 100  # smallest width of the plot, in units
PER_SIDE = 3
INTERVALS = 30
GROUPS = len(charts.PALETTE)
_ROOT, _SIZE = re.compile(r"<svg[^>]*>"), re.compile(r'\b(width|height)="([\d.]+)"')
_RESOURCE = rb"\s+/[a-z]+\d+ \d+ 0 R"
_RESOURCES = re.compile(rb"(?:" + _RESOURCE + rb"){2,}")


@dataclass(frozen=True, eq=False)
class Figure:
    """A chart or a sheet of faces, the name of its file without ending, and its caption."""

    name: str
    chart: Any
    caption: str

    def save(self, path: str | Path, *, columns: int = 1) -> None:
        """Write the figure to a file whose ending is one of ``FIGURE_FORMATS``.

        Raises:
            ValueError: the format or the width is unknown.
        """
        path = Path(path)
        write_bytes(path, draw(self.chart, path.suffix[1:].lower(), columns=columns))

    def _repr_svg_(self) -> str:
        """Return the figure for a notebook."""
        return draw(self.chart, "svg", columns=2).decode()


def finding_figures(
    table: FindingTable, *, slopes: pd.DataFrame, curves: pd.DataFrame, labels: Sequence[str] = ()
) -> list[Figure]:
    """Return the curves (Joo & Kärkkäinen 2020, Figure 5) and the intervals of one adapter and attribute.

    Args:
        table: the findings.
        slopes, curves: its rows of these frames.
        labels: labels to plot as curves, if they have one. Default: the strongest findings of both directions, or the
            steepest labels.

    Returns:
        Two figures, one if none of ``labels`` has a curve, none if no label has a slope.
    """
    tested = slopes[slopes["estimable"].astype(bool)]
    tested = tested.sort_values("slope", key=lambda column: -column.abs(), kind="stable")
    if tested.empty:
        return []
    name = f"{slug(table.adapter)}-{slug(table.attribute)}"
    warning = f" {table.warning}" if table.warning else ""
    about = f"labels of {visible(table.adapter)}, on {count(table.photos)} photos"
    if not table.findings:
        none = nothing_found(tested, table.poles, max_p=table.max_p, min_slope=table.min_slope)
        warning = f" {none}{warning}"
    found = []
    drawn = [label for label in labels or _strongest(table, tested) if label in set(curves["label"])]
    if drawn:
        caption = (
            f"Normalised rate z against the value a of {table.poles.subject}: {about}. Shown are "
            f"{_which_curves(table, labels)}: {', '.join(map(quoted, drawn))}. z is the share of photos with the "
            f"label, divided by that share at a = 0. Bands: 95 % intervals over photos.{warning}"
        )
        found.append(Figure(f"{name}-curves", charts.curve_chart(curves, table.poles, labels=drawn), caption))
    shown = tested[:INTERVALS]
    highlighted = [*table.negative["label"], *table.positive["label"]]
    which = f"the {count(len(shown))} steepest of {count(len(tested))}" if len(tested) > len(shown) else "all tested"
    caption = (
        f"Slopes of z on a with 95 % intervals, {table.poles.subject}: {about}; {which}. Strong marks are findings "
        f"({table.rule}), pale ones are not. "
        f"Marks point to the pole towards which a label rises.{warning}"
    )
    chart = charts.interval_chart(shown, table.poles, highlighted=highlighted)
    return [*found, Figure(f"{name}-intervals", chart, caption)]


def attribute_figures(
    attribute: str,
    *,
    effectiveness: pd.DataFrame,
    lightness: pd.DataFrame,
    swept: Mapping[str, Attribute] = ATTRIBUTES,
) -> list[Figure]:
    """Return figures of the edit's effect on faces: the judge's probability, and lightness by source group.

    The frames are those of the charts and may be empty.
    """
    poles, found = poles_of(attribute, swept), []
    if not effectiveness.empty:
        first, last = effectiveness.sort_values("value")["mean"].iloc[[0, -1]]
        caption = (
            f"Mean probability of {poles.short_high}, estimated by an independent judge, along {poles.subject}: from "
            f"{decimal(first, places=2)} to {decimal(last, places=2)}. Band: 10 % to 90 % quantiles over photos."
        )
        chart = charts.effectiveness_chart(effectiveness, poles)
        found.append(Figure(f"{slug(attribute)}-effectiveness", chart, caption))
    if not lightness.empty:
        sizes = lightness.groupby("group")["photos"].max().sort_values(ascending=False, kind="stable")
        largest = lightness[lightness["group"].isin(sizes.index[:GROUPS])]
        which = f"the {GROUPS} largest of {len(sizes)} source groups" if len(sizes) > GROUPS else "every source group"
        caption = (
            f"Mean change of lightness (CIELAB L*) inside the face mask along {poles.subject}, against a = 0, for "
            f"{which}, defined by the perceived attributes of the unedited faces; number of photos in brackets."
        )
        chart = charts.lightness_chart(largest, poles)
        found.append(Figure(f"{slug(attribute)}-lightness", chart, caption))
    return found


def draw(chart: Any, format: str, *, columns: int = 1) -> bytes:
    """Render a chart or a sheet as PDF with embedded fonts, SVG with text elements, or PNG on white at ``PNG_PPI``.

    Args:
        chart: the chart of a ``Figure``.
        format: one of ``FIGURE_FORMATS``.
        columns: the width in columns of a page, 1 or 2.

    Raises:
        ValueError: the format or the width is unknown.
    """
    import vl_convert

    check_drawable(format, columns)
    svg = _chart_svg(chart, columns) if hasattr(chart, "to_dict") else str(chart.svg(columns))
    if format == "pdf":
        return _steady(vl_convert.svg_to_pdf(svg))
    if format == "png":
        white = '<rect width="100%" height="100%" fill="#fff"/>'
        return bytes(vl_convert.svg_to_png(_ROOT.sub(lambda root: root[0] + white, svg, count=1), ppi=PNG_PPI))
    return _SIZE.sub(lambda size: f'{size[1]}="{size[2]}pt"', svg, count=2).encode()


def check_drawable(format: str, columns: int) -> None:
    """Check the format and the width of figures.

    Raises:
        ValueError: the format or the width is unknown.
    """
    if format not in FIGURE_FORMATS:
        raise ValueError(f"there is no format {format!r} for figures; choose from {', '.join(FIGURE_FORMATS)}")
    if columns not in WIDTHS:
        raise ValueError(f"a figure is 1 or 2 columns wide, not {columns}")


def _chart_svg(chart: Any, columns: int) -> str:
    """Return an SVG in points; the width of the plot is adjusted until the whole chart fills the columns."""
    import vl_convert

    spec = _in_font(chart.to_dict(validate=False))
    wanted = WIDTHS[columns] / SCALE
    for _ in range(2):
        svg = str(vl_convert.vegalite_to_svg(spec))
        width = float(_SIZE.findall(svg)[0][1])
        spec["width"] = max(NARROWEST, spec["width"] + wanted - width)
    scale = WIDTHS[columns] / width
    return _SIZE.sub(lambda size: f'{size[1]}="{scale * float(size[2]):.2f}"', svg, count=2)


def _strongest(table: FindingTable, tested: pd.DataFrame) -> list[str]:
    if table.findings:
        return [str(label) for rows in (table.negative, table.positive) for label in rows["label"][:PER_SIDE]]
    return [str(label) for label in tested["label"][:PER_SIDE]]


def _which_curves(table: FindingTable, labels: Sequence[str]) -> str:
    if labels:
        return "selected labels"
    return "the strongest findings" if table.findings else "the steepest labels"


def _in_font(part: Any) -> Any:
    """Return a specification in ``PAPER_FONT``."""
    if isinstance(part, Mapping):
        return {name: _in_font(value) for name, value in part.items()}
    if isinstance(part, list):
        return [_in_font(value) for value in part]
    return PAPER_FONT if part == charts.FONT else part


def _steady(pdf: bytes) -> bytes:
    """Sort a page's resources in a PDF, whose order the renderer changes each time."""
    return _RESOURCES.sub(lambda listed: b"".join(sorted(re.findall(_RESOURCE, listed[0]))), pdf)
