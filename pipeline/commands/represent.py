"""``counterslope represent``: who is shown in photos, by keyword, folder or any column of a manifest."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.commands.shared import (
    Cluster,
    Config,
    Photos,
    Quiet,
    TableFormat,
    default_out,
    explained,
    inputs,
    print_frame,
    stop,
    watch,
)


def represent(
    photos: Photos = None,
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
    with explained():
        from pipeline.config import load_settings
        from pipeline.representing import represent as perform

        given = {"statistics": {"cluster": cluster}}
        result = perform(
            inputs(photos),
            out or default_out(photos, ending="-representation"),
            by=by,
            method="exact" if interval == "exact" else "wilson",
            settings=load_settings(given=given, file=config),
            given={"statistics": {"cluster": cluster}} if cluster else {},
            watch=watch(quiet, False),
        )
        for note in result.notes:
            typer.echo(note, err=True)
        print_frame(result.frame, format, title=f"Perceived gender and race by {by}")
