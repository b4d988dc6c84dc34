"""Options of commands, made from the fields of settings and of analyses: their names, types, help and defaults.

``with_options`` is how a command takes them; the options that are no field are declared here, too.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from typer.core import TyperGroup

from adapters.options import did_you_mean
from pipeline.cli.console import stop
from pipeline.config.flags import Flag, flag_of, value_of_texts
from pipeline.config.options import ConfigError, Settings
from pipeline.config.sources import load_settings, problems

if TYPE_CHECKING:
    from pipeline.run.storage import Location

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
    list[str] | None,
    typer.Argument(
        help="A folder, files, or one CSV/Parquet manifest (column photo), or a URL (s3://, gs://, abfs://) of these. "
        "None: the embedded sample.",
    ),
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


# Group in --help -> commands; any other is an analysis.
PANELS = {
    "From photos": ("audit", "generate", "collect", "mask"),
    "Classifiers": ("plan", "query", "labels", "adapters"),
    "What a run shows": ("status", "report", "validity", "figures", "review", "repair"),
}


class Commands(TyperGroup):
    """The commands of the program, in groups; a flag that has another name now is explained."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command by its name, as typer finds it."""
        found: Any = super().get_command(ctx, cmd_name)
        if found is not None:
            panels = [panel for panel, names in PANELS.items() if cmd_name in names]
            found.rich_help_panel = panels[0] if panels else "Analyses"
        return found

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
    made = {
        option.parameter.name: option
        for model in models
        for name, field in model.model_fields.items()
        if (not only or name in only) and (flag := flag_of(field) or (None if model in SECTIONS else Flag()))
        for option in (_Option(model, name, field, flag, key) for key in flag.keys or (None,))
    }

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True).parameters
        parameters: list[inspect.Parameter] = []
        for name, parameter in own.items():
            if name not in ("given", "options"):
                parameters.append(parameter.replace(kind=parameter.KEYWORD_ONLY))
            elif not made.keys() & {one.name for one in parameters}:
                parameters += [option.parameter for option in made.values()]

        @wraps(command)
        def run(**values: Any) -> None:
            received: dict[type[BaseModel], dict[str, Any]] = {model: {} for model in models}
            for name, option in made.items():
                value, into = option.value_of(values.pop(name)), received[option.model]
                if option.key is None:
                    into[option.name] = value
                elif value is not None:
                    into[option.name] = {**into.get(option.name, {}), option.key: value}
            if "given" in own:
                values["given"] = {SECTIONS[model]: into for model, into in received.items() if model in SECTIONS}
            for model, into in received.items():
                if model not in SECTIONS:
                    values["options"] = _checked(model, into)
            command(**values)

        vars(run).pop("__wrapped__")  # typer would look through it
        vars(run).update(__signature__=inspect.Signature(parameters))
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return run

    return decorate


@dataclass(frozen=True)
class _Option:
    """A field of a model as an option of a command; with a ``key``, one value of a field that is a table."""

    model: type[BaseModel]
    name: str
    field: FieldInfo
    flag: Flag
    key: str | None

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name.format(self.key) for name in self.flag.names) or (f"--{self.name.replace('_', '-')}",)

    @property
    def parameter(self) -> inspect.Parameter:
        """As typer reads it from a function's signature; None means "not given"."""
        kinds = [kind for kind in get_args(self.field.annotation) if kind is not NoneType]
        kind = kinds[0] if NoneType in get_args(self.field.annotation) else self.field.annotation
        several = isinstance(get_origin(kind), type) and self.key is None
        choices = get_args(get_args(kind)[0]) if several else get_args(kind)
        metavar = self.flag.metavar or ("|".join(map(str, choices)) if choices else None)
        text = self.field.description or ""
        help = f"{text[:1].upper()}{text[1:]}." if text else None
        names = (f"{self.names[0]}/--no-{self.names[0][2:]}",) if kind is bool else self.names
        option = typer.Option(*names, help=help, metavar=metavar, show_default=self.shown_default)
        if self.flag.argument:
            option = typer.Argument(help=help, metavar=metavar, show_default=False)
        plain: Any = kind if kind in (bool, int, float, Path) and self.key is None else str
        annotation: Any = Annotated[(list[str] if several else plain) | None, option]
        unique = "_".join(part for part in (SECTIONS.get(self.model), self.name, self.key) if part)
        return inspect.Parameter(unique, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    @property
    def shown_default(self) -> str | bool:
        default = self.field.default
        if isinstance(default, str | int | float) and not isinstance(default, bool) and " " not in str(default):
            return str(default)
        return ", ".join(map(str, default)) if isinstance(default, tuple) and default else False

    def value_of(self, given: Any) -> Any:
        """The value from what typer read; ends the program where a text has not the option's form."""
        texts = [given] if isinstance(given, str) else given
        if not isinstance(texts, list) or not texts:
            return None if given == [] else given
        try:
            if self.key is not None and self.flag.parse is not None:
                return self.flag.parse(texts)
            return value_of_texts(self.field, texts)
        except ValueError as error:
            stop(f"{self.names[0]}: {error}")


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


def inputs(photos: list[str] | None) -> "list[Location]":
    """The photos, or the embedded sample's manifest; ends the program where a path does not exist."""
    from pipeline.photos import SAMPLE
    from pipeline.run.storage import location

    found = [location(photo) for photo in photos or ()]
    for path in found:
        if not path.exists():
            stop(f"there is no file or folder {path}")
    return found or [SAMPLE / "manifest.csv"]


def run_folder(arguments: list[str] | None) -> Path | None:
    """The one argument, where it is a run's folder."""
    return (
        Path(arguments[0]) if arguments and len(arguments) == 1 and Path(arguments[0], "run.json").is_file() else None
    )


def default_out(photos: list[str] | None, *, ending: str = "") -> Path:
    """Where a run goes unless the user names a folder: ``runs/NAME`` by the name of the photos' folder or manifest."""
    return Path("runs") / ((Path(photos[0]).resolve().stem or "photos" if photos else "sample") + ending)
