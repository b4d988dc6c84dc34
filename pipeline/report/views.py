"""What the page's templates print, made from the frames: one block for every adapter and attribute, and lists of facts.

Nothing here is HTML but the charts' SVG; escaping is the templates' work.
"""

import base64
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.report import charts, words
from pipeline.report.card import Light, banner
from pipeline.report.formats import MISSING, count, decimal, duration, interval, memory, p_value, plain
from pipeline.report.tables import Finding, FindingTable, cells, finding_key

Row = Mapping[Hashable, Any]
CURVES_PER_SIDE = 3
INTERVALS = 20
STEEPEST = 3
LABEL_COLUMNS = (
    "Label", "Slope", "95 % interval", "Bootstrap interval", "p", "q", "Permutation p", "OLS p", "Slope, |a| ≤ 1",
    "Slope of the rate", "Rate at a = 0", "Photos at a = 0",
)  # fmt: skip
MEDIA_TYPES = {b"\xff\xd8\xff": "image/jpeg", b"\x89PNG\r\n\x1a\n": "image/png"}


@dataclass(frozen=True)
class Step:
    """One version of an example: value a, encoded image, adapter -> label -> score 0-1 (None: not returned)."""

    value: float
    image: bytes
    scores: Mapping[str, Mapping[str, float | None]]


@dataclass(frozen=True)
class Example:
    """The sweep of one photo, lowest value first; images as small as they shall be on the page."""

    photo: str
    attribute: str
    steps: Sequence[Step]


@dataclass(frozen=True)
class Block:
    """All that the page shows of one adapter and attribute.

    ``steepest`` speaks of the steepest labels where none met the rule. ``sides`` holds heading, explanation and rows
    of cells, the last of which tells whether a placebo shows it too. Rows of ``labels`` end with the placebos' slopes.
    """

    key: str
    table: FindingTable
    banner: str | None
    summary: str
    steepest: Sequence[str]
    sides: Sequence[tuple[str, str, Sequence[tuple[Any, ...]]]]
    placebo_marks: bool
    columns: Sequence[str]
    labels: Sequence[Sequence[str]]
    left_out: Sequence[tuple[str, Sequence[str]]]
    intervals: str | None
    intervals_caption: str
    curves: str | None
    curves_caption: str


def block(
    table: FindingTable,
    slopes: pd.DataFrame,
    curves: pd.DataFrame,
    *,
    key: str,
    card: Sequence[Light],
    placebos: frozenset[Finding],
) -> Block:
    """The block of one table; ``slopes`` and ``curves`` are the whole frames, ``placebos`` what placebos show too."""
    poles = table.poles
    own = _of(slopes, table)
    edits = own[own["arm"] == table.arm]
    estimable = edits["estimable"].astype(bool)
    tested = edits[estimable].sort_values("slope", key=lambda column: -column.abs())
    others = [str(arm) for arm in own["arm"].unique() if arm != table.arm]
    found = pd.concat([table.negative, table.positive])
    sides = [
        (poles.low, f"rises {poles.with_low}; slope below 0", _side(table.negative, placebos)),
        (poles.high, f"rises {poles.with_high}; slope above 0", _side(table.positive, placebos)),
    ]
    rejected = edits[~estimable]
    about = f"{table.adapter}, {poles.subject}"
    drawn = _curve_labels(table, tested)
    return Block(
        key=key,
        table=table,
        banner=banner(card, table.attribute),
        summary=_summary(table, tested),
        steepest=[]
        if table.findings
        else [words.no_finding(row, poles) for row in tested[:STEEPEST].to_dict("records")],
        sides=sides,
        placebo_marks=any(cell[-1] for _, _, rows in sides for cell in rows),
        columns=[*LABEL_COLUMNS, *(f"Slope, placebo “{arm}”" for arm in others)],
        labels=_label_rows(tested, own, others),
        left_out=[(str(reason), sorted(map(str, rows["label"]))) for reason, rows in rejected.groupby("reason")],
        intervals=_intervals_svg(tested, found, poles, key=key, about=about),
        intervals_caption=_intervals_caption(len(tested)),
        curves=_curves_svg(_of(curves, table), drawn, poles, arm=table.arm, key=key, about=about),
        curves_caption=_curves_caption(table),
    )


