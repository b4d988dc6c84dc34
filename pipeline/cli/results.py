"""What a run shows: ``counterslope slopes``, ``validity`` and ``figures``."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.options import (
    NOT_GIVEN,
    AsJson,
    Given,
    Quiet,
    RunFolder,
    TableFile,
    TableFormat,
    print_frame,
    print_text,
    show_run,
    stop,
    table_format,
    user_errors,
    watch,
    with_options,
)
from pipeline.config.options import StatisticsOptions

Names = list[str] | None


@with_options(StatisticsOptions)
def slopes(
    run: RunFolder,
    given: Given = NOT_GIVEN,
    format: TableFormat = None,
    out: TableFile = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the slopes of a run's answers anew, with other thresholds if given, also for groups of photos.

    With --format or --out the findings are laid out as in the published tables, by classifier and direction; without
    other options nothing is estimated again.
    """
    printed = table_format(format, out)
    as_table = format is not None or out is not None
    with user_errors():
        from pipeline.report.tables import RENDERERS
        from pipeline.run.folder import Run
        from pipeline.stages.audit import estimate_again
        from pipeline.stages.run_view import findings_of, is_estimated

        changed = any(value is not None for value in given["statistics"].values())
        if changed or not as_table or not is_estimated(Run(run)):
            estimate_again(run, changes=given, watch=watch(quiet, as_json))
        if as_table:
            print_text(RENDERERS[printed](findings_of(Run(run))), out)
        else:
            show_run(run, as_json=as_json)


def validity(run: RunFolder, format: TableFormat = None, out: TableFile = None) -> None:
    """The validity card of a run: what was checked about the edits, the figures, and whether they hold."""
    table_format(format, out)
    with user_errors():
        from pipeline.report.card import card_frame
        from pipeline.run.folder import Run
        from pipeline.stages.run_view import result_table

        card = result_table(Run(run), "validity")
        failed = int((card["passed"] == False).sum())  # noqa: E712 - a check without a threshold is neither
        title = f"Validity card: {len(card) - failed} of {len(card)} checks without failure"
        print_frame(card, format, title=title, printed=card_frame(card), out=out)


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
) -> None:
    """Curves, intervals, effectiveness and lightness of a run as figures, each with its caption in a text file."""
    with user_errors(ValueError):
        from pipeline.report.figures import FIGURE_FORMATS, NO_FORMAT
        from pipeline.run.folder import Run, settings_of
        from pipeline.stages.run_view import figures_of, write_figures

        if format not in FIGURE_FORMATS:
            stop(NO_FORMAT.format(format=format))
        settings_of(opened := Run(run))
        folder = out or run / "figures"
        folder.mkdir(parents=True, exist_ok=True)  # before any work
        found = figures_of(opened, adapters=adapter or (), attributes=attribute or (), labels=label or ())
        for file in write_figures(found, folder, format=format):
            typer.echo(str(file))
