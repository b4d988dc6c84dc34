"""Paths into JSON: ``result.tags[*].tag.en`` names every English tag of a list of tags. Pure; knows no service.

A path is steps from the value it starts at:

- ``name`` or ``.name``: that member of an object; ``["odd name"]`` where it holds dots or brackets;
- ``[2]``: that item of a list, ``[-1]`` the last one;
- ``[*]``: every item of a list; an object counts as the list of its ``[name, value]`` pairs;
- nothing at all: the value itself.
"""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

_STEP = re.compile(
    r'\.?(?P<name>[^.\[\]"\s]+)|\[(?P<index>-?\d{1,9})\]|\[(?P<every>\*)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]'
)


class Missing:
    """Stands where a path leads nowhere."""

    def __repr__(self) -> str:
        return "nothing"


MISSING: Final = Missing()
_EVERY: Final = None


@dataclass(frozen=True)
class JsonPath:
    """A path as it was written, and its steps: a member's name, an item's number, or None for every item."""

    text: str
    steps: tuple[str | int | None, ...]

    @property
    def many(self) -> bool:
        """It names several values."""
        return _EVERY in self.steps

    def all(self, content: Any) -> list[Any]:
        """Every value it leads to, ``MISSING`` in the place of each that is not there."""
        return list(_followed(content, self.steps))

    def one(self, content: Any) -> Any:
        """The first value it leads to, or ``MISSING``."""
        return next(iter(_followed(content, self.steps)), MISSING)


def json_path(text: str) -> JsonPath:
    """Read a path.

    Raises:
        ValueError: it is not written as above; the message says where.
    """
    steps: list[str | int | None] = []
    position = 0
    while position < len(text):
        found = _STEP.match(text, position)
        if found is None or (position == 0 and text[0] == "."):
            raise ValueError(
                f"the path {text!r} cannot be read from {text[position:]!r} on: write it like result.tags[*].name"
            )
        if found["name"] is not None:
            if position > 0 and text[position] != ".":
                raise ValueError(f"the path {text!r} needs a dot before {found['name']!r}")
            steps.append(found["name"])
        elif found["index"] is not None:
            steps.append(int(found["index"]))
        elif found["every"] is not None:
            steps.append(_EVERY)
        else:
            steps.append(_unquoted(found["quoted"], text))
        position = found.end()
    return JsonPath(text, tuple(steps))


def _unquoted(quoted: str, path: str) -> str:
    try:
        name: str = json.loads(quoted)
    except ValueError as error:
        raise ValueError(f"the path {path!r} has a name that is not JSON text: {quoted}") from error
    return name


def _followed(content: Any, steps: tuple[str | int | None, ...]) -> Iterator[Any]:
    for number, step in enumerate(steps):
        if step is _EVERY:
            items = [list(pair) for pair in content.items()] if isinstance(content, dict) else content
            if not isinstance(items, list):
                yield MISSING
                return
            for item in items:
                yield from _followed(item, steps[number + 1 :])
            return
        content = _member(content, step)
        if content is MISSING:
            yield MISSING
            return
    yield content


def _member(content: Any, step: str | int) -> Any:
    if isinstance(step, str):
        return content.get(step, MISSING) if isinstance(content, dict) else MISSING
    inside = isinstance(content, list) and -len(content) <= step < len(content)
    return content[step] if inside else MISSING
