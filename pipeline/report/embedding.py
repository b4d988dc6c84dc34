"""What is put inside the page besides its text: data for its scripts, and the hashes by which the browser knows ours.

Nothing here knows what the data are about.
"""

import base64
import json
import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from markupsafe import Markup

from pipeline.run.text import visible

# In a script element these would end it, open a comment, or end a line.
_ESCAPES = {ord(sign): f"\\u{ord(sign):04x}" for sign in "<>&\u2028\u2029"}
_ID = re.compile(r"[a-z][a-z0-9-]*")


def as_data_block(value: Any, *, id: str) -> Markup:
    """A value as JSON that stands in the page and is never run; a script reads it by its id.

    Text is written as the page prints it: invisible characters are written out (``escaping.visible``).

    Args:
        value: mappings, sequences, text, finite numbers, booleans and None.
        id: unique on the page; letters, digits and hyphens.

    Raises:
        ValueError: a number is NaN or infinite (give None), or ``id`` is no id.
    """
    content = json.dumps(_shown(value), allow_nan=False, ensure_ascii=False, separators=(",", ":"))
    block = f'<script type="application/json" id="{checked_id(id)}">{content.translate(_ESCAPES)}</script>'
    return Markup(block)  # noqa: S704 - escaped in the line above


def checked_id(text: str) -> str:
    """The text, if it can be an id on the page.

    Raises:
        ValueError: it is no id.
    """
    if not _ID.fullmatch(text):
        raise ValueError(f"{text!r} is no id: lower-case letters, digits and hyphens, a letter first")
    return text


def source_hash(source: str) -> str:
    """A style sheet or script as a Content-Security-Policy names it: ``'sha256-…'``."""
    return f"'sha256-{base64.b64encode(sha256(source.encode()).digest()).decode()}'"


def _shown(value: Any) -> Any:
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(name): _shown(item) for name, item in value.items()}
    if isinstance(value, Sequence):
        return [_shown(item) for item in value]
    return value
