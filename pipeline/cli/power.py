"""``counterslope power``: how many photos a run needs, told from a pilot run."""

from typing import Annotated

import typer

from pipeline.analyses.artifacts import Inputs
from pipeline.cli.artifacts import keep, run_options
from pipeline.cli.options import Cluster, MinCount, RunFolder, TableFile, TableFormat, print_frame, user_errors


def power(
    run: RunFolder,
    width: Annotated[float, typer.Option(help="Wanted width of a slope's 95 % interval, end to end.")] = 0.05,
    slope: Annotated[
        float | None, typer.Option(help="Size of a slope to be found.", show_default="the run's min_slope")
    ] = None,
    power: Annotated[float, typer.Option(help="Probability to find it.")] = 0.8,
    max_p: Annotated[
        float | None, typer.Option(help="Largest p that counts as found.", show_default="the run's max_p")
    ] = None,
    min_count: MinCount = None,
    cluster: Cluster = None,
    format: TableFormat = None,
    out: TableFile = None,
) -> None:
    """How many photos a run like this one needs, from how much slopes differ between its photos."""
    with user_errors(ValueError):
        from pipeline.analyses.power import photos_needed

        changes = {"cluster": cluster, "min_count": min_count}
        needed = photos_needed(run, width=width, slope=slope, power=power, max_p=max_p, changes=changes)
        print_frame(needed.frame, format, title=needed.title, printed=needed.printed, out=out)
        keep(
            run,
            "power",
            {"power": needed.frame},
            sources=Inputs(options=run_options(changes, "presence_threshold", "response", "cluster", "min_count")),
            about={"width": needed.width, "slope": needed.slope, "max_p": needed.max_p, "power": needed.power},
        )
