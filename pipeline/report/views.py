"""What the page's templates print, made from the frames: one block for every adapter and attribute, and lists of facts.

Nothing here is HTML but the charts' SVG; escaping is the templates' work.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from markupsafe import Markup

from pipeline.config.attributes import Attribute, attribute_of
from pipeline.report import charts, words
from pipeline.report.card import CheckResult, banner, short_banner
from pipeline.report.charts import MOST, SHOWN, curve_figure
from pipeline.report.embedding import as_data_block
from pipeline.report.label_table import LabelTable, axis_words, label_table
from pipeline.report.tables import Finding, FindingTable, finding_key
from pipeline.report.viewer import Album, moving_sweep
from pipeline.run.formats import MISSING, count

Row = Mapping[Hashable, Any]
STEEPEST = 3


@dataclass(frozen=True)
class Block:
    """All that the page shows of one adapter and attribute.

    ``steepest`` speaks of the steepest labels where none met the rule; ``data`` is what the script needs.
    """

    key: str
    table: FindingTable
    banner: str | None
    banner_short: str
    summary: str
    steepest: Sequence[str]
    labels: LabelTable
    data: Markup
    axis: str
    placebo_marks: bool
    left_out: Sequence[tuple[str, Sequence[str]]]
    curves: str | None
    curves_caption: str


def block(
    table: FindingTable,
    slopes: pd.DataFrame,
    curves: pd.DataFrame,
    *,
    key: str,
    card: Sequence[CheckResult],
    placebos: frozenset[Finding],
) -> Block:
    """The block of one table; ``slopes`` and ``curves`` are the whole frames, ``placebos`` what placebos show too."""
    poles = table.poles
    own = _of(slopes, table)
    edits = own[own["arm"] == table.arm]
    estimable = edits["estimable"].astype(bool)
    tested = edits[estimable].sort_values("slope", key=lambda column: -column.abs())
    rejected = edits[~estimable]
    own_curves = _of(curves, table)
    own_curves = own_curves[(own_curves["arm"] == table.arm) & own_curves["z"].notna()]
    drawn, shown = _to_draw(table, tested, curved=set(own_curves["label"]))
    labels = label_table(table, tested, placebos, arms=_placebo_slopes(own, table.arm), drawn=drawn)
    about = f"{table.adapter}, {poles.subject}"
    return Block(
        key=key,
        table=table,
        banner=banner(card, table.attribute),
        banner_short=short_banner(table.attribute),
        summary=_summary(table, tested),
        steepest=[]
        if table.findings
        else [words.no_finding(row, poles) for row in tested[:STEEPEST].to_dict("records")],
        labels=labels,
        data=as_data_block(labels.data, id=f"{key}-data"),
        axis=axis_words(labels.scale, poles),
        placebo_marks=any(row.placebo for row in labels.rows),
        left_out=[(str(reason), sorted(map(str, rows["label"]))) for reason, rows in rejected.groupby("reason")],
        curves=curve_figure(
            own_curves,
            drawn,
            poles,
            shown=shown,
            key=f"{key}-curves",
            title=f"Normalised rate against the value a: {about}",
        )
        if drawn
        else None,
        curves_caption=_curves_caption(table, shown=shown, drawn=len(drawn)),
    )


@dataclass(frozen=True, eq=False)
class Headline:
    """A finding of the first screen: its sentence, and the table and row that it is made of."""

    sentence: str
    table: FindingTable
    row: Row


@dataclass(frozen=True)
class Headlines:
    """The strongest findings, the positive controls, and how many further findings there are."""

    findings: Sequence[Headline]
    controls: Sequence[Headline]
    more: int


def headlines(
    tables: Sequence[FindingTable], placebos: frozenset[Finding], *, swept: Mapping[str, Attribute], most: int
) -> Headlines:
    """The findings with the largest |slope|, without those that a placebo shows too.

    The strongest finding of every classifier comes first. A label that restates the edited attribute is a positive
    control: it shows that the classifier perceives the edit.
    """
    several = len({table.adapter for table in tables}) > 1
    found = [
        Headline(
            (f"{table.adapter}: " if several else "") + words.finding(row, table.poles),
            table,
            row,
        )
        for table in tables
        for rows in (table.negative, table.positive)
        for row in rows.to_dict("records")
        if finding_key(row) not in placebos
    ]
    found.sort(key=lambda one: -abs(one.row["slope"]))
    controls = [one for one in found if attribute_of(one.table.attribute, swept).is_restated_by(str(one.row["label"]))]
    others = [one for one in found if one not in controls]
    first = list({one.table.adapter: one for one in reversed(others)}.values())
    first.sort(key=lambda one: -abs(one.row["slope"]))
    ordered = first + [one for one in others if one not in first]
    return Headlines(ordered[:most], controls[:most], max(0, len(ordered) - most))


def example(found: Sequence[Headline], curves: pd.DataFrame, album: Album | None, *, key: str) -> dict[str, Any] | None:
    """A curve and a face for the first screen: of the first finding that has both, or else a curve.

    Args:
        found: the findings, strongest first.
        curves: the whole frame.
        album: the photos to choose the face from.
        key: an id that is unique on the page.
    """
    shown = [one for headline in found if (one := _curve_and_face(headline, curves, album, key=key)) is not None]
    return next((one for one in shown if one["sweep"] is not None), shown[0] if shown else None)


def _curve_and_face(
    headline: Headline, curves: pd.DataFrame, album: Album | None, *, key: str
) -> dict[str, Any] | None:
    table, label = headline.table, str(headline.row["label"])
    own = _of(curves, table)
    own = own[(own["arm"] == table.arm) & (own["label"] == label) & own["z"].notna()]
    if own.empty:
        return None
    title = f"Normalised rate of {words.quoted(label)} against the value a: {table.adapter}, {table.poles.subject}"
    chart = charts.curve_chart(own, table.poles, labels=[label])
    return {
        "curve": charts.to_svg(chart, key=key, title=title, description=charts.curve_words(label, own)),
        "label": label,
        "adapter": table.adapter,
        "sweep": None if album is None else moving_sweep(album, table.attribute, table.adapter, label, table.poles),
    }


def stage_rows(provenance: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Name, state, planned, ok, failed and excluded of every stage in a run's record.

    Not of the one that writes this page, which has not ended.
    """
    rows = []
    for name, stage in provenance.get("stages", {}).items():
        if name != "report":
            counts = stage.get("counts", {})
            numbers = (count(counts.get(column)) for column in ("planned", "ok", "failed", "excluded"))
            rows.append((str(name), str(stage.get("state", "")), *numbers))
    return rows


