"""``counterslope represent``: who is shown in photos, or in those of a run, by any column of their manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.additions import Sources
from pipeline.commands.keeping import keep, run_options
from pipeline.commands.shared import (
    Cluster,
    Config,
    Quiet,
    TableFormat,
    default_out,
    explained,
    inputs,
    print_frame,
    stop,
    watch,
)

if TYPE_CHECKING:
    from pipeline.statistics.representation import Method


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
    """Shares of perceived gender and race in photos, raw and corrected for the estimator's errors."""
    if interval not in ("wilson", "exact"):
        stop(f"there is no interval {interval!r}; there are wilson and exact")
    method: Method = "exact" if interval == "exact" else "wilson"
    title = f"Perceived gender and race by {by}"
    with explained():
        from pipeline.config import load_settings
        from pipeline.representing import represent as perform

        given = {"statistics": {"cluster": cluster}}
        if photos and (photos[0] / "run.json").exists():
            if len(photos) > 1 or out is not None or config is not None:
                stop("a run's folder stands alone: its photos, its folder and its options are its own")
            _represent_run(photos[0], by=by, method=method, changes=given["statistics"], format=format, title=title)
            return
        result = perform(
            inputs(photos),
            out or default_out(photos, ending="-representation"),
            by=by,
            method=method,
            settings=load_settings(given=given, file=config),
            given={"statistics": {"cluster": cluster}} if cluster else {},
            watch=watch(quiet, False),
        )
        for note in result.notes:
            typer.echo(note, err=True)
        print_frame(result.frame, format, title=title)


def _represent_run(
    folder: Path, *, by: str, method: "Method", changes: Mapping[str, Any], format: str | None, title: str
) -> None:
    from pipeline.audit import settings_of
    from pipeline.representing import represented
    from pipeline.run import Run

    run = Run(folder)
    result = represented(run, by=by, method=method, options=settings_of(run, {"statistics": changes}).statistics)
    for note in result.notes:
        typer.echo(note, err=True)
    print_frame(result.frame, format, title=title)
    keep(
        folder,
        "representation",
        {"representation": result.frame},
        sources=Sources(
            files=("photos.parquet", "faces.parquet"), options=run_options(changes, "cluster", "resamples", "seed")
        ),
        about={"by": by, "interval": method, "notes": list(result.notes)},
    )
