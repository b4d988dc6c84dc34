"""``counterslope generate``: counterfactual versions of photos as a dataset that can be published."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pipeline.cli.options import (
    AsJson,
    Attributes,
    Config,
    GenderSteps,
    ImageFormat,
    Mode,
    ParserName,
    ParserWeights,
    Photos,
    Placebos,
    Quiet,
    RacePair,
    RaceSteps,
    Steps,
    default_out,
    harmless,
    inputs,
    refuse_old_steps,
    split,
    stop,
    sweep_options,
    user_errors,
    watch,
)

if TYPE_CHECKING:
    from pipeline.dataset.make import Dataset

TO_STATE = {"licence": "--licence", "source": "--source", "creator": "--creator", "contact": "--contact"}


def generate(
    photos: Photos = None,
    out: Annotated[
        Path | None, typer.Option(help="The dataset's folder.", show_default="runs/NAME-counterfactuals")
    ] = None,
    attribute: Attributes = None,
    mode: Mode = None,
    placebo: Placebos = None,
    parser: ParserName = None,
    weights: ParserWeights = None,
    steps: Steps = None,
    gender_steps: GenderSteps = None,
    race_steps: RaceSteps = None,
    race_pair: RacePair = None,
    image_format: ImageFormat = None,
    quality: Annotated[int | None, typer.Option(help="JPEG quality, 50-100.", show_default=False)] = None,
    shares: Annotated[
        str | None,
        typer.Option("--split", help="Shares, such as train=0.8,test=0.2.", show_default=False),
    ] = None,
    split_seed: Annotated[int | None, typer.Option(help="Other seeds split otherwise.", show_default=False)] = None,
    cluster: Annotated[
        str | None,
        typer.Option(help="Manifest column whose photos stay in one split, such as person.", show_default=False),
    ] = None,
    opt_out: Annotated[
        Path | None,
        typer.Option(help="File of photos never processed, by name or sha256, one a line.", show_default=False),
    ] = None,
    name: Annotated[str | None, typer.Option(help="What the dataset is called.", show_default="its folder")] = None,
    licence: Annotated[str | None, typer.Option(help="Licence of the source photos.", show_default=False)] = None,
    source: Annotated[str | None, typer.Option(help="Where the photos come from.", show_default=False)] = None,
    creator: Annotated[str | None, typer.Option(help="Who publishes the dataset.", show_default=False)] = None,
    contact: Annotated[str | None, typer.Option(help="Where people ask to be left out.", show_default=False)] = None,
    published: Annotated[
        str | None, typer.Option(help="Day of publication, YYYY-MM-DD.", show_default="the first start's")
    ] = None,
    photo_names: Annotated[
        bool | None,
        typer.Option("--photo-names/--no-photo-names", help="Tell the photos' file names.", show_default=False),
    ] = None,
    config: Config = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make the counterfactual versions of photos as a dataset, asking no classifier."""
    refuse_old_steps(gender_steps, race_steps)
    given: dict[str, dict[str, Any]] = sweep_options(
        attribute, mode, steps, race_pair, image_format, split(placebo), parser, weights
    )
    given["sweep"]["jpeg_quality"] = quality
    given["photos"] = {"opt_out": str(opt_out) if opt_out else None}
    given["dataset"] = {
        "name": name,
        "split": _shares(shares),
        "seed": split_seed,
        "cluster": cluster,
        "licence": licence,
        "source": source,
        "creator": creator,
        "contact": contact,
        "published": published,
        "photo_names": photo_names,
    }
    with user_errors():
        from pipeline.config.options import load_settings
        from pipeline.dataset.make import make_dataset

        settings = load_settings(given=given, file=config)
        folder = out or default_out(photos, ending="-counterfactuals")
        said = {section: {n: v for n, v in options.items() if v is not None} for section, options in given.items()}
        made = make_dataset(inputs(photos), folder, settings=settings, given=said, watch=watch(quiet, as_json))
        if as_json:
            typer.echo(json.dumps(_summary(made), indent=2))
        else:
            _tell(made)


def _shares(text: str | None) -> dict[str, float] | None:
    """``train=0.8,test=0.2`` as a table."""
    if text is None:
        return None
    try:
        return {name.strip(): float(share) for name, _, share in (part.partition("=") for part in text.split(","))}
    except ValueError:
        stop(f"--split {text!r} is not of the form train=0.8,test=0.2")


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
    from pipeline.config.options import NOT_STATED

    return [option for name, option in TO_STATE.items() if getattr(made.facts.options, name) == NOT_STATED]


def _tell(made: "Dataset") -> None:
    facts = made.facts
    splits = ", ".join(f"{name} {split.photos:,} photos" for name, split in facts.splits.items())
    lines = [f"Dataset: {made.folder}: {facts.images:,} images of {facts.photos:,} photos ({splits})"]
    lines += [f"Left out: {count:,} {reason}" for reason, count in facts.left_out.items()]
    if failed := [f"{light.attribute}, {light.name}" for light in facts.validity if light.state == "fails"]:
        lines.append(f"Failed on the validity card (see README.md): {'; '.join(failed)}")
    if made.unmatched:
        lines.append(f"No photo matches these entries of the opt-out list: {', '.join(made.unmatched)}")
    if not_stated := _not_stated(made):
        lines.append(f"Before you publish, state {', '.join(not_stated)}: the same command again.")
    lines.append(f"To continue or withdraw photos later, keep {made.run.folder} (do not publish it).")
    typer.echo("\n".join(harmless(line) for line in lines))
