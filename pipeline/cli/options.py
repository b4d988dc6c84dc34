"""Options of commands, made from the fields of settings and of analyses; and how commands end and print.

``with_options`` is how a command takes them: names, types, help and defaults are the fields' own.
"""

import inspect
import json
import logging
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, NoReturn, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from pipeline.config.options import ConfigError, Flag, Settings, flag_of, value_of_texts
from pipeline.config.sources import did_you_mean, load_settings, problems
from pipeline.run.progress import Bars, Watch, unwatched

if TYPE_CHECKING:
    from pipeline.querying.plan import Consent

BAD_INPUT = 2
CARD_FAILS = 3
FEW_ANSWERS = 4
SECTIONS = {field.annotation: name for name, field in Settings.model_fields.items()}
# What flags were called, and what to write now.
OLD_FLAGS = {
    "--gender-steps": "--steps gender=K",
    "--race-steps": "--steps race=K",
    "--confidence": "--response confidence",
    "--presence": "--response presence; the score from which a label is present is --presence-threshold",
}

Given = Mapping[str, Mapping[str, Any]]
NOT_GIVEN: Given = {}

Photos = Annotated[
    list[Path] | None,
    typer.Argument(help="A folder, files, or one CSV/Parquet manifest (column photo). None: the embedded sample."),
]
RunFolder = Annotated[Path, typer.Argument(help="A run's folder.")]
Config = Annotated[Path | None, typer.Option("--config", help="TOML file with any option.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object for machines.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bars.")]
Strict = Annotated[bool, typer.Option("--strict", help="End with exit code 3 if the validity card fails.")]
Verbose = Annotated[bool, typer.Option("--verbose", "-v", help="Print what goes wrong on the way, call by call.")]
Only = Annotated[bool, typer.Option("--only", help="Classifiers that are not named now leave the run.")]
Drop = Annotated[
    list[str] | None,
    typer.Option("--drop", help="A classifier that leaves the run; repeatable.", show_default=False),
]
NoReport = Annotated[bool, typer.Option("--no-report", help="Tables only, no report.html.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Agree that faces are sent to the remote classifiers named (for scripts).")
]
TableFormat = Annotated[
    str | None, typer.Option(help="Print the table as text, csv, json, md, latex or html.", show_default=False)
]
TableFile = Annotated[
    Path | None,
    typer.Option("--out", help="Write the table to a file; .csv, .json, .md, .tex, .html or .txt.", show_default=False),
]


class Commands(TyperGroup):
    """The commands of the program; a flag that has another name now is explained."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command that ``args`` name, as typer finds it."""
        found = super().resolve_command(ctx, args)
        if found[1] is not None:
            old = OLD_FLAGS | getattr(found[1].callback, "renamed", {})
            known = {flag for one in found[1].params for flag in (*one.opts, *one.secondary_opts)}
            for flag in (text.partition("=")[0] for text in found[2]):
                if flag in old and flag not in known:
                    stop(f"{flag} is now {old[flag]}")
        return found


