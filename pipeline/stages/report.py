"""The last stage: write the report from the tables (``report.html``)."""

from collections.abc import Collection
from typing import TYPE_CHECKING

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.files import digest, write_text
from pipeline.run.folder import Run
from pipeline.run.tables import read_frame
from pipeline.stages.base import Audit
from pipeline.stages.checks import pictures_of
from pipeline.stages.tables import OPTIONAL, artifact_tables

if TYPE_CHECKING:
    from pipeline.analyses.artifacts import Artifacts
    from pipeline.analyses.sections import Section

PAGE = "report.html"
SHOWN = ("slopes", "curves", "validity", "effectiveness", "photo_failures")  # tables that the page itself shows

VERSION_COLUMNS = ("attribute", "arm", "photo", "step", "value", "status", "reason", "file", "sha256", "mask")


def report_stage(audit: Audit, upstream: str) -> None:
    """Write ``report.html`` from the tables; ``upstream`` is their fingerprint."""
    from pipeline.analyses.artifacts import artifacts_of

    run, options = audit.run, audit.settings.statistics
    artifacts = artifacts_of(run)
    fingerprint = digest(["report", upstream, artifacts.fingerprint])
    if run.is_done("report", fingerprint) and run.path(PAGE).exists():
        return
    import pandas as pd

    from pipeline.report.album import album_of, faces_of
    from pipeline.report.page import render

    versions = read_frame(run.path("counterfactuals.parquet"), columns=list(VERSION_COLUMNS))
    photos, faces = read_frame(run.path("photos.parquet")), read_frame(run.path("faces.parquet"))
    left_out = [
        table.loc[table["status"] != "ok", ["photo", "reason"]].drop_duplicates() for table in (photos, faces, versions)
    ]
    made = versions.loc[versions["status"] == "ok", "photo"].nunique()
    with run.stage("report", fingerprint, outputs=[PAGE]), audit.watch("report", total=made + 1) as advance:
        tables = {name: run.read_csv(name) for name in SHOWN}
        slopes, effectiveness = tables["slopes"], tables["effectiveness"]
        sections = _sections(audit, artifacts)
        shown = {photo for each in sections for photo in each.photos}
        page = render(
            slopes=slopes,
            curves=tables["curves"],
            effectiveness=effectiveness[effectiveness["arm"] == EDIT_ARM],
            card=tables["validity"],
            record=run.record,
            exclusions=pd.concat(left_out, ignore_index=True),
            album=album_of(run, versions=versions, slopes=slopes, failures=tables["photo_failures"], advance=advance),
            max_p=options.max_p,
            min_slope=options.min_slope,
            swept=audit.settings.sweep.chosen(),
            sections=sections,
            changes=pictures_of(run),
            pictures=faces_of(run, shown, versions=versions) | _kept_pictures(run, shown),
        )
        write_text(run.path(PAGE), page)
        advance(1)


def _kept_pictures(run: Run, names: Collection[str]) -> dict[str, bytes]:
    """Read pictures that analyses stored in the run's folder, such as heat maps, by file name."""
    files = {name: run.path(name) for name in names if name.endswith(".webp")}
    return {name: file.read_bytes() for name, file in files.items() if file.is_file()}


def _sections(audit: Audit, artifacts: "Artifacts") -> "list[Section]":
    """Make the sections of stored analyses and of optional tables."""
    from pipeline.analyses.registry import sections

    run = audit.run
    present = [name for name in OPTIONAL - artifact_tables(run) if run.csv_path(name).exists()]
    return sections(
        {name: run.read_csv(name) for name in present} | dict(artifacts.tables),
        about={"subgroups": {"by": audit.settings.statistics.by}, **artifacts.about},
        stale=artifacts.stale,
        swept=audit.settings.sweep.chosen(),
    )