def strongest(tables: Sequence[FindingTable], placebos: frozenset[Finding], *, most: int) -> list[str]:
    """The findings with the largest |slope| of all tables in one sentence each, without those a placebo shows too."""
    found = [
        (abs(row["slope"]), table, row)
        for table in tables
        for rows in (table.negative, table.positive)
        for row in rows.to_dict("records")
        if finding_key(row) not in placebos
    ]
    found.sort(key=lambda item: -item[0])
    several = len({table.adapter for table in tables}) > 1
    prefix = "{adapter}: " if several else ""
    return [prefix.format(adapter=table.adapter) + words.finding(row, table.poles) for _, table, row in found[:most]]


def stage_rows(provenance: Mapping[str, Any]) -> list[tuple[str, ...]]:
    """Name, state, planned, ok, failed, excluded, time and peak memory of every stage in a run's record."""
    rows = []
    # A record read from disk has its stages by name.
    for name, stage in sorted(provenance.get("stages", {}).items(), key=lambda item: item[1].get("finished") or "~"):
        counts = stage.get("counts", {})
        numbers = (count(counts.get(column)) for column in ("planned", "ok", "failed", "excluded"))
        resources = duration(stage.get("seconds")), memory(stage.get("peak_mib"))
        rows.append((str(name), str(stage.get("state", "")), *numbers, *resources))
    return rows


def facts(
    provenance: Mapping[str, Any], *, without: Sequence[str] = ("stages",)
) -> list[tuple[str, list[tuple[str, str]]]]:
    """A run's record as groups of (name, value); what is nested deeper is named ``a.b``."""
    groups: dict[str, list[tuple[str, str]]] = {"run": []}
    for name, value in provenance.items():
        if name in without:
            continue
        if isinstance(value, Mapping):
            groups[str(name)] = _flat(value)
        else:
            groups["run"].append((str(name), _plain_text(value)))
    return [(name, sorted(rows)) for name, rows in groups.items() if rows]


def strip(example: Example, *, race_pair: tuple[str, str]) -> dict[str, Any]:
    """One example for the page: images as data addresses, scores as rows of (adapter, label, cells).

    Raises:
        ValueError: an image is neither JPEG nor PNG.
    """
    poles = words.poles_of(example.attribute, race_pair=race_pair)
    names = dict.fromkeys(
        (adapter, label) for step in example.steps for adapter in step.scores for label in step.scores[adapter]
    )
    return {
        "photo": example.photo,
        "poles": poles,
        "steps": [
            {
                "value": plain(round(step.value, 2)),
                "source": _data_address(step.image, name=example.photo),
                "alt": f"{example.photo}, {poles.subject} at a = {plain(round(step.value, 2))}",
            }
            for step in example.steps
        ],
        "rows": [
            (adapter, label, [_score(step.scores.get(adapter, {}).get(label)) for step in example.steps])
            for adapter, label in names
        ],
    }


def _of(frame: pd.DataFrame, table: FindingTable) -> pd.DataFrame:
    return frame[(frame["adapter"] == table.adapter) & (frame["attribute"] == table.attribute)]


def _side(rows: pd.DataFrame, placebos: frozenset[Finding]) -> list[tuple[Any, ...]]:
    return [(*cells(row), finding_key(row) in placebos) for row in rows.to_dict("records")]


def _summary(table: FindingTable, tested: pd.DataFrame) -> str:
    if not table.findings:
        return words.nothing_found(tested, table.poles, max_p=table.max_p, min_slope=table.min_slope)
    chosen = f"{count(table.findings)} of {count(table.tested)} labels tested"
    verb = "moves" if table.findings == 1 else "move"
    return (
        f"{chosen} {verb} with {table.poles.subject} by the rule "
        f"{words.rule(max_p=table.max_p, min_slope=table.min_slope)}, on {count(table.photos)} photos."
    )


