"""The stages that only read: from a run's labels to its tables and its report. Nothing is asked or edited here."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.files import digest, digest_of_files, write_text
from pipeline.run.tables import ANSWERS, LABELS, plain_rows, read_frame
from pipeline.stages.base import Audit

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.analyses.artifacts import Additions
    from pipeline.report.extras import Extra

SUBGROUPS = ("subgroups", "subgroup_differences")
COMPARED = "adapter_comparison"


def tables_stage(audit: Audit, *, presence: Mapping[str, float]) -> str:
    """Slopes, curves and the validity card from the tables of labels and versions.

    Args:
        presence: adapter -> the score from which a label is present.
    """
    options = audit.settings.statistics
    read = [audit.run.path(f"{name}.parquet") for name in ("photos", "faces", "counterfactuals", "answers", "labels")]
    card_options = audit.settings.validity
    fingerprint = digest(
        ["tables", digest_of_files(*read), options.model_dump(), card_options.model_dump(), dict(presence)]
    )
    if audit.run.is_done("tables", fingerprint):
        return fingerprint
    import pandas as pd

    from pipeline.analyses.comparison import adapters_compared
    from pipeline.analyses.groups import clusters_of, groups_of
    from pipeline.config.attributes import source_groups
    from pipeline.counterfactuals.validity import (
        effectiveness_curve,
        lightness_curve,
        photo_failures,
        validity_card,
    )
    from pipeline.report.card import check_results
    from pipeline.report.tables import RENDERERS, slope_tables
    from pipeline.statistics import (
        CURVE_COLUMNS,
        curve_frame,
        slope_frame,
        subgroup_frames,
        subgroup_slopes,
        sweeps_of,
        with_placebos,
    )

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
        labels = read_frame(run.path("labels.parquet"), columns=list(LABELS))
        answers = read_frame(run.path("answers.parquet"), columns=list(ANSWERS))
        photos = read_frame(run.path("photos.parquet"))
        clusters = clusters_of(photos, options.cluster)
        sweeps = sweeps_of(labels, answers, presence=presence, confidence=options.confidence)
        drawn: dict[str, Any] = {"resamples": options.resamples, "seed": options.seed}
        shared: dict[str, Any] = {"min_count": options.min_count, "clusters": clusters}
        slopes = slope_frame(sweeps, family=options.family, **drawn, **shared)
        slopes = with_placebos(slopes, sweeps, family=options.family, **shared)
        found = slope_tables(
            slopes,
            max_p=options.max_p,
            min_slope=options.min_slope,
            swept=audit.settings.sweep.chosen(),
            card=check_results(card.to_dict("records")),
        )
        run.write_csv("slopes", slopes)
        for ending, format in (("csv", "csv"), ("json", "json"), ("md", "md"), ("tex", "latex"), ("html", "html")):
            write_text(run.path(f"tables/findings.{ending}"), RENDERERS[format](found))
        advance(1)
        for name in SUBGROUPS if options.by is None else ():
            run.csv_path(name).unlink(missing_ok=True)
        if options.by is not None:
            groups = groups_of(photos, options.by, faces=faces)
            by_group = [subgroup_slopes(each, groups, **drawn, **shared) for each in sweeps]
            for name, frame in zip(SUBGROUPS, subgroup_frames(by_group, family=options.family), strict=True):
                run.write_csv(name, frame)
        run.write_csv(COMPARED, adapters_compared(sweeps, options=options, clusters=clusters))
        parts = [curve_frame(each, clusters=clusters) for each in sweeps] or [pd.DataFrame(columns=list(CURVE_COLUMNS))]
        run.write_csv("curves", pd.concat(parts, ignore_index=True))
        advance(1)
        counts |= {"labels": len(slopes), "estimable": int(slopes["estimable"].sum())}
    return fingerprint


def report_stage(audit: Audit, upstream: str) -> None:
    """Write ``report.html`` from the tables."""
    from pipeline.analyses.artifacts import additions_of

    run, options = audit.run, audit.settings.statistics
    added = additions_of(run)
    fingerprint = digest(["report", upstream, added.fingerprint])
    if run.is_done("report", fingerprint) and run.path("report.html").exists():
        return
    import pandas as pd

    from pipeline.report.album import album_of
    from pipeline.report.page import render

    versions = read_frame(run.path("counterfactuals.parquet"))
    made = versions.loc[versions["status"] == "ok", "photo"].nunique()
    with run.stage("report", fingerprint), audit.watch("report", total=made + 1) as advance:
        tables = {
            name: run.read_csv(name) for name in ("slopes", "curves", "validity", "effectiveness", "photo_failures")
        }
        excluded = [
            frame.loc[frame["status"] != "ok", ["photo", "reason"]].drop_duplicates()
            for frame in (read_frame(run.path("photos.parquet")), read_frame(run.path("faces.parquet")), versions)
        ]
        effectiveness = tables["effectiveness"]
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
            extras=_extras(audit, added, card=tables["validity"], versions=versions),
        )
        write_text(run.path("report.html"), page)
        advance(1)


def _extras(audit: Audit, added: "Additions", *, card: "pd.DataFrame", versions: "pd.DataFrame") -> "list[Extra]":
    """The report's sections of what the commands added, and of the stages' own tables that not every run has."""
    from pipeline.report.album import faces_of
    from pipeline.report.card import check_results
    from pipeline.report.extras.every import every

    run = audit.run
    tables = {name: run.read_csv(name) for name in (*SUBGROUPS, COMPARED) if run.csv_path(name).exists()}
    tables |= added.tables
    shown = tables["local_exemplars"]["photo"] if "local_exemplars" in tables else ()
    return every(
        tables,
        about=added.about,
        stale=added.stale,
        card=check_results(card.to_dict("records")),
        by=audit.settings.statistics.by,
        swept=audit.settings.sweep.chosen(),
        pictures=faces_of(audit.run, shown, versions=versions),
    )
