"""The table of labels of one adapter and attribute: the rows printed at first, and the data of all rows for the script.

The findings, or the steepest labels if there are none, are printed. The script sorts, filters and shows all labels.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd

from pipeline.report.markup import cell
from pipeline.report.tables import NET, Finding, FindingTable, finding_key
from pipeline.run import formats
from pipeline.statistics.truncation import COLUMN as TRUNCATION

Kind = Literal["label", "slope", "bar", "interval", "p", "decimal", "placebo", "count"]
STEEPEST = 20  # labels printed if none meets the rule
PLACES = 3  # decimals of printed numbers
BAR_WIDTH, BAR_HEIGHT = 180, 16  # units of a bar's SVG


@dataclass(frozen=True)
class Column:
    """A column: its heading, the kind of its values, and their columns in the slopes frame (two for an interval).

    ``wide`` columns are shown on demand.
    """

    heading: str
    kind: Kind
    source: tuple[str, ...]
    wide: bool = False


COLUMNS = (
    Column("Label", "label", ("label",)),
    Column("Slope", "slope", ("slope",)),
    Column("Interval drawn", "bar", ()),
    Column("95 % interval", "interval", ("slope_low", "slope_high")),
    Column("p", "p", ("p",)),
    Column("q", "p", ("q",)),
)
NET_COLUMNS = (
    Column(NET, "decimal", ("net_slope",)),
    Column("Its 95 % interval", "interval", ("net_low", "net_high")),
)
WIDE_COLUMNS = (
    Column("Bootstrap interval", "interval", ("bootstrap_low", "bootstrap_high"), wide=True),
    Column("Permutation p", "p", ("permutation_p",), wide=True),
    Column("OLS p", "p", ("ols_p",), wide=True),
    Column("Slope, |a| ≤ 1", "decimal", ("inner_slope",), wide=True),
    Column("Slope of the rate", "decimal", ("rd_slope",), wide=True),
    Column("Rate at a = 0", "decimal", ("y_c",), wide=True),
    Column("Photos at a = 0", "count", ("count_centre",), wide=True),
)


@dataclass(frozen=True)
class Scale:
    """The range of the bars' axis."""

    low: float
    high: float

    def place(self, number: float) -> float:
        """Return a number's position on a bar, clipped to its ends."""
        share = (round(number, PLACES) - self.low) / (self.high - self.low)
        # Halves are rounded up, as in the script that draws the other bars.
        return math.floor(10 * BAR_WIDTH * min(max(share, 0.0), 1.0) + 0.5) / 10


@dataclass(frozen=True)
class Row:
    """A printed row: cells as text (empty for the bar), the bar's positions, and whether a placebo shows it too."""

    cells: Sequence[str]
    bar: Mapping[str, Any]
    finding: bool
    placebo: bool