def _label_rows(tested: pd.DataFrame, own: pd.DataFrame, others: Sequence[str]) -> list[list[str]]:
    by_arm = {arm: own[own["arm"] == arm].set_index("label")["slope"].to_dict() for arm in others}
    rows = []
    for row in tested.to_dict("records"):
        label, slope, mark, bounds, p, q = cells(row)
        rows.append(
            [
                label, slope + mark, bounds, interval(row["bootstrap_low"], row["bootstrap_high"]), p, q,
                p_value(row["permutation_p"]), p_value(row["ols_p"]), decimal(row["inner_slope"]),
                decimal(row["rd_slope"]), decimal(row["y_c"]), count(row["count_centre"]),
                *(decimal(by_arm[arm].get(row["label"])) for arm in others),
            ]
        )  # fmt: skip
    return rows


def _curve_labels(table: FindingTable, tested: pd.DataFrame) -> list[str]:
    """The strongest findings of either direction; without findings the steepest labels."""
    if table.findings:
        return [str(label) for rows in (table.negative, table.positive) for label in rows["label"][:CURVES_PER_SIDE]]
    return [str(label) for label in tested["label"][:CURVES_PER_SIDE]]


def _intervals_caption(tested: int) -> str:
    which = f"the {INTERVALS} steepest of {count(tested)} labels" if tested > INTERVALS else "all labels tested"
    return f"Slopes of {which} with 95 % intervals; those that did not meet the rule are pale."


def _curves_caption(table: FindingTable) -> str:
    which = "the strongest findings" if table.findings else "the steepest labels (none met the rule)"
    return f"Normalised rate z against the value a, with 95 % bands: {which}. At a = 0 z is 1 by definition."


def _intervals_svg(
    tested: pd.DataFrame, found: pd.DataFrame, poles: words.Poles, *, key: str, about: str
) -> str | None:
    if tested.empty:
        return None
    shown = tested[:INTERVALS]
    spoken = "; ".join(f"{row['label']} {decimal(row['slope'], sign=True)}" for row in shown.to_dict("records"))
    return charts.to_svg(
        charts.interval_chart(shown, poles, highlighted=list(found["label"])),
        key=f"{key}-intervals",
        title=f"Slopes with 95 % intervals: {about}",
        description=spoken,
    )


def _curves_svg(
    curves: pd.DataFrame, drawn: Sequence[str], poles: words.Poles, *, arm: str, key: str, about: str
) -> str | None:
    rows = curves[(curves["arm"] == arm) & curves["z"].notna()]
    labels = [label for label in drawn if label in set(rows["label"])]
    if not labels:
        return None
    spoken = "; ".join(_spoken(label, rows.loc[rows["label"] == label]) for label in labels)
    return charts.to_svg(
        charts.curve_chart(rows, poles, labels=labels),
        key=f"{key}-curves",
        title=f"Normalised rate against the value a: {about}",
        description=spoken,
    )


def _spoken(label: str, curve: pd.DataFrame) -> str:
    first, *_, last = curve.sort_values("value")["z"].to_list()
    return f"{label}: z from {decimal(first, places=2)} to {decimal(last, places=2)}"


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
        return ", ".join(map(str, value))
    if value is None:
        return MISSING
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"


def _score(score: float | None) -> tuple[str, float] | None:
    return None if score is None else (decimal(score, places=2), round(100 * min(max(score, 0.0), 1.0)))


def _data_address(image: bytes, *, name: str) -> str:
    for start, media_type in MEDIA_TYPES.items():
        if image.startswith(start):
            return f"data:{media_type};base64,{base64.b64encode(image).decode('ascii')}"
    raise ValueError(f"the example image of {name!r} is neither JPEG nor PNG")
