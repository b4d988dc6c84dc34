"""Findings and sections of analyses as the page's templates print them.

Only the charts' SVG is markup; the templates escape everything else.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from markupsafe import Markup

from pipeline.analyses.sections import Section, Subsection, Table
from pipeline.config.attributes import Attribute, attribute_of
from pipeline.report import words
from pipeline.report.card import CheckResult, banner
from pipeline.report.charts import chart_of, curve_chart
from pipeline.report.embedding import MOST, SHOWN, as_data_block, curve_figure, curve_words, to_svg, webp_address
from pipeline.report.label_table import LabelTable, label_table
from pipeline.report.markup import Grid, cell
from pipeline.report.tables import Finding, FindingTable, finding_key
from pipeline.report.viewer import Album, moving_sweep
from pipeline.run.formats import count

Row = Mapping[Hashable, Any]
STEEPEST = 3


@dataclass(frozen=True)
class Block:
    """The page's content for one adapter and attribute.

    ``steepest`` holds sentences about the steepest labels if none meets the rule; ``data`` is for the script.
    """

    key: str
    table: FindingTable
    banner: str | None
    summary: str
    steepest: Sequence[str]
    labels: LabelTable
    data: Markup
    left_out: Sequence[tuple[str, Sequence[str]]]
    curves: str | None
    curves_caption: str


@dataclass(frozen=True, eq=False)
class Headline:
    """A finding of the first screen: its sentence, table and row."""

    sentence: str
    table: FindingTable
    row: Row


@dataclass(frozen=True)
class Headlines:
    """The strongest findings, the positive controls, and the number of further findings."""

    findings: Sequence[Headline]
    controls: Sequence[Headline]
    more: int


def block(
    table: FindingTable,
    slopes: pd.DataFrame,
    curves: pd.DataFrame,
    *,
    key: str,
    card: Sequence[CheckResult],
    placebos: frozenset[Finding],
) -> Block:
    """Return the block of one table, from the frames of all slopes and curves and the findings of placebos."""
    own, own_curves = _of(slopes, table), _curves_of(curves, table)
    edits = own[own["arm"] == table.arm]
    estimable = edits["estimable"].astype(bool)
    tested = edits[estimable].sort_values("slope", key=lambda column: -column.abs())
    drawn, shown = _to_draw(table, tested, curved=set(own_curves["label"]))
    others = own[own["arm"] != table.arm].groupby("arm", sort=False)
    arms = {str(arm): dict(zip(rows["label"], rows["slope"], strict=True)) for arm, rows in others}
    labels = label_table(table, tested, placebos, arms=arms, drawn=drawn)
    none_found = [] if table.findings else tested[:STEEPEST].to_dict("records")
    title = f"Normalised rate against the value a: {table.adapter}, {table.poles.subject}"
    return Block(
        key=key,
        table=table,
        banner=banner(card, table.attribute),
        summary=_summary(table, tested),
        steepest=[words.no_finding(row, table.poles) for row in none_found],
        labels=labels,
        data=as_data_block(labels.data, id=f"{key}-data"),
        left_out=[
            (str(reason), sorted(map(str, rows["label"]))) for reason, rows in edits[~estimable].groupby("reason")
        ],
        curves=curve_figure(own_curves, drawn, table.poles, shown=shown, key=f"{key}-curves", title=title)
        if drawn
        else None,
        curves_caption=_curves_caption(table, shown=shown, drawn=len(drawn)),
    )


def headlines(
    tables: Sequence[FindingTable], placebos: frozenset[Finding], *, swept: Mapping[str, Attribute], most: int
) -> Headlines:
    """Return the findings with the largest |slope| that no placebo shows, the strongest of each classifier first.

    A label that restates the edited attribute is a positive control: it shows that the classifier perceives the edit.
    """
    several = len({table.adapter for table in tables}) > 1
    found = [
        Headline((f"{table.adapter}: " if several else "") + words.finding(row, table.poles), table, row)
        for table in tables
        for _, row in table.rows()
        if finding_key(row) not in placebos
    ]
    found.sort(key=lambda line: -abs(line.row["slope"]))
    controls = [
        line for line in found if attribute_of(line.table.attribute, swept).is_restated_by(str(line.row["label"]))
    ]
    others = [line for line in found if line not in controls]
    best = {line.table.adapter: line for line in reversed(others)}.values()
    ordered = sorted(others, key=lambda line: line not in best)
    return Headlines(ordered[:most], controls[:most], max(0, len(ordered) - most))


def example(found: Sequence[Headline], curves: pd.DataFrame, album: Album | None, *, key: str) -> dict[str, Any] | None:
    """Return a curve and a face's sweep of the first headline that has both, or else a curve alone."""
    first: dict[str, Any] | None = None
    for headline in found:
        table, label = headline.table, str(headline.row["label"])
        own = _curves_of(curves, table)
        own = own[own["label"] == label]
        sweep = None if album is None else moving_sweep(album, table.attribute, table.adapter, label, table.poles)
        if own.empty or (first is not None and sweep is None):
            continue
        title = f"Normalised rate of {words.quoted(label)} against the value a: {table.adapter}, {table.poles.subject}"
        chart = curve_chart(own, table.poles, labels=[label])
        curve = to_svg(chart, key=key, title=title, description=curve_words(label, own))
        first = {"curve": curve, "label": label, "adapter": table.adapter, "sweep": sweep}
        if sweep is not None:
            break
    return first


def _of(frame: pd.DataFrame, table: FindingTable) -> pd.DataFrame:
    return frame[(frame["adapter"] == table.adapter) & (frame["attribute"] == table.attribute)]


def _curves_of(curves: pd.DataFrame, table: FindingTable) -> pd.DataFrame:
    own = _of(curves, table)
    return own[(own["arm"] == table.arm) & own["z"].notna()]


def _summary(table: FindingTable, tested: pd.DataFrame) -> str:
    if not table.findings:
        return words.nothing_found(tested, table.poles, max_p=table.max_p, min_slope=table.min_slope)
    found = f"{count(table.findings)} of {count(table.tested)} tested labels"
    verb = "changes" if table.findings == 1 else "change"
    return f"{found} {verb} with {table.poles.subject} by the rule {table.rule}, on {count(table.photos)} photos."


def _to_draw(table: FindingTable, tested: pd.DataFrame, *, curved: set[str]) -> tuple[list[str], int]:
    """Return the labels to draw and the number shown at first; the strongest findings of both directions come first."""
    sides = [[str(label) for label in rows["label"] if label in curved] for rows in (table.negative, table.positive)]
    half = SHOWN // 2
    first = sides[0][: max(half, SHOWN - len(sides[1]))] + sides[1][: max(half, SHOWN - len(sides[0]))]
    steepest = [str(label) for label in tested["label"] if label in curved]
    others = [label for label in steepest if label in {*sides[0], *sides[1]}] if table.findings else []
    return list(dict.fromkeys([*first, *others, *steepest]))[:MOST], len(first) or min(STEEPEST, len(steepest))


def _curves_caption(table: FindingTable, *, shown: int, drawn: int) -> str:
    which = "the strongest findings" if table.findings else "the steepest labels (none meets the rule)"
    more = f" Select up to six of the {drawn} strongest labels in the table." if drawn > shown else ""
    return f"Normalised rate z against the value a, with 95 % bands: {which}. At a = 0, z is 1 by definition.{more}"


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
