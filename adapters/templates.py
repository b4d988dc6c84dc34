"""Placeholders in the texts of JSON templates: ``${MY_KEY}`` is an environment variable, ``{name}`` another value."""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

_PLACEHOLDER = re.compile(r"\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)\}|\{(?P<name>[a-z]+)\}")


def placeholders(template: Any) -> list[re.Match[str]]:
    """Find all placeholders; the groups ``variable`` and ``name`` tell them apart."""
    if isinstance(template, str):
        return list(_PLACEHOLDER.finditer(template))
    inner = template.values() if isinstance(template, Mapping) else template if isinstance(template, list) else ()
    return [found for value in inner for found in placeholders(value)]


def variables_in(template: Any) -> list[str]:
    """Return the names of the environment variables in a template, sorted."""
    return sorted({found["variable"] for found in placeholders(template) if found["variable"]})


def filled(template: Any, variables: Mapping[str, str], fields: Mapping[str, str] = MappingProxyType({})) -> Any:
    """Replace placeholders in one pass; those without a value stay, and inserted values are not scanned again.

    Args:
        template: JSON values.
        variables: values of ``${NAME}``.
        fields: values of ``{name}``.
    """
    if isinstance(template, str):
        values = {f"${{{name}}}": value for name, value in variables.items()}
        values |= {f"{{{name}}}": value for name, value in fields.items()}
        return _PLACEHOLDER.sub(lambda found: values.get(found[0], found[0]), template)
    if isinstance(template, Mapping):
        return {name: filled(value, variables, fields) for name, value in template.items()}
    return [filled(value, variables, fields) for value in template] if isinstance(template, list) else template
