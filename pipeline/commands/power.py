"""``counterslope power``: how many photos a run needs, told from a pilot run."""

from typing import Annotated

import typer

from pipeline.additions import Sources
from pipeline.commands.keeping import keep, run_options
from pipeline.commands.shared import Cluster, MinCount, RunFolder, TableFormat, explained, print_frame


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
) -> None:
    """How many photos a run like this one needs, from how much slopes differ between its photos."""
    with explained(ValueError):
        from pipeline.statistics.power import power_frame, power_table
        from pipeline.sweeping import run_sweeps

        changes = {"cluster": cluster, "min_count": min_count}
        pilot = run_sweeps(run, changes)
        options = pilot.options
        frame = power_frame(
            [
                power_table(
                    sweeps,
                    width=width,
                    slope=options.min_slope if slope is None else slope,
                    power=power,
                    max_p=options.max_p if max_p is None else max_p,
                    min_count=options.min_count,
                    clusters=pilot.clusters,
                )
                for sweeps in pilot.edits
            ]
        )
        frame = frame.sort_values(["adapter", "attribute", "photos_for_width", "label"], ignore_index=True)
        printed = frame if format in ("csv", "json") else frame.drop(columns=["arm", "estimable", "spread"])
        title = (
            f"Photos for an interval {width:g} wide, and to find a slope of {slope or options.min_slope:g} "
            f"(p < {max_p or options.max_p:g}) with probability {power:g}"
        )
        print_frame(printed, format, title=title)
        keep(
            run,
            "power",
            {"power": frame},
            sources=Sources(options=run_options(changes, "presence", "confidence", "cluster", "min_count")),
            about={
                "width": width,
                "slope": options.min_slope if slope is None else slope,
                "max_p": options.max_p if max_p is None else max_p,
                "power": power,
            },
        )
