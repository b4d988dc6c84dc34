"""Sources of options, by precedence: command line > TOML file (``--config``) > environment > default.

Tables by adapter or attribute are overridden key by key. In the environment, the option ``mode`` of the section
``sweep`` is ``COUNTERSLOPE_SWEEP__MODE``; lists are separated by commas.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

from adapters.options import complaint, did_you_mean
from pipeline.config.flags import flag_of, value_of_texts
from pipeline.config.options import ConfigError, Settings

if TYPE_CHECKING:
    from pydantic_settings import BaseSettings

PREFIX = "COUNTERSLOPE_"
COMMAND_LINE = "the command line"
KEY = "[key]"  # marks a table's key in the locations of pydantic's errors
# Former names of options -> what to write now.
RENAMED = {
    "sweep.gender_steps": "sweep.steps.gender",
    "sweep.race_steps": "sweep.steps.race",
    "sweep.race_pair": "sweep.poles.race",
    "statistics.confidence": 'statistics.response = "confidence"',
    "statistics.presence": "statistics.presence_threshold",
}


def load_settings(
    *, given: Mapping[str, Mapping[str, Any]], file: Path | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Return the settings from all sources by their precedence.

    Args:
        given: section -> option -> value from the command line; None means "not given".
        file: a TOML file.
        environment: the environment variables; default: those of the process.

    Raises:
        ConfigError: a section or option is unknown, or a value is invalid. The message names the source.
    """
    merged: dict[str, dict[str, Any]] = {}
    # (section, option) -> the sources of its value; (section,) -> the sources of any option in it.
    origins: dict[tuple[str, ...], list[str]] = {}
    try:
        sources = (
            ("the environment", _from_environment(os.environ if environment is None else environment)),
            (str(file), {} if file is None else _from_file(file)),
            (COMMAND_LINE, only_given(given)),
        )
        for source, sections in sources:
            for section, options in sections.items():
                if not isinstance(options, Mapping):
                    raise ConfigError(f"{section!r} in {source} belongs to no section, such as [sweep]")
                merged[section] = overlaid(merged.get(section, {}), options)
                origins.setdefault((section,), []).append(source)
                for name, value in options.items():
                    added_to = origins.get((section, name), []) if isinstance(value, Mapping) else []
                    origins[section, name] = [*added_to, source]
        return settings_from(merged, origins)
    except RecursionError:
        raise ConfigError(f"the options in {file or 'the environment'} are nested too deeply") from None


