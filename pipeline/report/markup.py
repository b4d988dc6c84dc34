"""Rendering of tables as text, Markdown, LaTeX, HTML, CSV or JSON. Tables of findings are laid out in ``tables``."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from tabulate import tabulate

from pipeline.run.formats import MISSING, count, decimal, interval, is_missing, measured, p_value, plain
from pipeline.run.text import latex_text, markdown_text, visible

TEMPLATES = PackageLoader("pipeline.report")
FORMATS = ("csv", "json", "md", "latex", "html")
ENDINGS = {".csv": "csv", ".json": "json", ".md": "md", ".tex": "latex", ".html": "html", ".txt": "text"}
NO_FORMAT = f"there is no format {{format!r}}; choose from {', '.join(FORMATS)}"
P_VALUES = ("p", "q")
LATEX_NEEDS = "% needs \\usepackage{booktabs}\n"
LONG_TEXT = 22  # letters beyond which a column of text is wrapped in LaTeX
BETWEEN_GROUPS = r"@{\hspace{1.5em}}"
ALIGN = {"l": "left", "r": "right"}


@dataclass(frozen=True)
class Grid:
    """A table of unescaped text.

    Attributes:
        title: the first sentence of its caption.
        headings: one per column.
        align: "l" or "r" for every column.
        rows: one cell per column.
        note: the rest of the caption.
        groups: headings over neighbouring columns and the number of columns each spans, all columns or none.
        key: the name for LaTeX's ``\\ref``: lower-case letters, digits and hyphens. Empty: no label.
        nothing: printed if there are no rows.
    """

    title: str
    headings: Sequence[str]
    align: str
    rows: Sequence[Sequence[str]]
    note: str = ""
    groups: Sequence[tuple[str, int]] = ()
    key: str = ""
    nothing: str = "No rows."


class _Group(NamedTuple):
    """A heading over columns ``first`` to ``last``, counted from 1."""

    name: str
    first: int
    last: int
    span: int


def render_frame(frame: pd.DataFrame, format: str, *, title: str = "", printed: pd.DataFrame | None = None) -> str:
    """Render a table as text that ends with a line break.

    CSV and JSON hold the numbers of ``frame`` in full. The other formats round to three decimals.

    Args:
        frame: strings, numbers and booleans; the index is omitted.
        format: one of ``FORMATS``, or "text" with columns aligned for a terminal.
        title: the caption.
        printed: shown instead of ``frame`` in all formats but CSV and JSON.

    Raises:
        ValueError: the format is unknown.
    """
    if format == "csv":
        from pipeline.run.tables import frame_to_csv

        return frame_to_csv(frame)
    if format == "json":
        rows = [{str(name): as_json(value) for name, value in row.items()} for row in frame.to_dict("records")]
        return json.dumps(rows, indent=2, allow_nan=False) + "\n"
    if format not in LAYOUTS:
        raise ValueError(NO_FORMAT.format(format=format))
    grid = grid_of(frame if printed is None else printed, title=title)
    return (LATEX_NEEDS if format == "latex" else "") + LAYOUTS[format](grid)


def grid_of(frame: pd.DataFrame, *, title: str = "") -> Grid:
    """Return a frame as text: numbers rounded, booleans as words, headings without underscores."""
    columns = [[_cell(str(name), value) for value in frame[name]] for name in frame.columns]
    return Grid(
        title=title,
        headings=[str(name).replace("_", " ") for name in frame.columns],
        align="".join("r" if _is_number(frame[name]) else "l" for name in frame.columns),
        rows=[list(line) for line in zip(*columns, strict=True)],
    )


def chosen_format(format: str | None, file: Path | None) -> str:
    """Return the format by its name or by a file's ending; without either, "text".

    Raises:
        ValueError: the format or the ending is unknown.
    """
    if format is not None and format not in (*FORMATS, "text"):
        raise ValueError(NO_FORMAT.format(format=format))
    if format is None and file is not None and file.suffix.lower() not in ENDINGS:
        raise ValueError(f"the ending of {file} is not one of {', '.join(ENDINGS)}: change it, or give --format")
    return format or ("text" if file is None else ENDINGS[file.suffix.lower()])


def as_text(grid: Grid) -> str:
    """Render with columns aligned for a terminal, between title and note."""
    rows = [[visible(cell) for cell in row] for row in grid.rows]
    headings = [visible(heading) for heading in grid.headings]
    if rows:
        printed = [line.rstrip() for line in _aligned(rows, headings, grid.align, "plain").splitlines()]
        if grid.groups:
            widths = [max(map(len, column)) for column in zip(headings, *rows, strict=True)]
            spans = [sum(widths[group.first - 1 : group.last]) + 2 * (group.span - 1) for group in _groups(grid)]
            over = [visible(name).ljust(span) for (name, _), span in zip(grid.groups, spans, strict=True)]
            printed.insert(0, "  ".join(over).rstrip())
    else:
        printed = [visible(grid.nothing)]
    head = [visible(grid.title), ""] if grid.title else []
    return "\n".join([*head, *printed, *(["", visible(grid.note)] if grid.note else [])]) + "\n"


def as_markdown(grid: Grid) -> str:
    """Render as a pipe table under its caption; a group's heading is part of the heading of its first column."""
    headings = [markdown_text(heading) for heading in grid.headings]
    for group in _groups(grid):
        headings[group.first - 1] = f"{markdown_text(group.name)}: {headings[group.first - 1].lower()}"
    head = f"**{markdown_text(grid.title)}{'.' if grid.note else ''}** {markdown_text(grid.note)}".rstrip()
    rows = [[markdown_text(cell) for cell in row] for row in grid.rows]
    table = _aligned(rows, headings, grid.align, "pipe") if rows else markdown_text(grid.nothing)
    return "\n".join([*([head, ""] if grid.title else []), table]) + "\n"


