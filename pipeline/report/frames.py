"""Any table of results, printed for people (text), as CSV, JSON, Markdown or LaTeX. What is in it is the caller's.

The tables of findings, with a column for each direction, have their own layout in ``tables``.
"""

import json
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.report.escaping import latex_text, markdown_text, visible
from pipeline.report.formats import count, decimal, p_value
from pipeline.report.tables import frame_to_csv

FORMATS = ("csv", "json", "md", "latex")
P_VALUES = ("p", "q")


def render_frame(frame: pd.DataFrame, format: str, *, title: str = "") -> str:
    """A table as text that ends with a line break.

    CSV and JSON hold every number in full; Markdown, LaTeX and text round to three decimals.

    Args:
        frame: strings, numbers and booleans; the index is left out.
        format: one of ``FORMATS``, or "text" with columns aligned for a terminal.
        title: above the table, in Markdown, LaTeX and text.

    Raises:
        ValueError: there is no such format.
    """
    if format == "csv":
        return frame_to_csv(frame)
    if format == "json":
        return json.dumps(_records(frame), indent=2, allow_nan=False) + "\n"
    if format == "md":
        return _markdown(frame, title)
    if format == "latex":
        return _latex(frame, title)
    if format == "text":
        return _text(frame, title)
    raise ValueError(f"there is no format {format!r}; there are {', '.join(FORMATS)}")


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    return [{str(name): _plain(value) for name, value in row.items()} for row in frame.to_dict("records")]


def _plain(value: Any) -> Any:
    """A value that JSON has: null for what is missing or infinite."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or value is pd.NA or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value if isinstance(value, (bool, int, float)) else str(value)


def _markdown(frame: pd.DataFrame, title: str) -> str:
    lines = [list(map(_heading, frame.columns)), ["--:" if right else ":--" for right in _right(frame)]]
    lines += [[markdown_text(cell) for cell in line] for line in _cells(frame)]
    head = [f"**{markdown_text(title)}**", ""] if title else []
    return "\n".join([*head, *(f"| {' | '.join(line)} |" for line in lines)]) + "\n"


def _latex(frame: pd.DataFrame, title: str) -> str:
    rows = [" & ".join(map(latex_text, line)) + r" \\" for line in _cells(frame)]
    caption = [rf"\caption{{{latex_text(title)}}}"] if title else []
    lines = [
        r"% needs \usepackage{booktabs}",
        r"\begin{table*}[htbp]",
        r"\centering\footnotesize",
        *caption,
        rf"\begin{{tabular}}{{@{{}}{''.join('r' if right else 'l' for right in _right(frame))}@{{}}}}",
        r"\toprule",
        " & ".join(latex_text(_heading(name)) for name in frame.columns) + r" \\",
        r"\midrule",
        *rows,
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def _text(frame: pd.DataFrame, title: str) -> str:
    lines = [[visible(_heading(name)) for name in frame.columns]]
    lines += [[visible(cell) for cell in line] for line in _cells(frame)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides: list[Callable[[str, int], str]] = [str.rjust if right else str.ljust for right in _right(frame)]
    printed = [
        "  ".join(side(cell, width) for side, cell, width in zip(sides, line, widths, strict=True)).rstrip()
        for line in lines
    ]
    return "\n".join([*([title, ""] if title else []), *printed]) + "\n"


def _cells(frame: pd.DataFrame) -> list[list[str]]:
    columns = [[_cell(str(name), value) for value in frame[name]] for name in frame.columns]
    return [list(line) for line in zip(*columns, strict=True)]


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


def _right(frame: pd.DataFrame) -> Sequence[bool]:
    kinds = [frame[name].dtype for name in frame.columns]
    return [pd.api.types.is_numeric_dtype(kind) and not pd.api.types.is_bool_dtype(kind) for kind in kinds]


def _heading(name: object) -> str:
    return str(name).replace("_", " ")
