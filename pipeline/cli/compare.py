"""``counterslope compare``: two runs, or two adapters, on the same photos."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.analyses.artifacts import ANSWERED, Inputs
from pipeline.cli.artifacts import keep, run_options
from pipeline.cli.options import (
    Cluster,
    Family,
    MinCount,
    RunFolder,
    TableFile,
    TableFormat,
    print_frame,
    user_errors,
)
from pipeline.config.options import families

NAMED = 10
TITLE = "Difference of slopes, first less second, on the same photos"


def compare(
    first: RunFolder,
    second: Annotated[
        Path | None, typer.Argument(help="Another run's folder; the same run unless given.", show_default=False)
    ] = None,
    adapters: Annotated[
        str | None,
        typer.Option(help="FIRST,SECOND: the adapter of each; every adapter with itself unless given."),
    ] = None,
    min_count: MinCount = None,
    cluster: Cluster = None,
    family: Family = None,
    format: TableFormat = None,
    out: TableFile = None,
) -> None:
    """The difference of every label's slope between two runs or adapters, paired photo by photo."""
    with user_errors(ValueError):
        from pipeline.analyses.comparison import compare_runs

        names = [part.strip() for part in adapters.split(",")] if adapters else None
        changes = {"cluster": cluster, "min_count": min_count, "family": families(family) if family else None}
        compared = compare_runs(first, second or first, adapters=names, changes=changes)
        frame = compared.frame
        for missing, where in ((compared.only_first, "the first"), (compared.only_second, "the second")):
            if missing:
                shown = ", ".join(missing[:NAMED]) + (" …" if len(missing) > NAMED else "")
                typer.echo(f"{len(missing)} photos only in {where}: {shown}", err=True)
        print_frame(frame, format, title=TITLE, printed=compared.printed, out=out)
        if second is not None and second.resolve() != first.resolve():
            keep(
                first,
                "comparison",
                {"comparison": frame},
                sources=Inputs(
                    elsewhere=[second / file for file in ANSWERED],
                    options=run_options(changes, "presence_threshold", "response", "cluster", "min_count", "family"),
                ),
                about={
                    "other": second.name,
                    "only_first": len(compared.only_first),
                    "only_second": len(compared.only_second),
                },
            )
