"""``counterslope review``: people check how faces are perceived, and what they see of the edits."""

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
    reviewer: Annotated[str, typer.Option(help="Who answers: a name or a code, kept with the answers.")] = "reviewer",
    unsure: Annotated[int, typer.Option(help="Faces that the estimator is least sure of.", min=0)] = 40,
    sure: Annotated[int, typer.Option(help="Other faces, drawn at random.", min=0)] = 20,
    pairs: Annotated[int, typer.Option(help="Pairs of versions for each attribute.", min=0)] = 20,
    seed: Annotated[int, typer.Option(help="Of what is drawn: reviewers with the same one are asked the same.")] = 0,
    port: Annotated[int, typer.Option(help="Of the page; 0 takes a free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open the page in a browser.")] = True,
) -> None:
    """Ask people, on a local page: how they perceive faces, and whether they see the edits; Ctrl-C ends it."""
    with user_errors():
        opened = _review(run, reviewer, unsure=unsure, sure=sure, pairs=pairs, seed=seed)
        from pipeline.review.server import ReviewServer

        try:
            server = ReviewServer(opened, port=port)
        except OSError as error:
            stop(f"port {port} cannot be used ({error}): name another with --port, or leave it out")
        typer.echo(
            f"{len(opened.questions)} questions for {reviewer} at {server.url}\nCtrl-C ends it; every answer is kept."
        )
        if browser:
            webbrowser.open(server.url)
        with server:
            try:
                server.serve_forever()
            except KeyboardInterrupt:
                typer.echo(f"\nResults: counterslope review-results {run}", err=True)


def _review(run: Path, reviewer: str, *, unsure: int, sure: int, pairs: int, seed: int) -> "Review":
    """What the reviewer is asked."""
    from pipeline.review.questions import face_questions, in_order, pair_questions
    from pipeline.review.server import Review
    from pipeline.run.folder import Run, settings_of
    from pipeline.run.record import RunError
    from pipeline.run.tables import read_frame

    settings = settings_of(opened := Run(run))
    if not opened.path("faces.parquet").is_file():
        raise RunError(f"the faces of {run} are not found yet: finish the run first")
    photos, faces = read_frame(opened.path("photos.parquet")), read_frame(opened.path("faces.parquet"))
    questions = face_questions(photos, faces, unsure=unsure, sure=sure, seed=seed)
    if opened.path("counterfactuals.parquet").is_file():
        versions = read_frame(opened.path("counterfactuals.parquet"))
        questions += pair_questions(photos, faces, versions, swept=settings.sweep.chosen(), pairs=pairs, seed=seed)
    if not questions:
        raise RunError(f"{run} has no face to ask about")
    return Review(run, opened.images, in_order(questions, reviewer=reviewer), reviewer, options=settings.photos)