def with_options(
    *models: type[BaseModel], only: Sequence[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options that are fields of models.

    Of a section of the settings, the fields with a ``Flag`` become options, and the command receives what was given as
    ``given``: section -> option -> value. Of any other model, all fields do, and the command receives a checked
    instance as ``options``. The options stand where that parameter stands in the command's signature.

    Args:
        models: sections of the settings, or one model of a command's own options, or both.
        only: the names of the fields taken; all unless given.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        made = {
            parameter.name: (model, name, key, parameter)
            for model in models
            for name, field in model.model_fields.items()
            if (not only or name in only) and (flag := flag_of(field) or (None if model in SECTIONS else Flag()))
            for key in flag.keys or (None,)
            for parameter in [_parameter(model, name, field, flag, key=key)]
        }
        place = next(number for number, name in enumerate(own) if name in ("given", "options"))
        kept = [parameter for name, parameter in own.items() if name not in ("given", "options")]
        shown = [*kept[:place], *(parameter for *_, parameter in made.values()), *kept[place:]]

        @wraps(command)
        def run(**values: Any) -> None:
            received: dict[type[BaseModel], dict[str, Any]] = {model: {} for model in models}
            for name, (model, option, key, _) in made.items():
                value = _value(option, model.model_fields[option], values.pop(name), key)
                if key is None:
                    received[model][option] = value
                elif value is not None:
                    received[model][option] = {**received[model].get(option, {}), key: value}
            given = {SECTIONS[model]: options for model, options in received.items() if model in SECTIONS}
            if "given" in own:
                values["given"] = given
            if "options" in own:
                values["options"] = next(
                    _checked(model, options) for model, options in received.items() if model not in SECTIONS
                )
            command(**values)

        signature = inspect.Signature([parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in shown])
        vars(run).pop("__wrapped__")  # typer would look through it
        vars(run).update(__signature__=signature)
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return run

    return decorate


def _parameter(
    model: type[BaseModel], name: str, field: FieldInfo, flag: Flag, *, key: str | None
) -> inspect.Parameter:
    kinds = [kind for kind in get_args(field.annotation) if kind is not NoneType]
    kind = kinds[0] if NoneType in get_args(field.annotation) else field.annotation
    several = isinstance(get_origin(kind), type) and key is None
    text = field.description or ""
    section = SECTIONS.get(model)
    names = _flags(name, flag, key)
    metavar = flag.metavar
    choices = get_args(get_args(kind)[0]) if several else get_args(kind)
    if metavar is None and choices:
        metavar = "|".join(map(str, choices))
    option = typer.Option(
        *((f"{names[0]}/--no-{names[0].removeprefix('--')}",) if kind is bool else names),
        help=f"{text[:1].upper()}{text[1:]}." if text else None,
        metavar=metavar,
        show_default=_shown_default(field),
    )
    if flag.argument:
        option = typer.Argument(help=option.help, metavar=metavar, show_default=False)
    plain: Any = kind if kind in (bool, int, float, Path) and key is None else str
    annotation: Any = Annotated[(list[str] if several else plain) | None, option]
    unique = "_".join(part for part in (section, name, key) if part)
    return inspect.Parameter(unique, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _flags(name: str, flag: Flag | None, key: str | None) -> tuple[str, ...]:
    return tuple(one.format(key) for one in flag.names) if flag and flag.names else (f"--{name.replace('_', '-')}",)


def _shown_default(field: FieldInfo) -> str | bool:
    default = field.default
    if isinstance(default, str | int | float) and not isinstance(default, bool) and " " not in str(default):
        return str(default)
    return ", ".join(map(str, default)) if isinstance(default, tuple) and default else False


def _value(name: str, field: FieldInfo, given: Any, key: str | None) -> Any:
    """An option's value from what typer read; ends the program where a text has not the option's form."""
    flag = flag_of(field)
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, list) or not texts:
        return None if given == [] else given
    try:
        if key is not None and flag is not None and flag.parse is not None:
            return flag.parse(texts)
        return value_of_texts(field, texts)
    except ValueError as error:
        stop(f"{_flags(name, flag, key)[0]}: {error}")


def _checked(model: type[BaseModel], values: Mapping[str, Any]) -> BaseModel:
    try:
        return model.model_validate({name: value for name, value in values.items() if value is not None})
    except ValidationError as error:
        stop("\n".join(problems(error, model)))


def settings_of_command(given: Given, config: Path | None = None) -> Settings:
    """All options of a command, checked with the adapters' names, before any work.

    Raises:
        ConfigError: an option is unknown or does not fit, or there is no such adapter.
    """
    settings = load_settings(given=given, file=config)
    for adapter in settings.query.adapters:
        check_adapter_name(adapter)
    return settings


def check_adapter_name(adapter: str) -> None:
    """Check that there is an adapter of this name, loading none.

    Raises:
        ConfigError: there is none; the message suggests one.
    """
    from adapters.registry import names

    name, known = adapter.partition(":")[0], names()
    if name not in known:
        raise ConfigError(f"there is no adapter {name!r}{did_you_mean(name, known)} (see counterslope adapters)")


def inputs(photos: list[Path] | None) -> list[Path]:
    """The photos, or the embedded sample's manifest; ends the program where a path does not exist."""
    from pipeline.photos import SAMPLE

    for path in photos or ():
        if not path.exists():
            stop(f"there is no file or folder {path}")
    return photos or [SAMPLE / "manifest.csv"]


def run_folder(arguments: list[Path] | None) -> Path | None:
    """The one argument, where it is a run's folder."""
    return arguments[0] if arguments and len(arguments) == 1 and (arguments[0] / "run.json").is_file() else None


def default_out(photos: list[Path] | None, *, ending: str = "") -> Path:
    """Where a run goes unless the user names a folder: ``runs/NAME`` by the name of the photos' folder or manifest."""
    return Path("runs") / ((photos[0].resolve().stem or "photos" if photos else "sample") + ending)


def watch(quiet: bool, as_json: bool) -> Watch:
    """Progress bars, unless nobody looks."""
    return unwatched if quiet or as_json else Bars()


def consent(yes: bool) -> "Consent":
    """Show what would be sent where, and ask on a terminal unless ``yes`` answers; without a terminal: no."""
    from pipeline.cli.console import print_plan
    from pipeline.querying.plan import nobody

    def shown(plan: Any) -> bool:
        print_plan(plan)
        return True

    def confirmed(plan: Any) -> bool:
        print_plan(plan)
        return typer.confirm("Send these faces?", err=True)

    if yes:
        return shown
    return confirmed if sys.stdin.isatty() and sys.stderr.isatty() else nobody


def show_run(folder: Path, *, as_json: bool) -> None:
    """Print a run, for people or machines."""
    from pipeline.cli.console import print_run
    from pipeline.stages.status import summary

    if as_json:
        typer.echo(json.dumps(summary(folder), indent=2, default=str))
    else:
        print_run(folder)


def table_format(format: str | None, out: Path | None) -> str:
    """The format of a table by option or file; ends the program where there is none, or no place for the file."""
    from pipeline.report.markup import chosen_format

    if out is not None and not out.parent.is_dir():
        stop(f"--out {out}: there is no folder {out.parent}")
    try:
        return chosen_format(format, out)
    except ValueError as error:
        stop(str(error))


def print_text(text: str, out: Path | None) -> None:
    """Put a whole text on standard output or in a file."""
    if out is None:
        typer.echo(text, nl=not text.endswith("\n"))
        return
    from pipeline.run.files import write_text

    write_text(out, text)
    typer.echo(f"Written: {out}", err=True)


def stop_if_incomplete(folder: Path) -> None:
    """End with exit code 2 where a classifier stopped early or labelled nothing, with 4 where it labelled little."""
    from pipeline.stages.status import few_labels, stop_reasons

    few = few_labels(folder)
    if reasons := [*stop_reasons(folder), *(words for words, share in few if not share)]:
        stop("\n".join(reasons))
    if few:
        stop("\n".join(words for words, _ in few), code=FEW_ANSWERS)


@contextmanager
def user_errors(*also: type[Exception], verbose: bool = False) -> Iterator[None]:
    """Errors that a user can correct, and those of ``also``, end with their message and exit code 2, no traceback."""
    from pipeline.stages.audit import USER_ERRORS

    if verbose:
        _log_to_stderr()
    try:
        yield
    except (*USER_ERRORS, *also) as error:
        stop(str(error))
    except OSError as error:
        if error.filename is None:
            raise
        stop(f"{error.filename}: {error.strerror}")
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
    """A text without the environment's credentials or control characters: some of it may come from a service."""
    from pipeline.config.redaction import environment_redactor
    from pipeline.run.text import visible

    redacted = environment_redactor().text(message)
    return "\n".join(visible(line) for line in redacted.splitlines())
