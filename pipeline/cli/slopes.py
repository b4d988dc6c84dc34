"""``counterslope slopes``: a run's slopes, estimated anew where options are given, in the published tables' layout."""

from typing import Any

from pipeline.cli.options import (
    AsJson,
    By,
    Cluster,
    Confidence,
    Family,
    MaxP,
    MinSlope,
    Quiet,
    RunFolder,
    TableFile,
    TableFormat,
    family_columns,
    print_text,
    table_format,
    tell,
    user_errors,
    watch,
)


def slopes(
    run: RunFolder,
    max_p: MaxP = None,
    min_slope: MinSlope = None,
    confidence: Confidence = None,
    by: By = None,
    cluster: Cluster = None,
    family: Family = None,
    format: TableFormat = None,
    out: TableFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the slopes of a run's answers anew, with other thresholds if given, also for groups of photos.

    With --format or --out the findings are laid out as in the published tables, by classifier and direction; without
    other options nothing is estimated again.
    """
    printed = table_format(format, out)
    options: dict[str, Any] = {"max_p": max_p, "min_slope": min_slope, "confidence": confidence}
    options |= {"by": by, "cluster": cluster, "family": family_columns(family)}
    as_table = format is not None or out is not None
    with user_errors():
        from pipeline.report.tables import RENDERERS
        from pipeline.run.folder import Run
        from pipeline.stages.audit import estimate_again
        from pipeline.stages.run_view import findings_of, is_estimated

        changed = any(value is not None for value in options.values())
        if changed or not as_table or not is_estimated(Run(run)):
            estimate_again(run, changes={"statistics": options}, watch=watch(quiet, as_json))
        if as_table:
            print_text(RENDERERS[printed](findings_of(Run(run))), out)
        else:
            tell(run, as_json=as_json)
