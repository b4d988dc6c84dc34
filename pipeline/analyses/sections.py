"""Sections of the report as data: text, tables, charts and faces, which ``pipeline.report`` renders.

All text is plain; escaping, number formats of cells and colours belong to the report.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.run.formats import count, decimal, interval, is_missing, p_equals, pluralise

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["text", "count", "decimal", "signed", "interval", "p", "share", "share interval"]
# Heading, column of the frame (for an interval, the columns of its ends), and kind of content.
Column = tuple[str, str | tuple[str, str], Kind]
MOST = 20  # rows of a chart; the table has them all
SURE = 0.05  # q (or p) below which a difference is called evidence in a sentence
NAMED = 3  # differences described in sentences
DIFFERENCE: tuple[Column, ...] = (
    ("Difference", "difference", "signed"), ("95 % interval", ("difference_low", "difference_high"), "interval"),
    ("p", "p", "p"), ("q", "q", "p"),
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Table:
    """A table; the first column holds the headings of the rows."""

    caption: str
    rows: "pd.DataFrame"
    columns: Sequence[Column]


@dataclass(frozen=True, eq=False)
class Dots:
    """A chart of values with intervals, a line per label, the first on top."""

    rows: "pd.DataFrame"  # label, value, low, high and, with ``series``, series; a value may lack its interval
    axis: str  # title of the axis
    # title, description: alternative text of the drawing
    title: str
    description: str
    caption: str
    around: float | None = 0.0  # value of the dashed line; None for no line
    shares: bool = False  # values are in 0-1 and printed as per cent
    series: Sequence[str] = ()  # names, at most as many as the report has colours


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A map of the column ``metric`` of ``statistics.bias_grid`` over two known biases."""

    grid: "pd.DataFrame"
    metric: str
    title: str
    description: str
    caption: str


@dataclass(frozen=True, eq=False)
class Scatter:
    """Shares in 0-1 against others, with the line of equality."""

    rows: "pd.DataFrame"  # the columns x and y, and the interval of y in columns with the suffixes _low and _high
    x: str
    y: str
    titles: tuple[str, str]  # of the axes
    title: str
    description: str
    caption: str


@dataclass(frozen=True, eq=False)
class Curves:
    """Shares in 0-1 along an attribute's sweep, a line per label, at most as many as the report has colours."""

    rows: "pd.DataFrame"  # label, value (of a), y, low, high
    attribute: Attribute
    axis: str  # title of the axis
    title: str
    description: str
    caption: str


Chart = Dots | Heatmap | Scatter | Curves


@dataclass(frozen=True)
class Gallery:
    """Named rows of faces, by the names of their photos; photos that cannot be shown are left out."""

    heading: str
    rows: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True, eq=False)
class Subsection:
    """A result in sentences, charts, tables and faces."""

    heading: str
    sentences: Sequence[str]
    charts: Sequence[Chart] = ()
    tables: Sequence[Table] = ()
    galleries: Sequence[Gallery] = ()


@dataclass(frozen=True, eq=False)
class Section:
    """A section of the report."""

    key: str  # id on the page, lower-case letters and hyphens
    heading: str
    explanation: str  # the question that it answers
    parts: Sequence[Subsection]
    caveats: Sequence[str] = ()
    attributes: Sequence[str] = ()  # edited attributes; the report warns if the validity card fails for one

    @property
    def photos(self) -> set[str]:
        """Photos in the galleries."""
        return {photo for part in self.parts for each in part.galleries for _, photos in each.rows for photo in photos}


