"""Sections of options, the command-line flag of an option, and parsers from text to an option's value."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

EVERY = "*"  # in place of an adapter's name: all remote adapters


class Section(BaseModel):
    """A group of options: ``[name]`` in a TOML file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )


@dataclass(frozen=True)
class Flag:
    """The command-line form of an option.

    Attributes:
        names: the flag and its short form; default: made from the option's name.
        metavar: the placeholder for the value in the help.
        parse: converts the texts of a repeated flag to the value; default: see ``value_of_texts``.
        keys: for a table, one flag per key, which replaces ``{}`` in the name.
        argument: whether it is a positional argument.
    """

    names: tuple[str, ...] = ()
    metavar: str | None = None
    parse: Callable[[Sequence[str]], Any] | None = None
    keys: tuple[str, ...] = ()
    argument: bool = False


def listed(texts: Sequence[str]) -> list[str]:
    """Split every text at its commas."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def listed_unless(empty: str) -> Callable[[Sequence[str]], list[str]]:
    """Return a parser that splits every text at its commas; the word ``empty`` alone is the empty list."""
    return lambda texts: [] if (names := listed(texts)) == [empty] else names


def paired(texts: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE, repeated or separated by commas, into a table.

    Raises:
        ValueError: a text has no equals sign.
    """
    pairs = [part.partition("=") for part in listed(texts)]
    for name, equals, _ in pairs:
        if not equals:
            raise ValueError(f"{name!r} is not of the form NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs}


def by_adapter(texts: Sequence[str]) -> dict[str, str]:
    """Parse repeated [NAME=]NUMBER into a table; a number without a name applies to all remote classifiers."""
    return {name or EVERY: number for name, _, number in (text.rpartition("=") for text in texts)}


def adapter_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Parse repeated NAME.OPTION=VALUE into nested tables. A value that is valid JSON is decoded.

    Raises:
        ValueError: a text has another form. The message omits the value, which may be a secret.
    """
    options: dict[str, dict[str, Any]] = {}
    for text in texts:
        place, equals, value = text.partition("=")
        adapter, dot, option = place.rpartition(".")
        if not (equals and dot and adapter and option):
            raise ValueError(f"{place!r} is not of the form NAME.OPTION=VALUE")
        try:
            options.setdefault(adapter, {})[option] = json.loads(value)
        except ValueError:
            options.setdefault(adapter, {})[option] = value
    return options


def flag_of(field: FieldInfo) -> Flag | None:
    """Return the command-line form of an option, or None if it has none."""
    return next((found for found in field.metadata if isinstance(found, Flag)), None)


def value_of_texts(field: FieldInfo, texts: Sequence[str]) -> Any:
    """Return the value of an option given as text on the command line or in the environment.

    A list is separated by commas. A table is JSON or NAME=VALUE pairs. For any other type the last text is returned,
    and pydantic converts it.

    Raises:
        ValueError: a text does not have the option's form.
    """
    flag, kind = flag_of(field), get_origin(field.annotation)
    table = isinstance(kind, type) and issubclass(kind, Mapping)
    if table and texts[-1].lstrip().startswith("{"):
        return json.loads(texts[-1])
    if flag is not None and flag.parse is not None and not flag.keys:
        return flag.parse(texts)
    return paired(texts) if table else listed(texts) if kind is tuple else texts[-1]
