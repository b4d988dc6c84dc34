"""``counterslope generate``: makes a publishable dataset of counterfactual versions of photos."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.console import harmless, print_json, user_errors, watch
from pipeline.cli.options import (
    NOT_GIVEN,
    AsJson,
    Config,
    Given,
    Photos,
    Quiet,
    inputs,
    out_location,
    out_option,
    settings_of_command,
    with_options,
)  # fmt: skip
from pipeline.config.dataset_options import NOT_STATED, DatasetOptions
from pipeline.config.options import EngineOptions, PhotoOptions, StorageOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.run.formats import pluralise

if TYPE_CHECKING:
    from pipeline.dataset.make import Dataset

ENDING = "-counterfactuals"  # of the default folder
TO_STATE = ("licence", "source-licence", "source", "creator", "contact")


@with_options(PhotoOptions, SweepOptions, DatasetOptions, StorageOptions, EngineOptions, without=("images_to",))
def generate(
    photos: Photos = None,
    out: Annotated[
        str | None,
        out_option("dataset", ENDING),
    ] = None,
    given: Given = NOT_GIVEN,
    config: Config = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make a dataset of counterfactual versions of photos, without querying any classifier.

    Placebos are made only if --placebo names them.
    """
    with user_errors():
        chosen, settings = inputs(photos), settings_of_command(given, config)
        from pipeline.dataset.make import make_dataset

        folder = out_location(out, photos, ending=ENDING)
        made = make_dataset(chosen, folder, settings=settings, given=given, watch=watch(quiet, as_json))
        if as_json:
            print_json(_summary(made))
        else:
            _print_dataset(made)


def _summary(made: "Dataset") -> dict[str, Any]:
    facts = made.facts
    return {
        "dataset": str(made.folder),
        "run": str(made.run.folder),
        "photos": facts.photos,
        "images": facts.images,
        "splits": {name: {"photos": split.photos, "images": split.images} for name, split in facts.splits.items()},
        "left_out": dict(facts.left_out),
        "opted_out": len(facts.opted_out),
        "opt_out_unmatched": list(made.unmatched),
        "validity": [check.model_dump() for check in made.run.record.validity],
        "not_stated": _not_stated(made),
    }


def _not_stated(made: "Dataset") -> list[str]:
    return [f"--{name}" for name in TO_STATE if getattr(made.facts.options, name.replace("-", "_")) == NOT_STATED]


def _print_dataset(made: "Dataset") -> None:
    facts = made.facts
    splits = ", ".join(f"{name} {pluralise(split.photos, 'photo')}" for name, split in facts.splits.items())
    size = f"{pluralise(facts.images, 'image')} of {pluralise(facts.photos, 'photo')}"
    lines = [f"Dataset: {made.folder}: {size} ({splits})"]
    lines += [f"Omitted: {count:,} {reason}" for reason, count in facts.left_out.items()]
    lines.append(f"Validity card, {facts.validity_counts}.")
    if failed := [f"{check.attribute}, {check.name}" for check in facts.validity if check.state == "fails"]:
        lines.append(f"Failed on the validity card (see README.md): {'; '.join(failed)}")
    if made.unmatched:
        lines.append(f"No photo matches these entries of the opt-out list: {', '.join(made.unmatched)}")
    if not_stated := _not_stated(made):
        lines.append(f"Before you publish, repeat the command with {', '.join(not_stated)}.")
    lines.append(f"Keep {made.run.folder} to continue or to withdraw photos later, and do not publish it.")
    typer.echo("\n".join(harmless(line) for line in lines))