@dataclass(frozen=True)
class LabelTable:
    """The template's content, and ``data`` for the script."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    scale: Scale
    tested: int
    findings: int
    data: Mapping[str, Any]

    @property
    def marks_placebos(self) -> bool:
        """Whether a placebo shows one of the printed labels too."""
        return any(row.placebo for row in self.rows)


def label_table(
    table: FindingTable,
    tested: pd.DataFrame,
    placebos: frozenset[Finding],
    *,
    arms: Mapping[str, Mapping[str, float]],
    drawn: Sequence[str],
) -> LabelTable:
    """Return the table of one adapter and attribute.

    Args:
        table: the findings.
        tested: the estimable rows of the slopes frame, steepest first.
        placebos: the findings of placebos.
        arms: placebo -> label -> slope.
        drawn: labels with a curve, in the order of the chart.
    """
    of_arms = {f"{arm}_slope": tested["label"].map(dict(slopes)).astype(float) for arm, slopes in arms.items()}
    frame = tested.assign(**of_arms)
    less = NET_COLUMNS if table.placebos else ()
    cut = [Column("Slope that cut-off scores could cause", "decimal", (TRUNCATION,), wide=True)]
    # The difference to the placebo is more important than the p and q of the slope itself.
    shown = (*COLUMNS[:4], *less, *COLUMNS[4:], *_placebo_columns(arms, frame))
    columns = (*shown, *WIDE_COLUMNS, *(cut if TRUNCATION in frame else ()))
    found = {str(row["label"]) for _, row in table.rows()}
    rows = frame.to_dict("records")
    series = {label: number for number, label in enumerate(drawn)}
    at_first = [row for row in rows if row["label"] in found] or rows[:STEEPEST]
    scale = scale_of([row for row in rows if row["label"] in found | set(series)] or rows[:STEEPEST])

    def marks(row: Mapping[Any, Any]) -> tuple[bool, bool]:
        return row["label"] in found, finding_key(row) in placebos or row.get("exceeds_placebos") is False

    return LabelTable(
        columns=columns,
        rows=[
            Row([_cell(row, column) for column in columns], bar(row, scale, also=list(of_arms)), *marks(row))
            for row in at_first
        ],
        scale=scale,
        tested=len(rows),
        findings=len(found),
        data={
            "kinds": [column.kind for column in columns],
            "low": scale.low,
            "high": scale.high,
            "width": BAR_WIDTH,
            "height": BAR_HEIGHT,
            "atFirst": len(at_first),
            # Flags (1: a finding, 2: a placebo shows it too), the number of the curve or null, and the cells.
            "rows": [
                [marks(row)[0] + 2 * marks(row)[1], series.get(row["label"])]
                + [_datum(row, column) for column in columns]
                for row in rows
            ],
        },
    )


def scale_of(rows: Sequence[Mapping[Any, Any]]) -> Scale:
    """Return an axis that holds 0, all slopes, and of the intervals at most half that range beyond either end."""
    slopes = [0.0, *(row["slope"] for row in rows)]
    low, high = min(slopes), max(slopes)
    room = max(high - low, 0.05) / 2
    bounds = np.array([[row["slope_low"], row["slope_high"]] for row in rows]).ravel()
    bounds = bounds[np.isfinite(bounds)]
    low, high = max(bounds.min(initial=low), low - room), min(bounds.max(initial=high), high + room)
    step = 10.0 ** math.floor(math.log10(max(high - low, 0.01))) / 10
    return Scale(round(math.floor(low / step) * step, 6), round((math.floor(high / step) + 1) * step, 6))


def bar(row: Mapping[Any, Any], scale: Scale, *, also: Sequence[str] = ()) -> dict[str, Any]:
    """Return the positions of a slope, its interval, its placebos (columns ``also``) and zero on a bar."""
    ends = row["slope_low"], row["slope_high"]
    return {
        "side": "low" if row["slope"] < 0 else "high",
        "zero": scale.place(0.0),
        "range": None if any(map(math.isnan, ends)) else [scale.place(end) for end in ends],
        "mark": scale.place(row["slope"]),
        "beyond": not scale.low <= row["slope"] <= scale.high,
        "placebos": [scale.place(row[name]) for name in also if not math.isnan(row[name])],
    }


def _placebo_columns(arms: Mapping[str, Any], frame: pd.DataFrame) -> list[Column]:
    """Return columns for the placebos' slopes and, on demand, for their differences from the edit's."""
    columns = [Column(f"Placebo “{arm}”", "placebo", (f"{arm}_slope",)) for arm in arms]
    for arm in arms:
        if f"{arm}_difference" in frame.columns:
            columns.append(Column(f"Slope − placebo “{arm}”", "decimal", (f"{arm}_difference",), wide=True))
            columns.append(Column(f"q of slope − placebo “{arm}”", "p", (f"{arm}_difference_q",), wide=True))
    return columns


def _cell(row: Mapping[Any, Any], column: Column) -> str:
    values = [row[name] for name in column.source]
    if column.kind == "slope":
        return cell("signed", *values) + formats.stars(row["q"])
    return cell(column.kind, *values) if values else ""


def _datum(row: Mapping[Any, Any], column: Column) -> Any:
    """Return a cell's value for the script, rounded as ``formats`` prints it: text, number, pair or None."""
    if column.kind == "label":
        return str(row["label"])
    values = [_rounded(row[name], column.kind) for name in column.source]
    if column.kind == "slope":
        return [values[0], formats.stars(row["q"])]
    return values if len(values) > 1 else values[0] if values else None


def _rounded(number: float | None, kind: Kind) -> float | str | None:
    """Round a number for JSON: infinity becomes a text; a p below 0.001 keeps two digits, for sorting."""
    if number is None or math.isnan(number):
        return None
    if math.isinf(number):
        return formats.decimal(number)
    if kind == "p" and number < 0.001:
        return min(float(f"{number:.1e}"), 0.00099)
    return round(number, 0 if kind == "count" else PLACES)
