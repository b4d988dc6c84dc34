"""``counterslope compare``: two runs, or two adapters, on the same photos."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.additions import ANSWERED, Sources
from pipeline.commands.keeping import keep, run_options
from pipeline.commands.shared import (
    Cluster,
    Family,
    MinCount,
    RunFolder,
    TableFormat,
    explained,
    family_columns,
    print_frame,
)

if TYPE_CHECKING:
    import pandas as pd

NAMED = 10


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
) -> None:
    """The difference of every label's slope between two runs or adapters, paired photo by photo."""
    with explained(ValueError):
        from pipeline.comparing import compare_runs

        names = [part.strip() for part in adapters.split(",")] if adapters else None
        changes = {"cluster": cluster, "min_count": min_count, "family": family_columns(family)}
        compared = compare_runs(first, second or first, adapters=names, changes=changes)
        frame = compared.frame
        for missing, where in ((compared.only_first, "the first"), (compared.only_second, "the second")):
            if missing:
                shown = ", ".join(missing[:NAMED]) + (" …" if len(missing) > NAMED else "")
                typer.echo(f"{len(missing)} photos only in {where}: {shown}", err=True)
        _print(frame, format)
        if second is not None and second.resolve() != first.resolve():
            keep(
                first,
                "comparison",
                {"comparison": frame},
                sources=Sources(
                    elsewhere=[second / file for file in ANSWERED],
                    options=run_options(changes, "presence", "confidence", "cluster", "min_count", "family"),
                ),
                about={
                    "other": second.name,
                    "only_first": len(compared.only_first),
                    "only_second": len(compared.only_second),
                },
            )


def _print(frame: "pd.DataFrame", format: str | None) -> None:
    if format not in ("csv", "json"):
        wide = ["estimable", "family", "tested", "arm", "rd_difference", "rd_low", "rd_high", "rd_p"]
        frame = frame.drop(columns=wide).sort_values(["attribute", "first", "p", "label"], ignore_index=True)
    print_frame(frame, format, title="Difference of slopes, first less second, on the same photos")
