"""Commands that show results of a run: ``counterslope validity``, ``compare-editors`` and ``figures``."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.console import print_text, stop, table_format, user_errors, watch
from pipeline.cli.options import Quiet, RunFolder, TableFile, TableFormat

Names = list[str] | None


def validity(run: RunFolder, format: TableFormat = None, out: TableFile = None) -> None:
    """Show a run's validity card: each check of the edits, its figure and threshold, and whether it holds."""
    printed = table_format(format, out)
    with user_errors():
        from pipeline.report.card import card_frame, card_title, check_results
        from pipeline.report.markup import render_frame
        from pipeline.run.folder import Run, settings_of

        settings_of(opened := Run(run))
        card = opened.read_csv("validity")
        title = card_title(check_results(card.to_dict("records")))
        print_text(render_frame(card, printed, title=title, printed=card_frame(card)), out)


def compare_editors(run: RunFolder, other: RunFolder, format: TableFormat = None, out: TableFile = None) -> None:
    """Compare the validity cards of two runs, such as of the same photos with two editors."""
    printed = table_format(format, out)
    with user_errors():
        from pipeline.report.card import cards_next_to_each_other
        from pipeline.report.markup import render_frame
        from pipeline.run.folder import Run, settings_of

        editors = [settings_of(Run(folder)).sweep.editor for folder in (run, other)]
        names = editors if len(set(editors)) == 2 else [str(run), str(other)]
        if run.resolve() == other.resolve():
            stop("name two different runs")
        cards = [Run(folder).read_csv("validity") for folder in (run, other)]
        table = cards_next_to_each_other(*cards, names=(names[0], names[1]))
        print_text(render_frame(table, printed, title=f"Validity cards: {run} and {other}"), out)


def figures(
    run: RunFolder,
    format: Annotated[str, typer.Option(help="pdf (fonts embedded), svg or png (300 pixels per inch).")] = "pdf",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the files.", show_default="figures in the run's folder")
    ] = None,
    label: Annotated[
        Names,
        typer.Option(help="Labels to plot; default: the strongest findings. Repeatable.", show_default=False),
    ] = None,
    adapter: Annotated[Names, typer.Option(help="Only this classifier. Repeatable.", show_default=False)] = None,
    attribute: Annotated[Names, typer.Option(help="Only this attribute. Repeatable.", show_default=False)] = None,
    photo: Annotated[
        Names, typer.Option(help="Only the sweep of this photo, with its scores. Repeatable.", show_default=False)
    ] = None,
    columns: Annotated[int, typer.Option(help="Width of a figure in page columns: 1 or 2.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Write a run's contact sheets, curves, intervals, effectiveness and lightness, with captions in text files."""
    with user_errors(ValueError):
        from pipeline.stages.run_view import RunView

        named = {"adapters": adapter, "attributes": attribute, "labels": label, "photos": photo}
        chosen = {name: given or () for name, given in named.items()}
        shown = watch(quiet, as_json=False)
        for file in RunView(run).figures(out, format=format, columns=columns, watch=shown, **chosen):
            typer.echo(str(file))