def edits_of(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Rows of the edits, without placebos."""
    return frame[frame["arm"] == EDIT_ARM]


def attributes_of(frame: "pd.DataFrame") -> tuple[str, ...]:
    """Distinct attributes of a table."""
    return tuple(str(name) for name in frame["attribute"].unique())


def rows_by(frame: "pd.DataFrame", *columns: str) -> "list[tuple[tuple[str, ...], pd.DataFrame]]":
    """Rows by combination of the columns' values, in order of first appearance."""
    groups = frame.groupby(list(columns), sort=False, dropna=False)
    return [(tuple(map(str, key)), rows) for key, rows in groups]


def printed(frame: "pd.DataFrame", keys: Sequence[str], columns: Sequence[Column]) -> "pd.DataFrame":
    """Estimable edits for the terminal: the key columns, then the columns of a table."""
    import pandas as pd

    shown = edits_of(frame)
    shown = shown[shown["estimable"].astype(bool)] if "estimable" in shown else shown
    values = {key: shown[key] for key in keys}
    for _, column, _ in columns:
        if isinstance(column, str):
            values.setdefault(column, shown[column])
        else:
            low, high = (shown[end] for end in column)
            ends = [interval(*pair) for pair in zip(low, high, strict=True)]
            values[f"{column[0].removesuffix('_low')} interval"] = pd.Series(ends, shown.index, dtype=object)
    return pd.DataFrame(values)


def largest_first(frame: "pd.DataFrame", column: str) -> "pd.DataFrame":
    """Sort rows by descending absolute value of a column."""
    return frame.reindex(frame[column].abs().sort_values(ascending=False, kind="stable").index)


def dot_rows(frame: "pd.DataFrame", *sources: str) -> "pd.DataFrame":
    """The ``rows`` of a ``Dots``, from the columns for label, value, low, high and optionally series."""
    names = ("label", "value", "low", "high", "series")
    return frame[list(sources)].set_axis(list(names[: len(sources)]), axis=1)


def differences(compared: "pd.DataFrame", tested: str, sides: Callable[[Mapping[Any, Any]], str]) -> list[str]:
    """Describe a table of differences: the largest with evidence, or how large an undetected one could be.

    Args:
        compared: label, difference, difference_low, difference_high and q, largest first; not empty.
        tested: description of what was compared.
        sides: describes the two values of a row.
    """
    differ = compared[compared["q"] < SURE]
    if differ.empty:
        reach = compared[["difference_low", "difference_high"]].abs().to_numpy(float).max()
        return [
            f"{tested}: no evidence of a difference larger than {decimal(reach)}, the farthest end of the 95 % "
            "intervals (none has q < 0.05)."
        ]
    return [f"{tested}: {count(len(differ))} of {count(len(compared))} differ (q < 0.05)."] + [
        f"{quoted(row['label'])}: {sides(row)}; difference "
        f"{bounds(row['difference'], row['difference_low'], row['difference_high'])}, {p_equals('q', row['q'])}."
        for row in differ[:NAMED].to_dict("records")
    ]


def differences_part(
    rows: "pd.DataFrame",
    heading: str,
    *,
    names: tuple[str, str],
    sides: tuple[str, str],
    both: tuple[str, str],
    axis: str,
    title: str,
    also: Sequence[Column] = (),
) -> Subsection:
    """Sentences, a chart and a table of the differences between two slopes of each label.

    Args:
        rows: the result of ``statistics.compare``.
        heading: of the part.
        names: headings of the columns of the two slopes.
        sides: phrases for the two slopes in a sentence: "by opencv".
        both: phrases for estimable labels ("in both") and for the others ("in one of the two").
        axis, title: of the chart.
        also: columns between those of the two slopes.
    """
    known = largest_first(rows[rows["estimable"].astype(bool)], "difference")
    missing = len(rows) - len(known)
    left_out = [f"{count(missing)} more can be estimated {both[1]} at most."] if missing else []
    if known.empty:
        nothing = f"No label can be estimated {both[0]}, so nothing can be concluded about a difference."
        return Subsection(heading, [nothing, *left_out])
    labels = pluralise(len(known), "label")
    tested = f"Slopes of {labels} compared on {pluralise(known['photos'].max(), 'photo')}"

    def slopes_of(row: Mapping[Any, Any]) -> str:
        first, second = (decimal(row[name], sign=True) for name in ("first_slope", "second_slope"))
        return f"slope {first} {sides[0]}, {second} {sides[1]}"

    shown, largest = known[:MOST].sort_values("difference", ascending=False, kind="stable"), known.iloc[0]
    chart = Dots(
        dot_rows(shown, "label", "difference", "difference_low", "difference_high"),
        axis=axis,
        title=title,
        description=f"{pluralise(len(shown), 'label')}; the largest difference is {decimal(largest['difference'])}, "
        f"{quoted(largest['label'])}.",
        caption="Differences of slopes with their 95 % intervals; full where the interval excludes 0."
        + cut(len(shown), len(known)),
    )
    columns: list[Column] = [
        ("Label", "label", "text"), (f"Slope, {names[0]}", "first_slope", "signed"), *also,
        (f"Slope, {names[1]}", "second_slope", "signed"), *DIFFERENCE,
    ]  # fmt: skip
    table = Table(f"{labels}, largest difference first", known, columns)
    return Subsection(heading, [*differences(known, tested, slopes_of), *left_out], charts=[chart], tables=[table])


def bounds(value: Any, low: Any, high: Any, *, level: float = 0.95) -> str:
    """Format as ``+0.120 (95 % interval 0.080 to 0.160)``."""
    if is_missing(low) or is_missing(high):
        return f"{decimal(value, sign=True)} (without an interval)"
    return f"{decimal(value, sign=True)} ({100 * level:g} % interval {interval(low, high)})"


def listed(names: Sequence[str], *, most: int = 5) -> str:
    """Format as ``a, b and c``, or ``a, b, c and 7 more``."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def quoted(name: object) -> str:
    """Put a name in quotation marks."""
    return f"“{name}”"


def cut(shown: int, there: int, *, noun: str = "") -> str:
    """Last sentence of the caption of a chart that does not show everything, else empty."""
    return f" The {shown} largest of {there}{noun}; the table has them all." if shown < there else ""
