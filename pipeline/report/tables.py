"""Slope tables in the layout of Joo & Kärkkäinen 2020: one per classifier and attribute, both directions side by side.

Findings are selected by ``statistics.findings`` and rendered by ``markup``. The page has its own template.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, ClassVar

import pandas as pd

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, Attribute
from pipeline.report.card import CheckResult, banner
from pipeline.report.markup import LATEX_NEEDS, Grid, as_html, as_json, as_latex, as_markdown, as_text
from pipeline.report.words import Poles, poles_of, rule
from pipeline.run.formats import STAR_WORDS, count, decimal, interval, p_value, stars
from pipeline.run.tables import frame_to_csv
from pipeline.run.text import visible
from pipeline.statistics.slopes import SLOPE_COLUMNS, findings
from pipeline.statistics.truncation import COLUMN as TRUNCATION

HEADINGS = ("Label", "Slope", "95 % interval", "p", "q")
NET = "Edit − placebo"
NUMBERS = (
    "slope", "slope_low", "slope_high", "p", "q", "permutation_p", "ols_p", "rd_slope", "rd_low", "rd_high",
    "bootstrap_low", "bootstrap_high", "inner_slope", "inner_low", "inner_high", "inner_p", "photos", "count_centre",
    "y_c",
)  # fmt: skip
Finding = tuple[str, str, str, int]


@dataclass(frozen=True, eq=False)
class FindingTable:
    """The findings of one adapter and attribute, and how they were selected.

    Attributes:
        negative: findings with a slope below 0, as rows of the slopes frame, largest |slope| first.
        positive: findings with a slope above 0.
        tested: number of labels with a slope.
        photos: the largest number of photos behind a slope.
        not_estimable: reason -> number of labels without a slope.
        family: the family of tests over which q is adjusted.
        warning: the validity card's warning, at the end of the note.
        placebos: whether a finding must exceed placebos, too.
    """

    arm: ClassVar[str] = EDIT_ARM
    adapter: str
    attribute: str
    poles: Poles
    max_p: float
    min_slope: float
    negative: pd.DataFrame
    positive: pd.DataFrame
    tested: int
    photos: int
    not_estimable: Mapping[str, int]
    family: str = "all tested labels"
    warning: str = ""
    placebos: bool = False

    @property
    def title(self) -> str:
        """The title of the table, in plain text."""
        return f"Labels of {visible(self.adapter)} that change with {self.poles.subject}"

    @property
    def note(self) -> str:
        """Thresholds, numbers of tested labels and photos, and the meaning of the columns, in plain text."""
        left_out = ", ".join(f"{count(labels)} {reason}" for reason, labels in self.not_estimable.items())
        return (
            f"Listed: {self.rule}{self._beyond}; "
            f"{count(self.findings)} of {count(self.tested)} tested labels, {count(self.photos)} photos. "
            f"Not estimable: {left_out or 'none'}. "
            f"Slope: regression of the normalised rate z on a. p: t test over photos. "
            f"q: Benjamini–Hochberg over {visible(self.family)}. {STAR_WORDS}.{self._bent}"
            f"{f' {self.warning}' if self.warning else ''}"
        )

    @property
    def rule(self) -> str:
        """The rule for findings, in words."""
        return rule(max_p=self.max_p, min_slope=self.min_slope)

    @property
    def _beyond(self) -> str:
        if not self.placebos:
            return ""
        return f", and the 95 % interval of {NET.lower()} excludes 0 (paired by photo, smallest over placebos)"

    @property
    def _bent(self) -> str:
        """The findings that scores below the classifier's cut-off could cause alone (``statistics.truncation``)."""
        bent = [visible(row["label"]) for _, row in self.rows() if row.get(TRUNCATION, 0.0) >= abs(row["slope"])]
        return f" Cut-off scores alone could cause the slope of: {', '.join(bent)}." if bent else ""

    @property
    def findings(self) -> int:
        """The number of findings."""
        return len(self.negative) + len(self.positive)

    def rows(self) -> Iterator[tuple[str, dict[Any, Any]]]:
        """Yield the heading of the direction and the row of the slopes frame of every finding."""
        for heading, rows in ((self.poles.low, self.negative), (self.poles.high, self.positive)):
            yield from ((heading, row) for row in rows.to_dict("records"))


