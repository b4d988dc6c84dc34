"""Texts with gaps, anywhere in JSON: ``${MY_KEY}`` for an environment variable, ``{image}`` and ``{type}``.

Pure; a filled text is never looked at for gaps again.
"""

import re
from collections.abc import Mapping
from typing import Any

_GAP = re.compile(r"\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<image>\{(?:image|type)\})")


def variables_in(template: Any) -> set[str]:
    """The environment variables that it names."""
    return {found["variable"] for text in _texts(template) for found in _GAP.finditer(text) if found["variable"]}


def takes_image(template: Any) -> bool:
    """Whether it has a place for the image."""
    return any(found["image"] == "{image}" for text in _texts(template) for found in _GAP.finditer(text))


def filled(template: Any, values: Mapping[str, str]) -> Any:
    """The template with every gap that ``values`` has something for filled; others stay as they are.

    Args:
        template: JSON values.
        values: by what stands in the braces.
    """
    if isinstance(template, str):
        return _GAP.sub(lambda found: values.get(found["variable"] or found["image"][1:-1], found[0]), template)
    if isinstance(template, dict):
        return {name: filled(inner, values) for name, inner in template.items()}
    if isinstance(template, list):
        return [filled(inner, values) for inner in template]
    return template


def _texts(template: Any) -> list[str]:
    if isinstance(template, str):
        return [template]
    inner = template.values() if isinstance(template, dict) else template if isinstance(template, list) else ()
    return [text for value in inner for text in _texts(value)]
