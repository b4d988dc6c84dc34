"""Sections of analyses rendered for the page: cells as text, charts as SVG, faces as images, and warnings."""

from collections.abc import Mapping, Sequence
from typing import Any

from pipeline.analyses.sections import Section, Subsection, Table
from pipeline.report.card import CheckResult, banner
from pipeline.report.charts import chart_of
from pipeline.report.embedding import to_svg, webp_address
from pipeline.report.markup import Grid, cell


def section_views(
    sections: Sequence[Section], *, card: Sequence[CheckResult], pictures: Mapping[str, bytes]
) -> list[dict[str, Any]]:
    """Return the template's data of each section, with a banner for every attribute whose validity card fails.

    ``pictures`` is photo -> a small WebP image of its face.
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
            (to_svg(chart_of(chart), key=f"{key}-{n}", title=chart.title, description=chart.description), chart.caption)
            for n, chart in enumerate(part.charts, start=1)
        ],
        "tables": [printed_table(table) for table in part.tables],
        "galleries": [
            (gallery.heading, [(name, pictured(photos)) for name, photos in gallery.rows]) for gallery in part.galleries
        ],
    }


def printed_table(table: Table) -> Grid:
    """Return a table with its cells as text."""
    sources = [([source] if isinstance(source, str) else list(source), kind) for _, source, kind in table.columns]
    columns = [[cell(kind, *values) for values in table.rows[names].itertuples(index=False)] for names, kind in sources]
    return Grid(
        title=table.caption,
        headings=[heading for heading, *_ in table.columns],
        align="".join("l" if kind == "text" else "r" for *_, kind in table.columns),
        rows=[list(row) for row in zip(*columns, strict=True)],
    )