def slope_tables(
    frame: pd.DataFrame,
    *,
    max_p: float = 0.001,
    min_slope: float = 0.03,
    swept: Mapping[str, Attribute] = ATTRIBUTES,
    card: Sequence[CheckResult] = (),
) -> tuple[FindingTable, ...]:
    """Return a table for every adapter and edited attribute, in the order of the slopes frame.

    Args:
        frame: the table of ``statistics.slopes_of``.
        max_p, min_slope: a finding has p < ``max_p`` and |slope| > ``min_slope``.
        swept: attributes of the sweeps by name.
        card: the validity card, for warnings.
    """
    rows = frame[frame["arm"] == EDIT_ARM]
    called = findings(rows, max_p=max_p, min_slope=min_slope)
    tables = []
    for (adapter, attribute), group in rows.groupby(["adapter", "attribute"], sort=False):
        own = called[(called["adapter"] == adapter) & (called["attribute"] == attribute)]
        estimable = group["estimable"].astype(bool)
        tables.append(
            FindingTable(
                adapter=str(adapter),
                attribute=str(attribute),
                poles=poles_of(str(attribute), swept),
                max_p=max_p,
                min_slope=min_slope,
                negative=own[own["direction"] < 0],
                positive=own[own["direction"] > 0],
                tested=int(estimable.sum()),
                photos=int(group["photos"].max()),
                not_estimable={str(k): int(n) for k, n in group.loc[~estimable, "reason"].value_counts().items()},
                family=_family(group),
                placebos=has_placebos(group),
                warning=(banner(card, str(attribute)) or "") if card else "",
            )
        )
    return tuple(tables)


def placebo_findings(frame: pd.DataFrame, *, max_p: float = 0.001, min_slope: float = 0.03) -> frozenset[Finding]:
    """Return the findings of placebos by the same rule; the same finding of the edit does not count."""
    called = findings(frame[frame["arm"] != EDIT_ARM], max_p=max_p, min_slope=min_slope)
    return frozenset(finding_key(row) for row in called.to_dict("records"))


def finding_key(row: Mapping[Any, Any]) -> Finding:
    """Return adapter, attribute, label and direction (-1 or 1) of a row of the slopes frame."""
    return str(row["adapter"]), str(row["attribute"]), str(row["label"]), 1 if row["slope"] > 0 else -1


def to_csv(tables: Sequence[FindingTable]) -> str:
    """Render one line per finding, numbers in full; the direction is a column."""
    columns = ["adapter", "attribute", "arm", "direction", "label", *NUMBERS[:5], "stars", *NUMBERS[5:]]
    columns += ["family", "tested", *_of_placebos(tables)]
    lines = [
        {**row, "direction": heading.lower(), "stars": stars(row["q"])}
        for table in tables
        for heading, row in table.rows()
    ]
    return frame_to_csv(pd.DataFrame(lines, columns=columns))


def to_json(tables: Sequence[FindingTable]) -> str:
    """Render as JSON: labels unchanged, numbers in full, null for missing and infinite numbers."""
    stated = ("adapter", "attribute", "arm", "max_p", "min_slope", "tested", "photos")
    printed = [
        {name: getattr(table, name) for name in stated}
        | {
            "not_estimable": dict(table.not_estimable),
            "findings": [
                {"label": str(row["label"]), "direction": heading.lower(), "stars": stars(row["q"])}
                | {name: as_json(row[name]) for name in (*NUMBERS, *_of_placebos([table]))}
                for heading, row in table.rows()
            ],
        }
        for table in tables
    ]
    return json.dumps(printed, indent=2, allow_nan=False)