def facts(
    provenance: Mapping[str, Any], *, without: Sequence[str] = ("stages", "validity", "tables", "query")
) -> list[tuple[str, list[tuple[str, str]]]]:
    """A run's record as groups of (name, value); what is nested deeper is named ``a.b``.

    ``without`` are parts that the page shows elsewhere.
    """
    groups: dict[str, list[tuple[str, str]]] = {"run": []}
    for name, value in provenance.items():
        if name in without:
            continue
        if isinstance(value, Mapping):
            groups[str(name)] = _flat(value)
        else:
            groups["run"].append((str(name), _plain_text(value)))
    return [(name, sorted(rows)) for name, rows in groups.items() if rows]


def _of(frame: pd.DataFrame, table: FindingTable) -> pd.DataFrame:
    return frame[(frame["adapter"] == table.adapter) & (frame["attribute"] == table.attribute)]


def _summary(table: FindingTable, tested: pd.DataFrame) -> str:
    if not table.findings:
        return words.nothing_found(tested, table.poles, max_p=table.max_p, min_slope=table.min_slope)
    chosen = f"{count(table.findings)} of {count(table.tested)} labels tested"
    verb = "moves" if table.findings == 1 else "move"
    return (
        f"{chosen} {verb} with {table.poles.subject} by the rule "
        f"{words.rule(max_p=table.max_p, min_slope=table.min_slope)}, on {count(table.photos)} photos."
    )


def _placebo_slopes(own: pd.DataFrame, arm: str) -> dict[str, dict[str, float]]:
    others = [str(other) for other in own["arm"].unique() if other != arm]
    of_arm = {other: own[own["arm"] == other] for other in others}
    return {other: dict(zip(rows["label"], rows["slope"], strict=True)) for other, rows in of_arm.items()}


def _to_draw(table: FindingTable, tested: pd.DataFrame, *, curved: set[str]) -> tuple[list[str], int]:
    """The picture's labels, and how many are seen at first: the strongest findings of either direction come first."""
    sides = [[str(label) for label in rows["label"] if label in curved] for rows in (table.negative, table.positive)]
    half = SHOWN // 2
    first = sides[0][: max(half, SHOWN - len(sides[1]))] + sides[1][: max(half, SHOWN - len(sides[0]))]
    others = [*sides[0], *sides[1]] if table.findings else []
    steepest = [str(label) for label in tested["label"] if label in curved]
    ranked = sorted(others, key=steepest.index) + steepest
    return list(dict.fromkeys([*first, *ranked]))[:MOST], len(first) or min(STEEPEST, len(steepest))


def _curves_caption(table: FindingTable, *, shown: int, drawn: int) -> str:
    which = "the strongest findings" if table.findings else "the steepest labels (none met the rule)"
    more = f" The {drawn} strongest labels can be chosen in the table, six at a time." if drawn > shown else ""
    return f"Normalised rate z against the value a, with 95 % bands: {which}. At a = 0 z is 1 by definition.{more}"


def _flat(mapping: Mapping[Any, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in mapping.items():
        if isinstance(value, Mapping):
            rows += _flat(value, f"{prefix}{name}.")
        else:
            rows.append((f"{prefix}{name}", _plain_text(value)))
    return rows


def _plain_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_plain_text, value))
    if value is None:
        return MISSING
    if isinstance(value, str) and Path(value).is_absolute():
        return Path(value).name  # where the run's own computer keeps its files is nobody else's business
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"
