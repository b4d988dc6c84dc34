"""``counterslope mask``: hides the people in photos, to test what a classifier infers from the background."""

from pathlib import Path
from typing import Annotated

import typer

from pipeline.cli.console import user_errors, watch
from pipeline.cli.options import (
    NOT_GIVEN,
    Config,
    Given,
    Photos,
    Quiet,
    inputs,
    out_location,
    out_option,
    settings_of_command,
    with_options,
)
from pipeline.config.options import EngineOptions, PhotoOptions

ENDING = "-masked"  # of the default folder


@with_options(PhotoOptions, EngineOptions)
def mask(
    photos: Photos = None,
    out: Annotated[
        str | None,
        out_option("run", ENDING),
    ] = None,
    condition: Annotated[
        list[str] | None,
        typer.Option(
            help="full, box, segment, noisy-box, noisy-segment or only-person. Repeatable.", show_default="all"
        ),
    ] = None,
    annotations: Annotated[
        Path | None,
        typer.Option(
            help="COCO file of instances; default: the face parser segments the person from hair to shoulders.",
            show_default=False,
        ),
    ] = None,
    given: Given = NOT_GIVEN,
    config: Config = None,
    quiet: Quiet = False,
) -> None:
    """Write photos with the people in them hidden, one image per condition, and a manifest for your classifier."""
    with user_errors():
        chosen, settings = inputs(photos), settings_of_command(given, config)
        from pipeline.dataset.masked import MANIFEST, mask_people
        from pipeline.dataset.person import CONDITIONS

        folder = out_location(out, photos, ending=ENDING)
        run = mask_people(
            chosen,
            folder,
            settings=settings,
            conditions=condition or tuple(CONDITIONS),
            annotations=annotations,
            given=given,
            watch=watch(quiet, False),
        )
        counts = run.record.stages["masked"].counts
        typer.echo(f"{counts['ok']} of {counts['planned']} images, listed in {folder / MANIFEST}.")