def _printer(layout: Callable[[Grid], str]) -> Callable[[Sequence[FindingTable]], str]:
    """Return a renderer of tables one after the other, the directions side by side."""
    return lambda tables: "\n".join(layout(_grid(table)) for table in tables)


def to_latex(tables: Sequence[FindingTable]) -> str:
    """Render as ``table*`` floats with booktabs rules, the directions side by side.

    With placebos these would be wider than a two-column page, so the directions follow each other.
    """
    return "\n".join([LATEX_NEEDS, *(as_latex(_grid(table, side_by_side=not table.placebos)) for table in tables)])


def _family(rows: pd.DataFrame) -> str:
    """Return ``all 40 tested labels`` or ``the 12 tested labels of adapter opencv, attribute gender``."""
    name, tested = str(rows["family"].iloc[0]), count(rows["tested"].iloc[0])
    declared = name.removesuffix(f"arm {EDIT_ARM}").rstrip(", ")
    return f"the {tested} tested labels of {declared}" if declared else f"all {tested} tested labels"


def _of_placebos(tables: Sequence[FindingTable]) -> list[str]:
    """Return the columns about placebos (``statistics.placebos``)."""
    known = {*SLOPE_COLUMNS, "direction", "placebo", "exceeds_placebos"}
    return [str(name) for name in (tables[0].negative.columns if tables else ()) if name not in known]


def has_placebos(rows: pd.DataFrame) -> bool:
    """Return whether rows of the slopes frame are compared with placebos."""
    return "net_slope" in rows and bool(rows["net_slope"].notna().any())


def _grid(table: FindingTable, *, side_by_side: bool = True) -> Grid:
    """Lay out directions side by side, as in the published tables, or one after the other, steepest labels first."""
    headings = (*HEADINGS, *([NET] if table.placebos else []))

    def cells(row: Mapping[Any, Any]) -> list[str]:
        bounds = interval(row["slope_low"], row["slope_high"])
        slope = decimal(row["slope"]) + stars(row["q"])
        net = f"{decimal(row['net_slope'])} ({interval(row['net_low'], row['net_high'])})" if table.placebos else ""
        return [str(row["label"]), slope, bounds, p_value(row["p"]), p_value(row["q"]), net][: len(headings)]

    sides = [[cells(row) for row in rows.to_dict("records")] for rows in (table.negative, table.positive)]
    numbers = "r" * (len(headings) - 1)
    if side_by_side:
        align, rows = f"l{numbers}" * 2, [a + b for a, b in zip_longest(*sides, fillvalue=[""] * len(headings))]
        names = f"{table.poles.low} (slope < 0)", f"{table.poles.high} (slope > 0)"
        groups = [(name, len(headings)) for name in names]
        headings *= 2
    else:
        towards = table.poles.short_low, table.poles.short_high
        align, groups = f"ll{numbers}", []
        rows = [[first, pole, *rest] for pole, lines in zip(towards, sides, strict=True) for first, *rest in lines]
        headings = (headings[0], "Rises towards", *headings[1:])
    return Grid(
        title=table.title,
        note=table.note,
        headings=headings,
        align=align,
        rows=rows,
        groups=groups,
        key=f"slopes-{slug(table.adapter)}-{slug(table.attribute)}",
        nothing="No label meets the rule." if table.tested else "No label could be tested.",
    )


def slug(name: str) -> str:
    """Return a name in lower-case letters, digits and hyphens, for files and references."""
    return re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or "unnamed"


RENDERERS: Mapping[str, Callable[[Sequence[FindingTable]], str]] = {
    "csv": to_csv, "json": to_json, "latex": to_latex,
    "md": _printer(as_markdown), "html": _printer(as_html), "text": _printer(as_text),
}  # fmt: skip
