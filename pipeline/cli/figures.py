"""``counterslope figures``: a run's charts as files for a paper."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import RunFolder, stop, user_errors

Names = list[str] | None


def figures(
    run: RunFolder,
    format: Annotated[str, typer.Option(help="pdf (fonts inside), svg or png (300 pixels per inch).")] = "pdf",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="the run's folder figures")
    ] = None,
    label: Annotated[
        Names, typer.Option(help="Whose curves; else the strongest findings. May be given again.", show_default=False)
    ] = None,
    adapter: Annotated[
        Names, typer.Option(help="Only this classifier. May be given again.", show_default=False)
    ] = None,
    attribute: Annotated[
        Names, typer.Option(help="Only this attribute. May be given again.", show_default=False)
    ] = None,
) -> None:
    """Curves, intervals, effectiveness and lightness of a run as figures, a text file with the caption beside each."""
    with user_errors(ValueError):
        from pipeline.report.figures import FIGURE_FORMATS, NO_FORMAT
        from pipeline.run.folder import Run
        from pipeline.stages.run_view import figures_of, write_figures

        if format not in FIGURE_FORMATS:
            stop(NO_FORMAT.format(format=format))
        found = figures_of(Run(run), adapters=adapter or (), attributes=attribute or (), labels=label or ())
        for file in write_figures(found, out or run / "figures", format=format):
            typer.echo(str(file))
