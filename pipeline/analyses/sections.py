"""What an analysis shows in the report, as data: text, tables, charts and faces, which ``pipeline.report`` draws.

All text is plain; escaping, number formats of cells and colours are the report's work.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.formats import decimal, interval, is_missing

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["text", "count", "decimal", "signed", "interval", "p", "share", "share interval"]
MOST = 20  # rows of a chart; the table has them all
SURE = 0.05  # a sentence calls a difference evidence where q (or p) is below


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        heading: as printed.
        source: the column of the frame; of an interval the columns of its lower and upper end.
        kind: what the values are, which decides how they are printed.
    """

    heading: str
    source: str | tuple[str, str]
    kind: Kind = "text"


@dataclass(frozen=True, eq=False)
class Table:
    """A table; the first column holds the headings of the rows."""

    caption: str
    columns: Sequence[Column]
    rows: "pd.DataFrame"


@dataclass(frozen=True, eq=False)
class Dots:
    """A chart of values with their intervals, one line for each label, the first on top.

    Attributes:
        rows: columns label, value, low, high and, with ``series``, series; a value may lack its interval.
        axis: title of the axis.
        title, description: what the drawing shows, for readers who do not see it.
        caption: the text below.
        around: value of the dashed line; None for no line.
        shares: values are in 0-1 and printed as per cent.
        series: names of the series, at most as many as the report has colours.
    """

    rows: "pd.DataFrame"
    axis: str
    title: str
    description: str
    caption: str
    around: float | None = 0.0
    shares: bool = False
    series: Sequence[str] = ()


@dataclass(frozen=True, eq=False)
class Heatmap:
    """A map of the column ``metric`` over two known biases; ``grid`` is as ``statistics.bias_grid`` gives it."""

    grid: "pd.DataFrame"
    metric: str
    title: str
    description: str
    caption: str


@dataclass(frozen=True)
class Gallery:
    """Faces in named rows, by the names of their photos; a photo that cannot be shown is left out."""

    heading: str
    rows: Sequence[tuple[str, Sequence[str]]]


@dataclass(frozen=True, eq=False)
class Subsection:
    """One result: what it says in sentences, and the charts, tables and faces that show it."""

    heading: str
    sentences: Sequence[str]
    charts: Sequence[Dots | Heatmap] = ()
    tables: Sequence[Table] = ()
    galleries: Sequence[Gallery] = ()


@dataclass(frozen=True, eq=False)
class Section:
    """A section of the report.

    Attributes:
        key: its id on the page, lower-case letters and hyphens.
        heading: as printed.
        explanation: which question it answers, in plain words.
        parts: the results.
        caveats: how to read them.
        attributes: the edited attributes it rests on; the report warns where the validity card fails for one.
    """

    key: str
    heading: str
    explanation: str
    parts: Sequence[Subsection]
    caveats: Sequence[str] = ()
    attributes: Sequence[str] = ()

    @property
    def photos(self) -> set[str]:
        """The photos in its galleries."""
        return {photo for part in self.parts for each in part.galleries for _, photos in each.rows for photo in photos}


def attributes_of(frame: "pd.DataFrame") -> tuple[str, ...]:
    """The edited attributes that a table is about."""
    return tuple(str(name) for name in frame["attribute"].unique())


def edits_of(frame: "pd.DataFrame") -> "pd.DataFrame":
    """The rows of the edits, without placebos."""
    return frame[frame["arm"] == EDIT_ARM]


def rows_by(frame: "pd.DataFrame", *columns: str) -> "list[tuple[tuple[str, ...], pd.DataFrame]]":
    """The rows of each combination of the columns' values, in the order in which they come."""
    found = frame.groupby(list(columns), sort=False, dropna=False)
    return [(tuple(str(part) for part in key), rows) for key, rows in found]


def largest_first(frame: "pd.DataFrame", column: str) -> "pd.DataFrame":
    """The rows by the size of a column, whatever its sign."""
    return frame.reindex(frame[column].abs().sort_values(ascending=False, kind="stable").index)


def dot_rows(
    frame: "pd.DataFrame", *, label: str, value: str, low: str, high: str, series: str | None = None
) -> "pd.DataFrame":
    """The ``rows`` of a ``Dots`` from columns of a frame."""
    import pandas as pd

    sources = {"label": label, "value": value, "low": low, "high": high} | ({"series": series} if series else {})
    return pd.DataFrame({name: frame[source] for name, source in sources.items()})


def bounds(value: Any, low: Any, high: Any, *, level: float = 0.95) -> str:
    """``+0.120 (95 % interval 0.080 to 0.160)``, without the interval where there is none."""
    if is_missing(low) or is_missing(high):
        return f"{decimal(value, sign=True)} (without an interval)"
    return f"{decimal(value, sign=True)} ({100 * level:g} % interval {interval(low, high)})"


def listed(names: Sequence[str], *, most: int = 5) -> str:
    """``a, b and c``; of many the first and how many more there are."""
    if len(names) > most:
        return f"{', '.join(names[:most])} and {len(names) - most} more"
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def quoted(name: object) -> str:
    """A name in quotation marks."""
    return f"“{name}”"


def cut(shown: int, there: int, *, noun: str = "") -> str:
    """A caption's last sentence where a chart does not show everything; empty where it does."""
    return f" The {shown} largest of {there}{noun}; the table has them all." if shown < there else ""
