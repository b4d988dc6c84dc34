"""Files written whole or not at all: under another name first, then renamed; and digests that name content."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

PARTIAL = ".partial"


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Give the path to write to; at the end it takes the place of ``path``, which is the old file or the whole new one.

    Args:
        path: the file; its folder is made if it is missing.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    yield partial
    partial.replace(path)


def write_text(path: Path, text: str) -> None:
    """Write a file of UTF-8 text, whole or not at all; the same text gives the same bytes."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    with atomic_write(path) as partial:
        partial.write_bytes(content)


def sha256_of(path: Path) -> str:
    """The hex digits of a file's sha256."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def digest(content: Any) -> str:
    """Sixteen hex digits that name a JSON-like value."""
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def digest_of_files(*paths: Path) -> str:
    """Sixteen hex digits that name the content of files."""
    content = sha256()
    for path in paths:
        content.update(bytes.fromhex(sha256_of(path)))
    return content.hexdigest()[:16]
