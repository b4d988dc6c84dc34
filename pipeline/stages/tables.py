"""The fifth stage: slopes, curves, the validity card and the other tables of a run (``tables/``)."""

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.files import digest, digest_of_files, write_text
from pipeline.run.folder import Run
from pipeline.run.tables import plain_rows, read_frame
from pipeline.stages.base import Audit, check_outputs
from pipeline.stages.checks import TABLE, pictures_of

INPUTS = ("photos", "faces", "counterfactuals", "query")  # stages whose files are read
READ = tuple(f"{name}.parquet" for name in ("photos", "faces", "counterfactuals", "answers", "labels"))
IF_THERE = ("review.jsonl", TABLE)
OPTIONAL = {
    "adapter_comparison",
    "interactions",
    "edit_size",
    "edit_balance",
    "subgroups",
    "subgroup_differences",
}  # tables that not every run has
FINDINGS = {"csv": "csv", "json": "json", "md": "md", "tex": "latex", "html": "html"}  # file ending -> format


def tables_stage(audit: Audit) -> str:
    """Estimate from the labels and make the validity card; return the fingerprint of the stage.

    Raises:
        RunError: no classifier has labelled the versions, or a table is missing or damaged.
    """
    from pipeline.analyses.inputs import presence_thresholds

    check_outputs(audit.run, *INPUTS)
    run, options, checks = audit.run, audit.settings.statistics, audit.settings.validity
    read = digest_of_files(*map(run.path, READ), *(path for path in map(run.path, IF_THERE) if path.is_file()))
    thresholds = presence_thresholds(run, options)
    fingerprint = digest(["tables", read, options.model_dump(), checks.model_dump(), thresholds])
    if run.is_done("tables", fingerprint):
        return fingerprint
    import pandas as pd

    from pipeline.analyses.inputs import run_sweeps
    from pipeline.analyses.registry import stage_tables
    from pipeline.config.attributes import source_groups
    from pipeline.counterfactuals.validity import effectiveness_curve, lightness_curve, photo_failures, validity_card
    from pipeline.report.card import check_results
    from pipeline.report.tables import RENDERERS, slope_tables
    from pipeline.review.answers import read_answers, read_faces
    from pipeline.review.measures import review_checks

    sweep, swept = audit.settings.sweep, audit.settings.sweep.chosen()
    outputs: list[str] = []
    with run.stage("tables", fingerprint, outputs=outputs) as counts, audit.watch("tables", total=3) as advance:
        versions, faces = read_frame(run.path("counterfactuals.parquet")), read_faces(run)
        groups = source_groups(faces)
        card = validity_card(
            versions, swept=swept, groups=groups, options=checks, mode=sweep.mode, pictures=pictures_of(run)
        )
        seen = review_checks(read_answers(run.folder))
        card = pd.concat([card, pd.DataFrame(seen, columns=card.columns)], ignore_index=True) if seen else card
        tables = {
            "validity": card,
            "effectiveness": effectiveness_curve(versions, swept=swept),
            "lightness": lightness_curve(versions, groups=groups),
            "photo_failures": photo_failures(versions, swept=swept, options=checks),
        }
        run.note(validity=plain_rows(card))
        advance(1)
        tables |= stage_tables(run_sweeps(run.folder, options=options), audit.watch)
        advance(1)
        # Tables of the same name stored by an analysis are replaced.
        run.note(artifacts={n: one for n, one in run.record.artifacts.items() if not {*one.tables} & {*tables}})
        for name in OPTIONAL - set(tables) - artifact_tables(run):
            run.csv_path(name).unlink(missing_ok=True)
        for name, table in tables.items():
            run.write_csv(name, table)
            outputs.append(f"tables/{name}.csv")
        slopes, printed = tables["slopes"], check_results(card.to_dict("records"))
        found = slope_tables(slopes, max_p=options.max_p, min_slope=options.min_slope, swept=swept, card=printed)
        for ending, format in FINDINGS.items():
            write_text(run.path(f"tables/findings.{ending}"), RENDERERS[format](found))
            outputs.append(f"tables/findings.{ending}")
        advance(1)
        edits = slopes[slopes["arm"] == EDIT_ARM]
        counts |= {"labels": len(edits), "estimable": int(edits["estimable"].sum())}
    return fingerprint


def artifact_tables(run: Run) -> set[str]:
    """Return the names of tables that analyses stored in a run."""
    return {name for artifact in run.record.artifacts.values() for name in artifact.tables}
