"""The command line, counterslope. Options become settings here; the work is in pipeline.audit.

Heavy modules are imported inside the commands, so that --help stays fast.
"""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from pipeline.progress import Watch, progress_bar, unwatched

BAD_INPUT = 2
CARD_FAILS = 3

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Audit image classifiers with counterfactual faces: how every label moves with perceived gender or race.",
)

Photos = Annotated[
    list[Path] | None,
    typer.Argument(help="A folder, files, or one CSV/Parquet manifest (column photo). None: the embedded sample."),
]
RunFolder = Annotated[Path, typer.Argument(help="A run's folder.")]
Attributes = Annotated[
    list[str] | None,
    typer.Option("--attribute", "-a", help="gender or race; may be given twice.", show_default=False),
]
AdapterNames = Annotated[
    list[str] | None,
    typer.Option("--adapter", help="A classifier; see counterslope adapters. May be given again.", show_default=False),
]
AdapterOptions = Annotated[
    list[str] | None,
    typer.Option("--adapter-option", help="NAME.OPTION=VALUE for one classifier.", show_default=False),
]
Config = Annotated[Path | None, typer.Option("--config", help="TOML file with any option.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
Placebos = Annotated[
    list[str] | None,
    typer.Option("--placebo", help="random or colour; repeat, or join by commas.", show_default=False),
]
ParserName = Annotated[str | None, typer.Option(help="small (embedded) or bisenet.", show_default=False)]
ParserWeights = Annotated[
    Path | None, typer.Option("--weights", help="The public BiSeNet weights, a .pth file.", show_default=False)
]
Strict = Annotated[bool, typer.Option("--strict", help="End with exit code 3 if the validity card fails.")]
Mode = Annotated[str | None, typer.Option(help="delta or reconstruction.", show_default=False)]
GenderSteps = Annotated[int | None, typer.Option(help="Values of perceived gender, odd.", show_default=False)]
RaceSteps = Annotated[int | None, typer.Option(help="Values of perceived race, odd.", show_default=False)]
RacePair = Annotated[str | None, typer.Option(help="LOW,HIGH, such as Black,White.", show_default=False)]
ImageFormat = Annotated[str | None, typer.Option(help="png (lossless) or jpeg.", show_default=False)]
MaxP = Annotated[float | None, typer.Option(help="A finding's largest p.", show_default=False)]
MinSlope = Annotated[float | None, typer.Option(help="A finding's smallest |slope|.", show_default=False)]
TableFormat = Annotated[str | None, typer.Option(help="Print the table as csv, json, md or latex.", show_default=False)]
Confidence = Annotated[
    bool | None, typer.Option("--confidence/--presence", help="Mean scores or presence rates.", show_default=False)
]


@app.command(
    epilog="Examples: counterslope audit (the embedded sample) · counterslope audit portraits/ --attribute gender "
    "--adapter opencv --out runs/portraits · counterslope audit list.csv --adapter python:mine:classify"
)
def audit(
    photos: Photos = None,
    out: Annotated[Path | None, typer.Option(help="The run's folder.", show_default="runs/NAME")] = None,
    attribute: Attributes = None,
    adapter: AdapterNames = None,
    adapter_option: AdapterOptions = None,
    mode: Mode = None,
    placebo: Placebos = None,
    parser: ParserName = None,
    weights: ParserWeights = None,
    gender_steps: GenderSteps = None,
    race_steps: RaceSteps = None,
    race_pair: RacePair = None,
    image_format: ImageFormat = None,
    max_p: MaxP = None,
    min_slope: MinSlope = None,
    confidence: Confidence = None,
    config: Config = None,
    strict: Strict = False,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """From photos to slopes and a report. The same command again continues the same run."""
    from pipeline.audit import audit as perform
    from pipeline.config import load_settings

    attributes = attribute or (None if photos else ["gender", "race"])
    given = _sweep(
        attributes, mode, gender_steps, race_steps, race_pair, image_format, _split(placebo), parser, weights
    )
    given["query"] = {"adapters": adapter, "options": _adapter_options(adapter_option)}
    given["statistics"] = {"max_p": max_p, "min_slope": min_slope, "confidence": confidence}
    with _explained():
        settings = load_settings(given=given, file=config)
        inputs, folder = _inputs(photos), out or _default_out(photos)
        run = perform(inputs, folder, settings=settings, given=_as_given(given), watch=_watch(quiet, as_json))
        _tell(run.folder, as_json=as_json)
        if strict and any(check["passed"] is False for check in run.record["validity"]):
            _stop("the validity card fails (--strict)", code=CARD_FAILS)


@app.command(epilog="Example: counterslope generate portraits/ --attribute gender --out dataset")
def generate(
    photos: Photos = None,
    out: Annotated[Path | None, typer.Option(help="The dataset's folder.", show_default="runs/NAME")] = None,
    attribute: Attributes = None,
    mode: Mode = None,
    placebo: Placebos = None,
    parser: ParserName = None,
    weights: ParserWeights = None,
    gender_steps: GenderSteps = None,
    race_steps: RaceSteps = None,
    race_pair: RacePair = None,
    image_format: ImageFormat = None,
    config: Config = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Make the counterfactual versions of photos as a dataset, asking no classifier."""
    from pipeline.audit import generate as perform
    from pipeline.config import load_settings

    given = _sweep(attribute, mode, gender_steps, race_steps, race_pair, image_format, _split(placebo), parser, weights)
    with _explained():
        settings = load_settings(given=given, file=config)
        inputs, folder = _inputs(photos), out or _default_out(photos)
        run = perform(inputs, folder, settings=settings, given=_as_given(given), watch=_watch(quiet, as_json))
        _tell(run.folder, as_json=as_json)


@app.command(epilog="Example: counterslope query runs/portraits --adapter opencv --adapter python:mine:classify")
def query(
    run: RunFolder,
    adapter: AdapterNames = None,
    adapter_option: AdapterOptions = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Ask classifiers about the versions that a run has; answers that are there are not asked for again."""
    changes = {"query": {"adapters": adapter, "options": _adapter_options(adapter_option)}}
    with _explained():
        from pipeline.audit import ask_again

        ask_again(run, changes=changes, watch=_watch(quiet, as_json))
        _tell(run, as_json=as_json)


@app.command(epilog="Example: counterslope slopes runs/portraits --max-p 0.01 --format latex")
def slopes(
    run: RunFolder,
    max_p: MaxP = None,
    min_slope: MinSlope = None,
    confidence: Confidence = None,
    format: TableFormat = None,
    quiet: Quiet = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the slopes of a run's answers anew, with other thresholds if given."""
    changes = {"statistics": {"max_p": max_p, "min_slope": min_slope, "confidence": confidence}}
    if format is None:
        _estimate_again(run, changes, quiet=quiet, as_json=as_json)
        return
    endings = {name: f"findings.{name}" for name in ("csv", "json", "md")} | {"latex": "findings.tex"}
    if format not in endings:
        _stop(f"there is no format {format!r}; there are {', '.join(endings)}")
    with _explained():
        from pipeline.audit import estimate_again

        estimate_again(run, changes=changes, watch=_watch(quiet, as_json))
        typer.echo((run / "tables" / endings[format]).read_text(encoding="utf-8"), nl=False)


@app.command(epilog="Example: counterslope report runs/portraits")
def report(run: RunFolder, quiet: Quiet = False, as_json: AsJson = False) -> None:
    """Write a run's report.html anew."""
    _estimate_again(run, {}, quiet=quiet, as_json=as_json)


@app.command(epilog="Example: counterslope adapters --json")
def adapters(as_json: AsJson = False) -> None:
    """List the classifiers that can be audited."""
    from dataclasses import asdict

    from adapters.registry import describe

    rows = [asdict(row) for row in describe()]
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    from pipeline.telling import adapters_table

    adapters_table(rows)


@app.command(epilog="Example: counterslope status runs/portraits")
def status(run: RunFolder, as_json: AsJson = False) -> None:
    """What a run has done so far, whether it is running, stopped or complete."""
    with _explained():
        _tell(run, as_json=as_json)


def main() -> None:
    """The program's entry point."""
    app()


def _sweep(
    attribute: list[str] | None,
    mode: str | None,
    gender_steps: int | None,
    race_steps: int | None,
    race_pair: str | None,
    image_format: str | None,
    placebos: list[str] | None,
    parser: str | None,
    weights: Path | None,
) -> dict[str, dict[str, Any]]:
    options = {
        "attributes": attribute or None,
        "mode": mode,
        "gender_steps": gender_steps,
        "race_steps": race_steps,
        "race_pair": [part.strip() for part in race_pair.split(",")] if race_pair else None,
        "image_format": image_format,
        "placebos": placebos,
        "parser": parser,
        "parser_weights": str(weights) if weights else None,
    }
    return {"sweep": options}


def _split(texts: list[str] | None) -> list[str] | None:
    """Repeated options and comma-separated ones alike."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()] if texts else None


def _adapter_options(texts: list[str] | None) -> dict[str, dict[str, Any]] | None:
    """NAME.OPTION=VALUE as nested options; a value that is JSON is taken as such."""
    if not texts:
        return None
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        adapter, dot, option = place.rpartition(".")
        if not (equals and dot and adapter and option):
            _stop(f"--adapter-option {text!r} is not of the form NAME.OPTION=VALUE")
        try:
            options.setdefault(adapter, {})[option] = json.loads(value)
        except ValueError:
            options.setdefault(adapter, {})[option] = value
    return options


def _as_given(given: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    return {s: {n: v for n, v in o.items() if v is not None} for s, o in given.items()}


def _inputs(photos: list[Path] | None) -> list[Path]:
    from pipeline.audit import SAMPLE

    return photos or [SAMPLE]


def _default_out(photos: list[Path] | None) -> Path:
    return Path("runs") / (photos[0].resolve().stem or "photos" if photos else "sample")


def _watch(quiet: bool, as_json: bool) -> Watch:
    return unwatched if quiet or as_json else progress_bar


def _estimate_again(run: Path, changes: dict[str, dict[str, Any]], *, quiet: bool, as_json: bool) -> None:
    with _explained():
        from pipeline.audit import estimate_again

        estimate_again(run, changes=changes, watch=_watch(quiet, as_json))
        _tell(run, as_json=as_json)


def _tell(folder: Path, *, as_json: bool) -> None:
    from pipeline.telling import summary, tell

    if as_json:
        typer.echo(json.dumps(summary(folder), indent=2, default=str))
    else:
        tell(folder)


@contextmanager
def _explained() -> Iterator[None]:
    """Errors that a user can mend end with their message and exit code 2, without a traceback."""
    from adapters.base import AdapterError
    from models.errors import WeightsError
    from pipeline.config import ConfigError
    from pipeline.photos import NoUsablePhotos
    from pipeline.querying.store import StoreError
    from pipeline.run import RunError

    try:
        yield
    except (ConfigError, AdapterError, NoUsablePhotos, RunError, StoreError, WeightsError) as error:
        _stop(str(error))
    except KeyboardInterrupt:
        _stop("stopped; the same command continues where it was", code=130)


def _stop(message: str, *, code: int = BAD_INPUT) -> None:
    typer.echo(f"counterslope: {message}", err=True)
    sys.exit(code)


if __name__ == "__main__":
    main()
