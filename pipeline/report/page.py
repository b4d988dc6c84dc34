"""The report: one HTML file that works offline. Its layout and scripts are in ``templates``.

The content security policy holds the hashes of the one style sheet and the one script, so ``style`` attributes and
event handlers on elements have no effect.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pandas as pd
from markupsafe import Markup

from pipeline.analyses.sections import Section, listed
from pipeline.config.attributes import AT, ATTRIBUTES, EDIT_ARM, Attribute
from pipeline.report import views
from pipeline.report.card import CheckResult, card_counts, check_results, matrix, short_banner
from pipeline.report.change_maps import change_maps
from pipeline.report.charts import effectiveness_chart
from pipeline.report.embedding import source_hash, to_svg
from pipeline.report.markup import TEMPLATES, environment
from pipeline.report.tables import FindingTable, placebo_findings, slope_tables
from pipeline.report.viewer import Album, viewer_view
from pipeline.report.words import account_words, poles_of, rule
from pipeline.run.formats import MISSING, count, pluralise
from pipeline.run.record import RunRecord, Stage

HEADLINES = 5
STAGE_COUNTS = ("planned", "ok", "failed", "excluded")
SHOWN_ELSEWHERE = ("stages", "validity", "tables", "query")  # parts of the record
STYLES = ("base", "first", "labels", "viewer", "print")
SCRIPTS = ("scripts/labels.js", "scripts/viewer.js")
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src {script}; style-src {style}; img-src data:; base-uri 'none'; form-action 'none'"
)


def render(
    *,
    slopes: pd.DataFrame,
    curves: pd.DataFrame,
    card: pd.DataFrame,
    record: RunRecord,
    exclusions: pd.DataFrame,
    effectiveness: pd.DataFrame | None = None,
    album: Album | None = None,
    sections: Sequence[Section] = (),
    pictures: Mapping[str, bytes] = MappingProxyType({}),
    changes: pd.DataFrame | None = None,
    max_p: float = 0.001,
    min_slope: float = 0.03,
    swept: Mapping[str, Attribute] = ATTRIBUTES,
) -> str:
    """Return the whole page as text, to be written in UTF-8.

    Args:
        slopes: the table of ``statistics.slopes_of``; arms other than the edit are placebos.
        curves: the table of ``statistics.curves``, at least for the findings. A label without a curve is not drawn.
        card: the validity card, one row per check: name, attribute, figure, unit, threshold, passed, words.
        record: the run record. Its times and durations are not shown.
        exclusions: columns photo and reason.
        effectiveness: columns attribute, value, mean, low, high: the judge's probability along a.
        album: the sweeps of the viewer. Their images make up most of the file.
        sections: the sections of analyses.
        pictures: photo -> a small WebP image of its face, for these sections.
        changes: the table of checks. Its mean changes of L* are drawn next to the checks.
        max_p, min_slope: the rule for findings.
        swept: attributes of the sweeps by name.
    """
    tables = slope_tables(slopes, max_p=max_p, min_slope=min_slope, swept=swept)
    checks = check_results(card.to_dict("records"))
    placebos = placebo_findings(slopes, max_p=max_p, min_slope=min_slope)
    attributes = list(dict.fromkeys(table.attribute for table in tables))
    blocks = [
        views.block(table, slopes, curves, key=f"s{number}", card=checks, placebos=placebos)
        for number, table in enumerate(tables, start=1)
    ]
    found = views.headlines(tables, placebos, swept=swept, most=HEADLINES)
    columns = _card_order(checks, attributes)
    style = "\n".join(_source(f"styles/{name}.css") for name in STYLES)
    # Each script in a function, so that they share no names.
    script = "\n".join(f'(() => {{\n"use strict";\n{source}}})();' for source in map(_source, SCRIPTS))
    template = environment().get_template("report.html.j2")
    return template.render(
        policy=CONTENT_SECURITY_POLICY.format(script=source_hash(script), style=source_hash(style)),
        style=Markup(style),  # noqa: S704 - our own files
        script=Markup(script),  # noqa: S704 - our own files
        title=_title(tables),
        facts=_first_facts(tables, record, controls=len(found.controls)),
        card=[(name, [result for result in checks if result.attribute == name]) for name in columns],
        card_rows=matrix(checks, columns),
        subjects={name: poles_of(name, swept).subject for name in attributes},
        card_counts=card_counts(checks),
        effects=_effects(effectiveness, swept=swept),
        maps={} if changes is None else change_maps(changes),
        headlines=found,
        example=views.example(found.findings or found.controls, curves, album, key="first"),
        banners=list(dict.fromkeys(block.banner for block in blocks if block.banner)),
        short_banner=short_banner,
        nothing=[f"{block.table.adapter}: {block.summary}" for block in blocks],
        placebo_arms=bool((slopes["arm"] != EDIT_ARM).any()),
        rule=rule(max_p=max_p, min_slope=min_slope),
        adapters=[
            (adapter, [block for block in blocks if block.table.adapter == adapter])
            for adapter in dict.fromkeys(table.adapter for table in tables)
        ],
        viewer=None if album is None else viewer_view(album, swept=swept),
        sections=views.section_views(sections, card=checks, pictures=pictures),
        exclusions=_by_reason(exclusions),
        excluded=count(len(exclusions)),
        stages=_stage_rows(record.stages),
        accounts=[(name, ", ".join(account_words(facts))) for name, facts in record.plain()["query"].items()],
        provenance=_recorded(record.without_times()),
        version=record.packages.get("counterslope", ""),
        commit=record.git_commit or "",
    )


def _source(name: str) -> str:
    return TEMPLATES.get_source(environment(), name)[0]


def _title(tables: Sequence[FindingTable]) -> str:
    adapters = _distinct([table.adapter for table in tables])
    subjects = _distinct([table.poles.subject for table in tables if AT not in table.attribute])
    return f"How labels of {adapters} change with {subjects}" if tables else "An audit without labels"


def _distinct(names: Sequence[str]) -> str:
    return listed(list(dict.fromkeys(names)), most=len(names))


def _first_facts(tables: Sequence[FindingTable], record: RunRecord, *, controls: int) -> list[tuple[str, str]]:
    given = record.stages["photos"].counts.get("planned") if "photos" in record.stages else None
    steps = {} if record.settings is None else record.settings.sweep.steps
    photos = max((table.photos for table in tables), default=0)
    changed = [
        table.poles.subject
        + (f", {steps[name]} values of a" if (name := table.attribute.partition(AT)[0]) in steps else "")
        for table in tables
    ]
    counted = f", of which {pluralise(controls, 'positive control')}" if controls else ""
    return [
        ("Photos", f"{count(photos)} analysed" + (f" of {count(given)} given" if given is not None else "")),
        ("Classifiers", _distinct([table.adapter for table in tables])),
        ("Attributes", "; ".join(dict.fromkeys(changed))),
        ("Labels tested", count(sum(table.tested for table in tables))),
        ("Findings", count(sum(table.findings for table in tables)) + counted),
    ]


def _card_order(checks: Sequence[CheckResult], attributes: Sequence[str]) -> list[str]:
    """Return the attributes of checks: those of the tables first, "" for the whole run last."""
    present = list(dict.fromkeys(result.attribute for result in checks))
    others = [name for name in present if name and name not in attributes]
    return [name for name in (*attributes, *others, "") if name in present]


def _effects(effectiveness: pd.DataFrame | None, *, swept: Mapping[str, Attribute]) -> dict[str, str]:
    if effectiveness is None:
        return {}
    drawings = {}
    for number, (attribute, rows) in enumerate(effectiveness.groupby("attribute", sort=False), start=1):
        poles = poles_of(str(attribute), swept)
        first, last = rows.sort_values("value")["mean"].iloc[[0, -1]]
        drawings[str(attribute)] = to_svg(
            effectiveness_chart(rows, poles),
            key=f"effect-{number}",
            title=f"Effect of the edit: the judge's probability along {poles.subject}",
            description=f"The mean probability of {poles.short_high} changes from {first:.2f} to {last:.2f}.",
        )
    return drawings


def _by_reason(exclusions: pd.DataFrame) -> list[tuple[str, list[str]]]:
    groups = exclusions.groupby("reason", sort=True)["photo"]
    reasons = [(str(reason), sorted(map(str, photos))) for reason, photos in groups]
    return sorted(reasons, key=lambda item: -len(item[1]))


def _stage_rows(stages: Mapping[str, Stage]) -> list[tuple[str, ...]]:
    """Return name, state and counts of every stage, except the one that is writing this page."""
    return [
        (name, stage.state, *(count(stage.counts.get(column)) for column in STAGE_COUNTS))
        for name, stage in stages.items()
        if name != "report"
    ]


def _recorded(record: Mapping[str, Any]) -> list[tuple[str, list[tuple[str, str]]]]:
    """Return a run's record as groups of (name, value), with deeper levels joined as ``a.b``."""
    groups: dict[str, list[tuple[str, str]]] = {"run": []}
    for name, value in record.items():
        if name in SHOWN_ELSEWHERE:
            continue
        if isinstance(value, Mapping):
            groups[str(name)] = _flat(value)
        else:
            groups["run"].append((str(name), _words(value)))
    return [(name, sorted(rows)) for name, rows in groups.items() if rows]


def _flat(mapping: Mapping[Any, Any], prefix: str = "") -> list[tuple[str, str]]:
    rows: list[tuple[str, str]] = []
    for name, value in mapping.items():
        nested = isinstance(value, Mapping)
        rows += _flat(value, f"{prefix}{name}.") if nested else [(f"{prefix}{name}", _words(value))]
    return rows


def _words(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_words, value))
    if value is None:
        return MISSING
    if isinstance(value, str) and Path(value).is_absolute():
        return Path(value).name  # the folders of the user's computer are private
    return str(value) if not isinstance(value, bool) else "yes" if value else "no"
