"""Everything a classifier declares, read from its class: needs no credentials, no network and no package it would load.

What is wrong with one here and now is ``adapters.diagnosis``'s business.
"""

import inspect
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from adapters.base import Capabilities
from adapters.registry import load, options_of

_ENTRY = re.compile(r"(\w+): (.*)")

_WORDS = {"str": "text", "int": "whole number", "float": "number", "bool": "true | false", "Path": "path"}


@dataclass(frozen=True)
class Option:
    """One option of a classifier.

    Attributes:
        name: as in ``--adapter-option NAME.OPTION=VALUE``.
        kind: what fits.
        default: as it is written; None where it must be given.
        help: what it does.
    """

    name: str
    kind: str
    default: str | None
    help: str


@dataclass(frozen=True)
class Details:
    """What a classifier declares.

    Attributes:
        name: as it is asked for.
        usage: how it is asked for: ``opencv``, ``onnx:TARGET``, or ``google[:TARGET]`` where it can do without one.
        target: what the target is; empty where there is none.
        about: what it is, in paragraphs.
        capabilities: what its class declares; its options may change some of it.
        options: in the order of its signature.
    """

    name: str
    usage: str
    target: str
    about: str
    capabilities: Capabilities
    options: tuple[Option, ...]


def details(name: str) -> Details:
    """What the classifier of that name declares.

    Args:
        name: its name; a target behind a colon is passed over.

    Raises:
        AdapterError: an unknown name, or one whose module cannot be loaded.
    """
    name = name.partition(":")[0]
    factory = load(name)
    about, arguments = _documented(factory)
    target = inspect.signature(factory).parameters.get("target")
    needed = target is not None and target.default is target.empty
    declared = getattr(factory, "capabilities", None)
    return Details(
        name=name,
        usage=name if target is None else f"{name}:TARGET" if needed else f"{name}[:TARGET]",
        target=arguments.get("target", ""),
        about=about,
        capabilities=declared if isinstance(declared, Capabilities) else Capabilities(),
        options=tuple(
            Option(
                name=parameter.name,
                kind=kind(parameter.annotation),
                default=None if parameter.default is parameter.empty else _written(parameter.default),
                help=arguments.get(parameter.name, ""),
            )
            for parameter in options_of(factory)
        ),
    )


def kind(annotation: Any, *, many: bool = False) -> str:
    """An annotation in words: ``png | jpeg``, ``number``, ``list of numbers``."""
    origin, inner = get_origin(annotation), get_args(annotation)
    named = getattr(origin, "__name__", "")
    if origin is Annotated:
        return kind(inner[0], many=many)
    if origin is Literal:
        return " | ".join(str(value) or '""' for value in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(kind(each, many=many) for each in inner if each is not type(None)))
    if named in ("tuple", "list", "Sequence"):
        kinds = dict.fromkeys(kind(each, many=True) for each in inner if each is not ...)
        count = f"{len(inner)} " if named == "tuple" and ... not in inner else ""
        return f"list of {count}{' or '.join(kinds)}"
    if named in ("dict", "Mapping"):
        return f"table of {kind(inner[1], many=True)}"
    word = _WORDS.get(getattr(annotation, "__name__", ""), "value")
    return f"{word}s" if many and word not in ("text", "true | false") else word


def _documented(factory: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """A class's docstring as what stands before its sections, and what is said of each argument."""
    text = (inspect.getdoc(factory) or "").replace("``", "")
    about, _, rest = text.partition("\nArgs:\n")
    arguments: dict[str, str] = {}
    latest = ""
    for line in rest.splitlines():
        if line and not line.startswith("    "):
            break
        if line.startswith("     "):
            arguments[latest] = f"{arguments.get(latest, '')} {line.strip()}".strip()
        elif found := _ENTRY.match(line.strip()):
            latest = found[1]
            arguments[latest] = found[2]
    return about.partition("\nRaises:\n")[0].strip(), arguments


def _written(default: object) -> str:
    """A default as the command line would take it."""
    if isinstance(default, bool):
        return str(default).lower()
    if default is None or default == "":
        return "none"
    return str(list(default)) if isinstance(default, tuple) else str(default)
