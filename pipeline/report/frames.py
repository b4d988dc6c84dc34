"""Any table of results: for people (text), as CSV, JSON, Markdown, LaTeX or HTML. What is in it is the caller's.

The tables of findings, with a column for each direction, have their own layout in ``tables``.
"""

import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report.markup import LATEX_NEEDS, Grid, as_html, as_latex, as_markdown, as_text
from pipeline.report.tables import frame_to_csv
from pipeline.run.formats import count, decimal, p_value

FORMATS = ("csv", "json", "md", "latex", "html")
ENDINGS = {".csv": "csv", ".json": "json", ".md": "md", ".tex": "latex", ".html": "html", ".txt": "text"}
NO_FORMAT = f"there is no format {{format!r}}; there are {', '.join(FORMATS)}"
P_VALUES = ("p", "q")


def render_frame(
    frame: pd.DataFrame, format: str, *, title: str = "", note: str = "", printed: pd.DataFrame | None = None
) -> str:
    """A table as text that ends with a line break.

    CSV and JSON hold every number of ``frame`` in full; the other formats round to three decimals, and are of
    ``printed`` where that is given.

    Args:
        frame: strings, numbers and booleans; the index is left out.
        format: one of ``FORMATS``, or "text" with columns aligned for a terminal.
        title: the caption's first words.
        note: the rest of the caption.
        printed: what people are shown in place of ``frame``: fewer columns, another order.

    Raises:
        ValueError: there is no such format.
    """
    if format == "csv":
        return frame_to_csv(frame)
    if format == "json":
        return json.dumps(_records(frame), indent=2, allow_nan=False) + "\n"
    if format not in LAYOUTS:
        raise ValueError(NO_FORMAT.format(format=format))
    return LAYOUTS[format](grid_of(frame if printed is None else printed, title=title, note=note))


def grid_of(frame: pd.DataFrame, *, title: str = "", note: str = "") -> Grid:
    """A frame as it is printed: numbers rounded, flags as words, headings without underscores."""
    columns = [[_cell(str(name), value) for value in frame[name]] for name in frame.columns]
    return Grid(
        title=title,
        note=note,
        headings=[_heading(name) for name in frame.columns],
        align="".join("r" if _is_number(frame[name]) else "l" for name in frame.columns),
        rows=[list(line) for line in zip(*columns, strict=True)],
    )


def chosen_format(format: str | None, file: Path | None) -> str:
    """The format that was asked for, or that a file's ending says; text without either.

    Raises:
        ValueError: there is no such format, or the ending says none.
    """
    if format is not None and format not in FORMATS:
        raise ValueError(NO_FORMAT.format(format=format))
    if format is None and file is not None and file.suffix.lower() not in ENDINGS:
        raise ValueError(f"the ending of {file} says no format: give --format, or end it in {', '.join(ENDINGS)}")
    return format or ("text" if file is None else ENDINGS[file.suffix.lower()])


def _latex(grid: Grid) -> str:
    return LATEX_NEEDS + as_latex(grid)


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def _plain(value: Any) -> Any:
    """A value that JSON has: null for what is missing or infinite."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, (bool, int, float)) else str(value)


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
        # Photos are counted even where a missing count has made the column one of floats.
        return count(float(value)) if name.startswith(("photos", "count", "faces")) else decimal(float(value))
    return str(value)


def _is_number(column: "pd.Series[Any]") -> bool:
    return pd.api.types.is_numeric_dtype(column.dtype) and not pd.api.types.is_bool_dtype(column.dtype)


def _heading(name: object) -> str:
    return str(name).replace("_", " ")


LAYOUTS: Mapping[str, Callable[[Grid], str]] = {
    "md": as_markdown, "latex": _latex, "html": as_html, "text": as_text,
}  # fmt: skip
