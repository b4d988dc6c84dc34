"""What a group of options is, and how one is written as text: its flag, and the value that texts stand for."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_origin

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

EVERY = "*"  # in place of an adapter's name: all remote ones


class Section(BaseModel):
    """A group of options; ``[name]`` in a file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", hide_input_in_errors=True, allow_inf_nan=False, defer_build=True
    )


@dataclass(frozen=True)
class Flag:
    """An option that commands take.

    Attributes:
        names: the flag and its short form; made from the option's name unless given.
        metavar: what stands for the value in the help.
        parse: makes the value of the texts given; see ``value_of_texts`` for what holds unless given.
        keys: one flag for each key of a table, in place of ``{}`` in the name; each gives one of the table's values.
        argument: stands by its place among the words of the command, without a name.
    """

    names: tuple[str, ...] = ()
    metavar: str | None = None
    parse: Callable[[Sequence[str]], Any] | None = None
    keys: tuple[str, ...] = ()
    argument: bool = False


def listed(texts: Sequence[str]) -> list[str]:
    """Names from texts that hold one or several, separated by commas."""
    return [part.strip() for text in texts for part in text.split(",") if part.strip()]


def named_or_none(texts: Sequence[str]) -> list[str]:
    """Names from texts as `listed` takes them; ``none`` alone stands for no name."""
    return [] if [text.strip() for text in texts] == ["none"] else listed(texts)


def paired(texts: Sequence[str]) -> dict[str, str]:
    """NAME=VALUE, repeated or separated by commas, as a table.

    Raises:
        ValueError: a text has no equals sign.
    """
    pairs = [part.partition("=") for part in listed(texts)]
    for name, equals, _ in pairs:
        if not equals:
            raise ValueError(f"{name!r} is not of the form NAME=VALUE")
    return {name.strip(): value.strip() for name, _, value in pairs}


def by_adapter(texts: Sequence[str]) -> dict[str, str]:
    """[NAME=]NUMBER, repeated, as a table; a number without a name is for every remote classifier."""
    return {name or EVERY: number for name, _, number in (text.rpartition("=") for text in texts)}


def adapter_options(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """NAME.OPTION=VALUE, repeated, as nested tables; a value that is JSON is taken as such.

    Raises:
        ValueError: a text has another form; the value is not repeated, because it may be a secret.
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


def families(texts: Sequence[str]) -> list[str]:
    """Columns separated by commas; ``all`` stands for none of them."""
    return [] if [text.strip() for text in texts] == ["all"] else listed(texts)


def flag_of(field: FieldInfo) -> Flag | None:
    """How commands take an option; None where they do not."""
    return next((found for found in field.metadata if isinstance(found, Flag)), None)


def value_of_texts(field: FieldInfo, texts: Sequence[str]) -> Any:
    """The value of an option that was given as texts, on the command line or in the environment.

    A list is separated by commas; a table is JSON or NAME=VALUE; anything else is the last text itself, which is
    converted when the option is checked.

    Raises:
        ValueError: a text has not the option's form.
    """
    flag, kind = flag_of(field), get_origin(field.annotation)
    table = isinstance(kind, type) and issubclass(kind, Mapping)
    if table and texts[-1].lstrip().startswith("{"):
        return json.loads(texts[-1])
    if flag is not None and flag.parse is not None and not flag.keys:
        return flag.parse(texts)
    return paired(texts) if table else listed(texts) if kind is tuple else texts[-1]
