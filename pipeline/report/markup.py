"""A table as it is printed: captions, headings and cells of text, in Markdown, LaTeX, HTML or aligned for a terminal.

What stands in the cells is decided in ``frames`` and ``tables``; here it is only escaped and laid out.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import accumulate, pairwise

from pipeline.run.text import latex_text, markdown_text, visible

LATEX_DOCUMENT = r"""\documentclass{article}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\begin{document}
%s\end{document}
"""
LATEX_NEEDS = "% needs \\usepackage{booktabs}\n"
SYMBOLS = ("p", "q")  # set as mathematics where that is possible
BETWEEN_GROUPS = r"@{\hspace{1.5em}}"
MARKDOWN_ALIGN = {"l": ":--", "r": "--:"}


@dataclass(frozen=True)
class Grid:
    """A table of text, nothing in it escaped yet.

    Attributes:
        title: what it shows; a heading of its caption.
        headings: one a column.
        align: "l" or "r" for every column.
        rows: cells, as many as there are headings.
        note: the rest of the caption: thresholds, how many were tested, what signs mean.
        groups: headings over neighbouring columns, with how many columns each spans; together all, or none.
        key: what LaTeX's ``\\ref`` calls it, lower-case letters, digits and hyphens; nothing: it has no label.
        nothing: what is printed where there are no rows.
    """

    title: str
    headings: Sequence[str]
    align: str
    rows: Sequence[Sequence[str]]
    note: str = ""
    groups: Sequence[tuple[str, int]] = ()
    key: str = ""
    nothing: str = "No rows."


def as_markdown(grid: Grid) -> str:
    """A pipe table under its caption; headings of groups stand in the first heading of theirs."""
    headings = [markdown_text(heading) for heading in grid.headings]
    for columns, (group, _) in zip(_spans(grid), grid.groups, strict=False):
        headings[columns.start] = f"{markdown_text(group)}: {headings[columns.start].lower()}"
    head = f"**{markdown_text(grid.title)}{'.' if grid.note else ''}** {markdown_text(grid.note)}".rstrip()
    parts = [head, ""] if grid.title else []
    if grid.rows:
        lines = [headings, [MARKDOWN_ALIGN[side] for side in grid.align]]
        lines += [[markdown_text(cell) for cell in row] for row in grid.rows]
        parts += [f"| {' | '.join(line)} |" for line in lines]
    else:
        parts.append(markdown_text(grid.nothing))
    return "\n".join(parts) + "\n"


def as_latex(grid: Grid) -> str:
    """A ``table*`` float with the rules of booktabs, in ASCII, for any engine and any document class."""
    heads = [f"${heading}$" if heading in SYMBOLS else latex_text(heading) for heading in grid.headings]
    body = [" & ".join(map(latex_text, row)) + r" \\" for row in grid.rows]
    caption = latex_text(grid.title) + (f". {latex_text(grid.note)}" if grid.note else "")
    lines = [
        r"\begin{table*}[htbp]",
        r"\centering\footnotesize\setlength{\tabcolsep}{3pt}",
        *([rf"\caption{{{caption}}}"] if grid.title else []),
        *([rf"\label{{tab:{grid.key}}}"] if grid.key else []),
        r"\par\smallskip",
        rf"\begin{{tabular}}{{@{{}}{BETWEEN_GROUPS.join(grid.align[columns] for columns in _spans(grid))}@{{}}}}",
        r"\toprule",
        *_latex_groups(grid),
        " & ".join(heads) + r" \\",
        r"\midrule",
        *(body or [rf"\multicolumn{{{len(heads)}}}{{c}}{{{latex_text(grid.nothing)}}} \\"]),
        r"\bottomrule",
        r"\end{tabular}",
        r"\end{table*}",
    ]
    return "\n".join(lines) + "\n"


def as_html(grid: Grid) -> str:
    """A ``<table>`` with its caption, in ASCII: it shows the same in any page, by itself, and whatever its encoding."""
    head = [_html_row("th", grid.headings, grid.align, scope="col")]
    if grid.groups:
        names, spans = zip(*grid.groups, strict=True)
        head.insert(0, _html_row("th", names, "l" * len(names), scope="colgroup", spans=spans))
    body = [_html_row("td", row, grid.align) for row in grid.rows]
    lines = [
        '<table style="border-collapse:collapse;font-variant-numeric:tabular-nums">',
        *([f'<caption style="text-align:left">{_html_caption(grid)}</caption>'] if grid.title else []),
        "<thead>",
        *head,
        "</thead>",
        "<tbody>",
        *(body or [_html_row("td", [grid.nothing], "l", spans=[len(grid.headings)])]),
        "</tbody>",
        "</table>",
    ]
    return "\n".join(lines) + "\n"


def as_text(grid: Grid) -> str:
    """Columns aligned for a terminal, the caption around them."""
    lines = [[visible(cell) for cell in line] for line in (grid.headings, *grid.rows)]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    sides: dict[str, Callable[[str, int], str]] = {"l": str.ljust, "r": str.rjust}
    printed = [
        "  ".join(sides[side](cell, width) for side, cell, width in zip(grid.align, line, widths, strict=True)).rstrip()
        for line in lines
    ]
    if grid.groups:
        spans = [sum(widths[columns]) + 2 * (columns.stop - columns.start - 1) for columns in _spans(grid)]
        over = [visible(group).ljust(span) for (group, _), span in zip(grid.groups, spans, strict=True)]
        printed.insert(0, "  ".join(over).rstrip())
    if not grid.rows:
        printed = [visible(grid.nothing)]
    head = [visible(grid.title), ""] if grid.title else []
    return "\n".join([*head, *printed, *(["", visible(grid.note)] if grid.note else [])]) + "\n"


def _spans(grid: Grid) -> list[slice]:
    """The columns of each group; all columns where there are no groups."""
    ends = accumulate((span for _, span in grid.groups), initial=0) if grid.groups else (0, len(grid.headings))
    return [slice(start, stop) for start, stop in pairwise(ends)]


def _latex_groups(grid: Grid) -> list[str]:
    if not grid.groups:
        return []
    last = len(grid.groups) - 1
    names, rules = [], []
    for place, (columns, (group, span)) in enumerate(zip(_spans(grid), grid.groups, strict=True)):
        first, end = "@{}" * (place == 0), "@{}" * (place == last)
        names.append(rf"\multicolumn{{{span}}}{{{first}c{end}}}{{{latex_text(group)}}}")
        trimmed = "l" * (place > 0) + "r" * (place < last)
        rules.append(rf"\cmidrule({trimmed}){{{columns.start + 1}-{columns.stop}}}")
    return [" & ".join(names) + r" \\", "".join(rules)]


def _html_caption(grid: Grid) -> str:
    note = f". {_html_text(grid.note)}" if grid.note else ""
    return f"<strong>{_html_text(grid.title)}</strong>{note}"


def _html_row(tag: str, cells: Sequence[str], align: str, *, scope: str = "", spans: Sequence[int] = ()) -> str:
    rule = ";border-bottom:1px solid" if scope == "col" else ""
    made = []
    for place, (cell, side) in enumerate(zip(cells, align, strict=True)):
        span = f' colspan="{spans[place]}"' if spans else ""
        named = f' scope="{scope}"' if scope else ""
        style = f"padding:.15em .6em;text-align:{'right' if side == 'r' else 'left'}{rule}"
        made.append(f'<{tag}{span}{named} style="{style}">{_html_text(cell)}</{tag}>')
    return f"<tr>{''.join(made)}</tr>"


def _html_text(text: str) -> str:
    return escape(visible(text)).encode("ascii", "xmlcharrefreplace").decode("ascii")
