"""The stages that only read: from a run's labels to its tables and its report. Nothing is asked or edited here."""

from typing import TYPE_CHECKING

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.files import digest, digest_of_files, write_text
from pipeline.run.folder import Run
from pipeline.run.tables import plain_rows, read_frame
from pipeline.stages.base import Audit

if TYPE_CHECKING:
    from pipeline.analyses.artifacts import Artifacts
    from pipeline.analyses.sections import Section

OPTIONAL = {"adapter_comparison", "subgroups", "subgroup_differences"}  # tables of the stage that a run may lack
OWN = ("slopes", "curves", "validity", "effectiveness", "photo_failures")  # tables that the page itself shows


def tables_stage(audit: Audit) -> str:
    """Slopes, curves, the other tables that are estimated with every run, and the validity card.

    Raises:
        RunError: no classifier has labelled the versions.
    """
    from pipeline.analyses.inputs import presence_thresholds

    options = audit.settings.statistics
    read = [audit.run.path(f"{name}.parquet") for name in ("photos", "faces", "counterfactuals", "answers", "labels")]
    card_options = audit.settings.validity
    presence = presence_thresholds(audit.run, options)
    fingerprint = digest(["tables", digest_of_files(*read), options.model_dump(), card_options.model_dump(), presence])
    if audit.run.is_done("tables", fingerprint):
        return fingerprint
    from pipeline.analyses.inputs import run_sweeps
    from pipeline.analyses.registry import stage_tables
    from pipeline.config.attributes import source_groups
    from pipeline.counterfactuals.validity import (
        effectiveness_curve,
        lightness_curve,
        photo_failures,
        validity_card,
    )
    from pipeline.report.card import check_results
    from pipeline.report.tables import RENDERERS, slope_tables

    run, swept = audit.run, audit.settings.sweep.chosen()
    with run.stage("tables", fingerprint) as counts, audit.watch("slopes", total=3) as advance:
        versions, faces = read_frame(run.path("counterfactuals.parquet")), read_frame(run.path("faces.parquet"))
        groups, mode = source_groups(faces), audit.settings.sweep.mode
        card = validity_card(versions, swept=swept, groups=groups, options=card_options, mode=mode)
        run.write_csv("validity", card)
        run.note(validity=plain_rows(card))
        run.write_csv("effectiveness", effectiveness_curve(versions, swept=swept))
        run.write_csv("lightness", lightness_curve(versions, groups=groups))
        run.write_csv("photo_failures", photo_failures(versions, swept=swept, options=card_options))
        advance(1)
        tables = stage_tables(run_sweeps(run.folder, options=options))
        advance(1)
        slopes = tables["slopes"]
        found = slope_tables(
            slopes,
            max_p=options.max_p,
            min_slope=options.min_slope,
            swept=audit.settings.sweep.chosen(),
            card=check_results(card.to_dict("records")),
        )
        for ending, format in (("csv", "csv"), ("json", "json"), ("md", "md"), ("tex", "latex"), ("html", "html")):
            write_text(run.path(f"tables/findings.{ending}"), RENDERERS[format](found))
        others = {name: each for name, each in run.record.artifacts.items() if not {*each.tables} & {*tables}}
        run.note(artifacts=others)
        for name in OPTIONAL - set(tables) - _left(run):
            run.csv_path(name).unlink(missing_ok=True)
        for name, table in tables.items():
            run.write_csv(name, table)
        advance(1)
        counts |= {"labels": len(slopes), "estimable": int(slopes["estimable"].sum())}
    return fingerprint


def report_stage(audit: Audit, upstream: str) -> None:
    """Write ``report.html`` from the tables."""
    from pipeline.analyses.artifacts import artifacts_of

    run, options = audit.run, audit.settings.statistics
    artifacts = artifacts_of(run)
    fingerprint = digest(["report", upstream, artifacts.fingerprint])
    if run.is_done("report", fingerprint) and run.path("report.html").exists():
        return
    import pandas as pd

    from pipeline.report.album import album_of, faces_of
    from pipeline.report.page import render

    versions = read_frame(run.path("counterfactuals.parquet"))
    made = versions.loc[versions["status"] == "ok", "photo"].nunique()
    with run.stage("report", fingerprint), audit.watch("report", total=made + 1) as advance:
        tables = {name: run.read_csv(name) for name in OWN}
        excluded = [
            frame.loc[frame["status"] != "ok", ["photo", "reason"]].drop_duplicates()
            for frame in (read_frame(run.path("photos.parquet")), read_frame(run.path("faces.parquet")), versions)
        ]
        effectiveness = tables["effectiveness"]
        sections = _sections(audit, artifacts)
        page = render(
            **{name: tables[name] for name in ("slopes", "curves")},
            effectiveness=effectiveness[effectiveness["arm"] == EDIT_ARM],
            card=tables["validity"],
            provenance=run.record.plain(),
            exclusions=pd.concat(excluded, ignore_index=True),
            album=album_of(
                run, versions=versions, slopes=tables["slopes"], failures=tables["photo_failures"], advance=advance
            ),
            max_p=options.max_p,
            min_slope=options.min_slope,
            swept=audit.settings.sweep.chosen(),
            sections=sections,
            pictures=faces_of(run, {photo for each in sections for photo in each.photos}, versions=versions),
        )
        write_text(run.path("report.html"), page)
        advance(1)


def _sections(audit: Audit, artifacts: "Artifacts") -> "list[Section]":
    """The sections of what analyses left in the run, and of the stage's own tables that not every run has."""
    from pipeline.analyses.registry import sections

    run = audit.run
    there = [name for name in OPTIONAL - _left(run) if run.csv_path(name).exists()]
    return sections(
        {name: run.read_csv(name) for name in there} | dict(artifacts.tables),
        about={"subgroups": {"by": audit.settings.statistics.by}, **artifacts.about},
        stale=artifacts.stale,
        swept=audit.settings.sweep.chosen(),
    )


def _left(run: Run) -> set[str]:
    """The tables that analyses left in the run."""
    return {name for entry in run.record.artifacts.values() for name in entry.tables}
