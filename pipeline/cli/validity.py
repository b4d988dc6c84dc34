"""``counterslope validity``: a run's validity card as a table."""

from pipeline.cli.options import RunFolder, TableFile, TableFormat, print_frame, user_errors


def validity(run: RunFolder, format: TableFormat = None, out: TableFile = None) -> None:
    """The validity card of a run: what was checked about the edits, the figures, and whether they hold."""
    with user_errors():
        from pipeline.report.card import card_frame
        from pipeline.run.folder import Run
        from pipeline.stages.run_view import result_table

        card = result_table(Run(run), "validity")
        failed = int((card["passed"] == False).sum())  # noqa: E712 - a check without a threshold is neither
        title = f"Validity card: {len(card) - failed} of {len(card)} checks without failure"
        print_frame(card, format, title=title, printed=card_frame(card), out=out)
