"""What the commands share: their options, how errors end, how a run is told. What they do is in each command."""

import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from pipeline.run.progress import Bars, Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.querying.plan import Consent

BAD_INPUT = 2
CARD_FAILS = 3
FEW_ANSWERS = 4

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
Steps = Annotated[
    list[str] | None,
    typer.Option("--steps", help="ATTRIBUTE=K: values of a sweep, odd. May be given again.", show_default=False),
]
GenderSteps = Annotated[int | None, typer.Option(hidden=True)]
RaceSteps = Annotated[int | None, typer.Option(hidden=True)]
RacePair = Annotated[str | None, typer.Option(help="LOW,HIGH, such as Black,White.", show_default=False)]
ImageFormat = Annotated[str | None, typer.Option(help="png (lossless) or jpeg.", show_default=False)]
MaxP = Annotated[float | None, typer.Option(help="A finding's largest p.", show_default=False)]
MinSlope = Annotated[float | None, typer.Option(help="A finding's smallest |slope|.", show_default=False)]
TableFormat = Annotated[
    str | None, typer.Option(help="Print the table as csv, json, md, latex or html.", show_default=False)
]
TableFile = Annotated[
    Path | None,
    typer.Option("--out", help="Write the table to a file; .csv, .json, .md, .tex, .html or .txt.", show_default=False),
]
Confidence = Annotated[
    bool | None, typer.Option("--confidence/--presence", help="Mean scores or presence rates.", show_default=False)
]
MinCount = Annotated[
    float | None, typer.Option(help="Photos with the label at a = 0, below which it is too rare.", show_default=False)
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Manifest column whose photos belong together, such as person.", show_default=False),
]
Family = Annotated[
    str | None,
    typer.Option(
        help="Columns (adapter,attribute) that make the labels of one family for q; all: every label tested.",
        show_default=False,
    ),
]
By = Annotated[
    str | None,
    typer.Option(
        help="Also slopes for groups of photos: a manifest column, perceived (gender and race of the face), or folder.",
        show_default=False,
    ),
]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Agree that faces are sent to the remote classifiers named (for scripts).")
]
MaxCalls = Annotated[
    int | None, typer.Option(help="Stop before asking if it takes more calls to all classifiers.", show_default=False)
]
MaxCost = Annotated[
    float | None, typer.Option(help="US$: stop before asking if it would cost more.", show_default=False)
]
Rates = Annotated[
    list[str] | None,
    typer.Option(
        "--rate", help="[NAME=]N requests per second, for one or every remote classifier.", show_default=False
    ),
]
Concurrencies = Annotated[
    list[str] | None, typer.Option("--concurrency", help="[NAME=]N calls at once.", show_default=False)
]
Prices = Annotated[
    list[str] | None,
    typer.Option("--price", help="[NAME=]US$ per 1,000 images and feature, to estimate with.", show_default=False),
]
Sentinels = Annotated[
    int | None,
    typer.Option(
        help="Portraits of nobody asked at start, middle and end to see a service change.", show_default=False
    ),
]
Patience = Annotated[
    float | None,
    typer.Option(help="Seconds to wait for a service that answers nobody (600 unless given).", show_default=False),
]
Only = Annotated[bool, typer.Option("--only", help="Classifiers that are not named now leave the run.")]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="A classifier that leaves the run. May be given again.", show_default=False),
]
Retry = Annotated[
    str | None,
    typer.Option(
        help="failed: send again whatever has no labels; unreadable: only what was answered without labels.",
        show_default=False,
    ),
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Tables only, no report.html.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Say what goes wrong on the way, call by call.")]


def sweep_options(
    attribute: list[str] | None,
    mode: str | None,
    steps: list[str] | None,
    race_pair: str | None,
    image_format: str | None,
    placebos: list[str] | None = None,
    parser: str | None = None,
    weights: Path | None = None,
) -> dict[str, dict[str, Any]]:
    """The section ``sweep`` as it was given; None where nothing was."""
    options = {
        "attributes": split(attribute),
        "mode": mode,
        "steps": _steps(steps),
        "poles": {"race": [part.strip() for part in race_pair.split(",")]} if race_pair else None,
        "image_format": image_format,
        "placebos": placebos,
        "parser": parser,
        "parser_weights": str(weights) if weights else None,
    }
    return {"sweep": options}


def _steps(texts: list[str] | None) -> dict[str, str] | None:
    """ATTRIBUTE=K, repeated or joined by commas, as a table."""
    parts = split(texts)
    if parts is None:
        return None
    for part in parts:
        if "=" not in part:
            stop(f"--steps {part!r} is not of the form ATTRIBUTE=K, such as gender=7")
    return {name.strip(): number for name, _, number in (part.partition("=") for part in parts)}


def refuse_old_steps(gender_steps: int | None, race_steps: int | None) -> None:
    """End with the new option's name where an old one is given."""
    for name, number in (("gender", gender_steps), ("race", race_steps)):
        if number is not None:
            stop(f"--{name}-steps is now --steps {name}={number}")


def split(texts: list[str] | None) -> list[str] | None:
    """Repeated options and comma-separated ones alike."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()] if texts else None


def query_options(
    adapter: list[str] | None,
    adapter_option: list[str] | None,
    *,
    max_calls: int | None = None,
    max_cost: float | None = None,
    rate: list[str] | None = None,
    concurrency: list[str] | None = None,
    price: list[str] | None = None,
    sentinels: int | None = None,
    patience: float | None = None,
) -> dict[str, Any]:
    """The section ``query`` as it was given; None where nothing was."""
    return {
        "adapters": adapter,
        "options": adapter_options(adapter_option),
        "max_calls": max_calls,
        "max_cost": max_cost,
        "rate": _by_adapter("--rate", rate),
        "concurrency": _by_adapter("--concurrency", concurrency),
        "price": _by_adapter("--price", price),
        "sentinels": sentinels,
        "patience": patience,
    }


def adapter_options(texts: list[str] | None) -> dict[str, dict[str, Any]] | None:
    """NAME.OPTION=VALUE as nested options; a value that is JSON is taken as such."""
    if not texts:
        return None
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        adapter, dot, option = place.rpartition(".")
        if not (equals and dot and adapter and option):
            stop(f"--adapter-option {place!r} is not of the form NAME.OPTION=VALUE")  # the value may be a secret
        try:
            options.setdefault(adapter, {})[option] = json.loads(value)
        except ValueError:
            options.setdefault(adapter, {})[option] = value
    return options


def _by_adapter(option: str, texts: list[str] | None) -> dict[str, float] | None:
    """[NAME=]NUMBER as name -> number; ``*`` stands for every remote classifier."""
    if not texts:
        return None
    numbers = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        try:
            numbers[name or "*"] = float(number)
        except ValueError:
            stop(f"{option} {text!r} is not of the form [NAME=]NUMBER")
    return numbers


def family_columns(text: str | None) -> list[str] | None:
    """``adapter,attribute`` as columns; ``all`` as none; None where nothing was said."""
    if text is None:
        return None
    return [] if text.strip() == "all" else [part.strip() for part in text.split(",") if part.strip()]


def inputs(photos: list[Path] | None) -> list[Path]:
    """The photos, or the embedded sample's manifest."""
    from pipeline.photos import SAMPLE

    return photos or [SAMPLE / "manifest.csv"]


def run_folder(arguments: list[Path] | None) -> Path | None:
    """The one argument, where it is a run's folder."""
    return arguments[0] if arguments and len(arguments) == 1 and (arguments[0] / "run.json").is_file() else None


def default_out(photos: list[Path] | None, *, ending: str = "") -> Path:
    """Where a run goes unless the user says: ``runs/NAME`` by the name of the photos' folder or manifest."""
    return Path("runs") / ((photos[0].resolve().stem or "photos" if photos else "sample") + ending)


def watch(quiet: bool, as_json: bool) -> Watch:
    """Progress bars, unless nobody looks."""
    return unwatched if quiet or as_json else Bars()


def consent(yes: bool) -> "Consent":
    """Shows what would be sent where, and asks on a terminal unless ``yes`` answers; without a terminal: no."""
    from pipeline.cli.console import show_plan
    from pipeline.querying.plan import nobody

    def shown(plan: Any) -> bool:
        show_plan(plan)
        return True

    def confirmed(plan: Any) -> bool:
        show_plan(plan)
        return typer.confirm("Send these faces?", err=True)

    if yes:
        return shown
    return confirmed if sys.stdin.isatty() and sys.stderr.isatty() else nobody


def tell(folder: Path, *, as_json: bool) -> None:
    """Print a run."""
    from pipeline.cli.console import summary
    from pipeline.cli.console import tell as tell_people

    if as_json:
        typer.echo(json.dumps(summary(folder), indent=2, default=str))
    else:
        tell_people(folder)


def print_frame(
    frame: "pd.DataFrame",
    format: str | None,
    *,
    title: str,
    note: str = "",
    printed: "pd.DataFrame | None" = None,
    out: Path | None = None,
) -> None:
    """A table on standard output or in a file: for people, or in one of the formats of ``report.markup``.

    Args:
        frame: all of it, for CSV and JSON.
        format: one of ``FORMATS``; unless given, by the file's ending or for people.
        title, note: the caption.
        printed: what people are shown in place of ``frame``.
        out: the file; standard output unless given.
    """
    from pipeline.report.markup import render_frame

    print_text(render_frame(frame, table_format(format, out), title=title, note=note, printed=printed), out)


def table_format(format: str | None, out: Path | None) -> str:
    """The format of a table by option or file; ends the program where there is no such."""
    from pipeline.report.markup import chosen_format

    try:
        return chosen_format(format, out)
    except ValueError as error:
        stop(str(error))


def print_text(text: str, out: Path | None) -> None:
    """A whole text on standard output or in a file."""
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from pipeline.run.files import write_text

    write_text(out, text)
    typer.echo(f"Written: {out}", err=True)


def stop_if_incomplete(folder: Path) -> None:
    """End with exit code 2 where a classifier stopped early or labelled nothing, with 4 where it labelled little."""
    from pipeline.cli.console import few_labels, stopped

    few = few_labels(folder)
    if reasons := [*stopped(folder), *(words for words, share in few if not share)]:
        stop("\n".join(reasons))
    if few:
        stop("\n".join(words for words, _ in few), code=FEW_ANSWERS)


@contextmanager
def user_errors(*also: type[Exception], verbose: bool = False) -> Iterator[None]:
    """Errors that a user can mend, and those of ``also``, end with their message and exit code 2, no traceback."""
    from pipeline.stages.errors import USER_ERRORS

    if verbose:
        _log_to_stderr()
    try:
        yield
    except (*USER_ERRORS, *also) as error:
        stop(str(error))
    except KeyboardInterrupt:
        stop("stopped; the same command continues where it was", code=130)


def stop(message: str, *, code: int = BAD_INPUT) -> NoReturn:
    """End with a message on standard error."""
    typer.echo(f"counterslope: {harmless(message)}", err=True)
    sys.exit(code)


def _log_to_stderr() -> None:
    class Harmless(logging.Formatter):
        def format(self, record: logging.LogRecord) -> str:
            return harmless(super().format(record))

    logger = logging.getLogger("counterslope")
    if not logger.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(Harmless("%(asctime)s %(message)s", datefmt="%H:%M:%S"))
        logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def harmless(message: str) -> str:
    """Without credentials of the environment, and without what a terminal would obey: it may be a service's words."""
    from pipeline.config.redaction import Redactor, sounds_secret
    from pipeline.run.text import visible

    redacted = Redactor([name for name in os.environ if sounds_secret(name)]).text(message)
    return "\n".join(visible(line) for line in redacted.splitlines())