def as_latex(grid: Grid) -> str:
    """Render as a ``table*`` float with booktabs rules, in ASCII, for any LaTeX engine and document class."""
    spans = _groups(grid) or [_Group("", 1, len(grid.headings), len(grid.headings))]
    columns = [_latex_column(grid, place) for place in range(len(grid.headings))]
    template = environment("latex").get_template("tables/table.tex.j2")
    return template.render(
        grid=grid,
        groups=_groups(grid),
        columns=BETWEEN_GROUPS.join("".join(columns[group.first - 1 : group.last]) for group in spans),
        # Symbols in math mode.
        headings=[f"${heading}$" if heading in P_VALUES else latex_text(heading) for heading in grid.headings],
    )


def as_html(grid: Grid) -> str:
    """Render as a ``<table>`` with its caption, in ASCII, independent of the page's encoding and style."""
    text = environment().get_template("tables/table.html.j2").render(grid=grid, groups=_groups(grid))
    return text.encode("ascii", "xmlcharrefreplace").decode("ascii").lstrip()


LAYOUTS: Mapping[str, Callable[[Grid], str]] = {
    "md": as_markdown, "latex": as_latex, "html": as_html, "text": as_text,
}  # fmt: skip


@cache
def environment(format: str = "html") -> Environment:
    """Return the environment of the report's templates; those of LaTeX have other delimiters, without braces.

    Text in HTML is escaped, and its invisible characters are written out. The filter ``drawn`` is for SVG, which is
    escaped already; ``tex`` escapes for LaTeX.
    """
    brackets: dict[str, Any] = {
        "block_start_string": "<%", "block_end_string": "%>",
        "variable_start_string": "<<", "variable_end_string": ">>",
        "comment_start_string": "<#", "comment_end_string": "#>",
    }  # fmt: skip
    made = Environment(
        loader=TEMPLATES,
        autoescape=format == "html",  # noqa: S701 - LaTeX is escaped by the filter tex
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=StrictUndefined,
        finalize=lambda value: visible(value) if type(value) is str and format == "html" else value,
        **(brackets if format == "latex" else {}),
    )
    made.filters |= {"plain": plain, "drawn": Markup, "tex": latex_text}
    return made


def _aligned(rows: Sequence[Sequence[str]], headings: Sequence[str], align: str, format: str) -> str:
    return tabulate(
        rows,
        headers=headings,
        tablefmt=format,
        colalign=[ALIGN[side] for side in align],
        disable_numparse=True,
        preserve_whitespace=True,
    )


def _latex_column(grid: Grid, place: int) -> str:
    """Return the column type ``r``, ``l`` or, for long text, a paragraph, so that the float fits a two-column page."""
    long = max((len(row[place]) for row in grid.rows), default=0) > LONG_TEXT
    if grid.align[place] == "l" and long:
        texts = sum(side == "l" for side in grid.align)
        return rf"p{{{0.34 / texts:.2f}\linewidth}}"
    return grid.align[place]


def _groups(grid: Grid) -> list[_Group]:
    ends = list(accumulate(span for _, span in grid.groups))
    return [_Group(name, end - span + 1, end, span) for (name, span), end in zip(grid.groups, ends, strict=True)]


def as_json(value: Any) -> Any:
    """Return a value for JSON; None for missing and infinite values."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, (bool, int, float)) else str(value)


def cell(kind: str, *values: Any) -> str:
    """Return a cell as text by the kind of its column; an interval has two values."""
    match kind:
        case "count":
            return count(*values)
        case "p":
            return p_value(*values)
        case "interval":
            return interval(*values)
        case "share":
            return measured(values[0], "share")
        case "share interval":
            return MISSING if any(map(is_missing, values)) else " to ".join(measured(end, "share") for end in values)
        case "decimal" | "signed" | "placebo":
            return decimal(*values, sign=kind == "signed")
    return str(*values)


def _cell(name: str, value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if value is None or value is pd.NA:
        return decimal(None)
    if isinstance(value, (int, np.integer)):
        return count(int(value))
    if isinstance(value, (float, np.floating)):
        if name.rpartition("_")[2] in P_VALUES:
            return p_value(float(value))
        # A missing count turns a column of integers into floats.
        return count(float(value)) if name.startswith(("photos", "count", "faces")) else decimal(float(value))
    return str(value)


def _is_number(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)
