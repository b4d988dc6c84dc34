"""``counterslope review``: asks people on a local page how they perceive faces, and whether they see the edits."""

import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pipeline.cli.console import stop, user_errors
from pipeline.cli.options import RunFolder

if TYPE_CHECKING:
    from pipeline.review.server import Review


def review(
    run: RunFolder,
    reviewer: Annotated[str, typer.Option(help="Reviewer's name or code, stored with the answers.")] = "reviewer",
    unsure: Annotated[int, typer.Option(help="Number of faces with the least certain estimates.", min=0)] = 40,
    sure: Annotated[int, typer.Option(help="Number of other faces, drawn at random.", min=0)] = 20,
    pairs: Annotated[int, typer.Option(help="Pairs of versions per attribute.", min=0)] = 20,
    seed: Annotated[int, typer.Option(help="Random seed; the same seed gives reviewers the same questions.")] = 0,
    port: Annotated[int, typer.Option(help="Port of the page; 0: any free port.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Ask people on a local page how they perceive faces, and whether they see the edits. Ctrl-C ends it."""
    with user_errors():
        opened = _review(run, reviewer, unsure=unsure, sure=sure, pairs=pairs, seed=seed)
        from pipeline.review.server import ReviewServer
        from pipeline.run.folder import Run

        try:
            server = ReviewServer(opened, port=port)
        except OSError as error:
            stop(f"port {port} cannot be used ({error}): choose another with --port, or omit it")
        typer.echo(
            f"{len(opened.questions)} questions for {reviewer} at {server.url}\nEnd with Ctrl-C; all answers are kept."
        )
        if browser:
            webbrowser.open(server.url)
        with server:
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                typer.echo(f"\nResults: counterslope review-results {run}", err=True)
        Run(run).checkpoint()


def _review(run: Path, reviewer: str, *, unsure: int, sure: int, pairs: int, seed: int) -> "Review":
    """Return the review: a run and its questions for the reviewer."""
    from pipeline.review.questions import face_questions, in_order, pair_questions
    from pipeline.review.server import Review
    from pipeline.run.folder import Run, settings_of
    from pipeline.run.record import RunError
    from pipeline.run.tables import read_frame

    settings = settings_of(opened := Run(run))
    if not opened.path("faces.parquet").is_file():
        raise RunError(f"{run} has no table of faces yet: finish the run first")
    photos, faces = read_frame(opened.path("photos.parquet")), read_frame(opened.path("faces.parquet"))
    questions = face_questions(photos, faces, unsure=unsure, sure=sure, seed=seed)
    if opened.path("counterfactuals.parquet").is_file():
        versions = read_frame(opened.path("counterfactuals.parquet"))
        questions += pair_questions(photos, faces, versions, swept=settings.sweep.chosen(), pairs=pairs, seed=seed)
    if not questions:
        raise RunError(f"{run} has no face to ask about")
    return Review(run, opened.images, in_order(questions, reviewer=reviewer), reviewer, options=settings.photos)
