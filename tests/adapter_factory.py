"""Adapters as the registry makes them."""

from typing import Any

from adapters import registry


def make_adapter(name: str, target: str = "", **options: Any) -> Any:
    """An adapter by its name, its target and its options."""
    return registry.create(f"{name}:{target}" if target else name, options)
