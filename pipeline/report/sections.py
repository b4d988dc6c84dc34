"""The sections of analyses as the page prints them: cells as text, charts as SVG, faces as images, and warnings.

What a section says is decided in ``pipeline.analyses``; how it looks is in the templates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.analyses.sections import Kind, Section, Subsection, Table
from pipeline.report.card import CheckResult, banner
from pipeline.report.charts import chart_of
from pipeline.report.embedding import to_svg, webp_address
from pipeline.run.formats import MISSING, count, decimal, interval, is_missing, measured, p_value

SMALL = 12  # rows of a table that is shown without a click


@dataclass(frozen=True)
class PrintedTable:
    """A table of text; ``texts`` are the columns that hold words, not numbers; a long one opens with a click."""

    caption: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    texts: frozenset[int]

    @property
    def folded(self) -> bool:
        """Whether it opens with a click only."""
        return len(self.rows) > SMALL


def section_views(
    sections: Sequence[Section], *, card: Sequence[CheckResult], pictures: Mapping[str, bytes]
) -> list[dict[str, Any]]:
    """What the template prints of each section; where the card fails for an attribute, a banner stands over it.

    ``pictures``: photo -> a small WebP image of its face.
    """
    faces = {photo: webp_address(image) for photo, image in pictures.items()}
    return [
        {
            "section": section,
            "banners": [text for name in section.attributes if (text := banner(card, name)) is not None],
            "parts": [
                _part_view(part, key=f"{section.key}-{number}", faces=faces)
                for number, part in enumerate(section.parts, start=1)
            ],
        }
        for section in sections
    ]


def _part_view(part: Subsection, *, key: str, faces: Mapping[str, str]) -> dict[str, Any]:
    def pictured(photos: Sequence[str]) -> list[tuple[str, str]]:
        return [(faces[photo], photo) for photo in photos if photo in faces]

    return {
        "part": part,
        "charts": [
            (
                to_svg(chart_of(one), key=f"{key}-{number}", title=one.title, description=one.description),
                one.caption,
            )
            for number, one in enumerate(part.charts, start=1)
        ],
        "tables": [printed_table(table) for table in part.tables],
        "galleries": [
            (gallery.heading, [(name, pictured(photos)) for name, photos in gallery.rows]) for gallery in part.galleries
        ],
    }


def printed_table(table: Table) -> PrintedTable:
    """A table with its cells as text."""
    columns = [_cells(table.rows, source, kind) for _, source, kind in table.columns]
    return PrintedTable(
        caption=table.caption,
        headings=[heading for heading, *_ in table.columns],
        rows=[list(row) for row in zip(*columns, strict=True)],
        texts=frozenset(place for place, (*_, kind) in enumerate(table.columns) if place and kind == "text"),
    )


def _cells(rows: pd.DataFrame, source: str | tuple[str, str], kind: Kind) -> list[str]:
    if isinstance(source, str):
        return [_cell(value, kind) for value in rows[source]]
    ends = zip(rows[source[0]], rows[source[1]], strict=True)
    return [interval(*pair) if kind == "interval" else _shares(*pair) for pair in ends]


def _cell(value: Any, kind: Kind) -> str:
    match kind:
        case "text":
            return str(value)
        case "count":
            return count(value)
        case "p":
            return p_value(value)
        case "share":
            return measured(value, "share")
    return decimal(value, sign=kind == "signed")


def _shares(low: float, high: float) -> str:
    missing = is_missing(low) or is_missing(high)
    return MISSING if missing else f"{measured(low, 'share')} to {measured(high, 'share')}"
