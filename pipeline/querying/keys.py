"""The key under which an answer is kept: what was sent, to whom, and how it was asked. Nothing else decides it."""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON in which equal values are equal texts: keys sorted, no spaces, NaN refused.

    Raises:
        ValueError, TypeError: the value is not plain JSON, or a key is not text.
    """
    _refuse_other_keys(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def key_maker(*, adapter: str, model: str, parameters: Mapping[str, Any]) -> Callable[[str], str]:
    """The function from an image's sha256 to its key with this classifier, asked this way."""
    asked = canonical_json([adapter, model, dict(parameters)])
    start = sha256(f"{asked[:-1]},".encode())

    def key(image_sha256: str) -> str:
        digest = start.copy()
        digest.update(f"{canonical_json(image_sha256)}]".encode())
        return digest.hexdigest()

    return key


def answer_key(image_sha256: str, *, adapter: str, model: str, parameters: Mapping[str, Any]) -> str:
    """The key of one image: sha256 of the canonical JSON ``[adapter, model, parameters, image_sha256]``."""
    return key_maker(adapter=adapter, model=model, parameters=parameters)(image_sha256)


def _refuse_other_keys(value: Any) -> None:
    """JSON would turn the keys 1 and "1" into the same text."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            if not isinstance(name, str):
                raise TypeError(f"a parameter's key must be text, not {name!r}")
            _refuse_other_keys(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _refuse_other_keys(inner)
