"""``counterslope represent``: who is shown in photos, or in those of a run, by any column of their manifest."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.analyses.artifacts import Inputs
from pipeline.cli.artifacts import keep, run_options
from pipeline.cli.options import (
    Cluster,
    Config,
    Quiet,
    TableFormat,
    default_out,
    inputs,
    print_frame,
    run_folder,
    stop,
    user_errors,
    watch,
)

if TYPE_CHECKING:
    from pipeline.statistics import ShareMethod


def represent(
    photos: Annotated[
        list[Path] | None,
        typer.Argument(help="As of audit, or a run's folder: its photos, and its report shows the shares."),
    ] = None,
    by: Annotated[str, typer.Option(help="A manifest column, such as keyword; or folder.")] = "folder",
    out: Annotated[Path | None, typer.Option(help="The run's folder.", show_default="runs/NAME-representation")] = None,
    interval: Annotated[str, typer.Option(help="Of the raw shares: wilson or exact.")] = "wilson",
    cluster: Cluster = None,
    config: Config = None,
    format: TableFormat = None,
    quiet: Quiet = False,
) -> None:
    """Shares of perceived gender and race in photos, or in those of a run, raw and corrected for its errors."""
    if interval not in ("wilson", "exact"):
        stop(f"there is no interval {interval!r}; there are wilson and exact")
    method: ShareMethod = "exact" if interval == "exact" else "wilson"
    title = f"Perceived gender and race by {by}"
    with user_errors():
        from pipeline.analyses.representation import represent as perform
        from pipeline.analyses.representation import represented
        from pipeline.config.sources import load_settings
        from pipeline.run.folder import Run, settings_of

        given = {"statistics": {"cluster": cluster}} if cluster else {}
        folder = run_folder(photos)
        if folder is not None:
            if out is not None or config is not None:
                stop("a run's folder stands alone: its options are its own")
            run = Run(folder)
            result = represented(run, by=by, method=method, options=settings_of(run, given).statistics)
        else:
            result = perform(
                inputs(photos),
                out or default_out(photos, ending="-representation"),
                by=by,
                method=method,
                settings=load_settings(given=given, file=config),
                given=given,
                watch=watch(quiet, False),
            )
        for note in result.notes:
            typer.echo(note, err=True)
        print_frame(result.frame, format, title=title)

        if folder is not None:
            keep(
                folder,
                "representation",
                {"representation": result.frame},
                sources=Inputs(
                    files=("photos.parquet", "faces.parquet"),
                    options=run_options({"cluster": cluster}, "cluster", "resamples", "seed"),
                ),
                about={"by": by, "interval": method, "notes": list(result.notes)},
            )
