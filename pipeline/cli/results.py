"""What a run shows: ``counterslope validity`` and ``figures``."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.console import print_text, table_format, user_errors, watch
from pipeline.cli.options import Quiet, RunFolder, TableFile, TableFormat

Names = list[str] | None


def validity(run: RunFolder, format: TableFormat = None, out: TableFile = None) -> None:
    """The validity card of a run: what was checked about the edits, the figures, and whether they hold."""
    printed = table_format(format, out)
    with user_errors():
        from pipeline.report.card import card_frame, card_title, check_results
        from pipeline.report.markup import render_frame
        from pipeline.run.folder import Run, settings_of

        settings_of(opened := Run(run))
        card = opened.read_csv("validity")
        title = card_title(check_results(card.to_dict("records")))
        print_text(render_frame(card, printed, title=title, printed=card_frame(card)), out)


def figures(
    run: RunFolder,
    format: Annotated[str, typer.Option(help="pdf (fonts inside), svg or png (300 pixels per inch).")] = "pdf",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="the run's folder figures")
    ] = None,
    label: Annotated[
        Names,
        typer.Option(help="Labels with curves; else the strongest findings. Repeatable.", show_default=False),
    ] = None,
    adapter: Annotated[Names, typer.Option(help="Only this classifier. Repeatable.", show_default=False)] = None,
    attribute: Annotated[Names, typer.Option(help="Only this attribute. Repeatable.", show_default=False)] = None,
    photo: Annotated[
        Names, typer.Option(help="Only the sweep of this photo, with its scores. Repeatable.", show_default=False)
    ] = None,
    columns: Annotated[int, typer.Option(help="Width: 1 or 2 columns of a page.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Contact sheets, curves, intervals, effectiveness and lightness of a run, each with its caption in a text file."""
    with user_errors(ValueError):
        from pipeline.stages.run_view import RunView

        named = {"adapters": adapter, "attributes": attribute, "labels": label, "photos": photo}
        chosen = {name: given or () for name, given in named.items()}
        shown = watch(quiet, as_json=False)
        for file in RunView(run).figures(out, format=format, columns=columns, watch=shown, **chosen):
            typer.echo(str(file))