def only_given(given: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return section -> option -> value without the values None and without sections that are then empty."""
    kept = {section: {n: v for n, v in options.items() if v is not None} for section, options in given.items()}
    return {section: options for section, options in kept.items() if options}


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any], *, depth: int = 2) -> dict[str, Any]:
    """Merge a section's options (option -> value); ``above`` wins.

    Tables are merged key by key to the given depth, by default: adapter, then its options.
    """
    found = dict(below)
    for name, value in above.items():
        old = below.get(name)
        if depth and isinstance(old, Mapping) and isinstance(value, Mapping):
            value = overlaid(old, value, depth=depth - 1)
        found[name] = value
    return found


def settings_from(
    sections: Mapping[str, Any], origins: Mapping[tuple[str, ...], Sequence[str]] | None = None
) -> Settings:
    """Return the settings from section -> option -> value.

    Args:
        sections: section -> option -> value.
        origins: (section, option) or (section,) -> where it was set, for error messages.

    Raises:
        ConfigError: a section or option is unknown, or a value is invalid.
    """
    try:
        return Settings.model_validate(sections)
    except ValidationError as error:
        raise ConfigError("\n".join(problems(error, Settings, origins))) from error


def problems(
    error: ValidationError, model: type[BaseModel], origins: Mapping[tuple[str, ...], Sequence[str]] | None = None
) -> list[str]:
    """Return one sentence per invalid option: its name, where it was set, what it must be."""
    lines = []
    for problem in error.errors(include_url=False):
        place = tuple(str(part) for part in problem["loc"])
        known, rest = _fields(model), place
        if model is Settings and len(place) > 1:
            known, rest = _fields(known.get(place[0])), place[1:]
        field = known.get(rest[0])
        source = " and ".join((origins or {}).get(place[:2], (origins or {}).get(place[:1], ())))
        if source == COMMAND_LINE and field is not None and (flag := flag_of(field)) is not None and flag.names:
            source += f", {' or '.join(flag.names[0].format(key) for key in flag.keys or ('',))}"
        if problem["type"] == "extra_forbidden":
            renamed = RENAMED.get(".".join(place))
            what = "section" if model is Settings and len(place) == 1 else "option"
            words = f"this is now {renamed}" if renamed else f"there is no such {what}{did_you_mean(rest[0], known)}"
        else:
            leaf, depth = _leaf(field or FieldInfo(), rest[1:])
            place = place[: len(place) - len(rest) + 1 + depth]
            # Options of adapters may hold a secret, so they are never repeated.
            words = complaint(problem, leaf, shown="options" not in place)
        lines.append(f"{'.'.join(place)}{f' (from {source})' if source else ''}: {words}")
    return list(dict.fromkeys(lines))


def _leaf(field: FieldInfo, places: Sequence[str]) -> tuple[FieldInfo, int]:
    """Return the field of a value within a table or a list, and the number of ``places`` that lead to it.

    Places that pydantic adds for the members of a union are not counted.
    """
    for depth, _ in enumerate(places):
        kinds = [kind for kind in get_args(field.annotation) if kind not in (NoneType, Ellipsis)]
        if get_origin(field.annotation) in (Union, UnionType) and len(kinds) == 1:
            field = FieldInfo.from_annotation(kinds[0])
            kinds = [kind for kind in get_args(field.annotation) if kind is not Ellipsis]
        if not kinds or get_origin(field.annotation) in (Union, UnionType):
            return field, depth
        if KEY in places:
            return FieldInfo.from_annotation(kinds[0]), depth + 1
        field = FieldInfo.from_annotation(kinds[-1])
    return field, len(places)


def upgraded(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the settings of an older run's record under their current names."""
    sections = {section: dict(options) for section, options in settings.items()}
    sweep, statistics = sections.get("sweep", {}), sections.get("statistics", {})
    if "race_pair" in sweep:
        swept = sweep.get("attributes", ())
        steps = {name: sweep.pop(f"{name}_steps") for name in ("gender", "race") if f"{name}_steps" in sweep}
        sweep["steps"] = {name: number for name, number in steps.items() if name in swept}
        pair = sweep.pop("race_pair")
        sweep["poles"] = {"race": pair} if "race" in swept else {}
    if "confidence" in statistics:
        statistics["response"] = "confidence" if statistics.pop("confidence") else "presence"
        statistics["presence_threshold"] = statistics.pop("presence", None)
    return sections


def _from_file(file: Path) -> dict[str, Any]:
    from pydantic_settings import TomlConfigSettingsSource

    try:
        file.stat()
        return TomlConfigSettingsSource(_readable(), file).toml_data
    except OSError as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {file} is not TOML: {error}") from error


def _from_environment(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """Read the variables ``COUNTERSLOPE_SECTION__OPTION``, and ``…__KEY`` for one value of a table."""
    from pydantic_settings import EnvSettingsSource

    own = {name.lower(): text for name, text in variables.items() if name.startswith(PREFIX) and "__" in name}
    source = EnvSettingsSource(_readable(), case_sensitive=False)
    source.env_vars = own
    sections: dict[str, dict[str, Any]] = source()
    for name in own:  # unknown sections, so that validation names them
        sections.setdefault(name.removeprefix(PREFIX.lower()).partition("__")[0], {})
    for section, options in sections.items():
        for name, given in options.items():
            field = _fields(_fields(Settings).get(section)).get(name)
            if field is None:
                continue
            try:
                if isinstance(given, str):
                    options[name] = value_of_texts(field, [given])
                elif (flag := flag_of(field)) is not None and flag.keys and flag.parse is not None:
                    options[name] = {key: flag.parse([text]) for key, text in given.items()}
            except ValueError as error:
                variable = f"{PREFIX}{section}__{name}".upper()
                raise ConfigError(f"{variable} in the environment: {error}") from error
    return sections


@cache
def _readable() -> "type[BaseSettings]":
    """Return the settings as a pydantic-settings class, imported late. ``value_of_texts`` converts the texts."""
    from pydantic_settings import BaseSettings, SettingsConfigDict

    class Sources(Settings, BaseSettings):
        model_config = SettingsConfigDict(env_prefix=PREFIX, env_nested_delimiter="__", enable_decoding=False)

    return Sources


def _fields(model: type[BaseModel] | FieldInfo | None) -> Mapping[str, FieldInfo]:
    """Return the options of a section, or the sections of the settings."""
    kind = model.annotation if isinstance(model, FieldInfo) else model
    return kind.model_fields if isinstance(kind, type) and issubclass(kind, BaseModel) else {}
