"""Atomic writing of files, and digests of content."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import file_digest, sha256
from pathlib import Path
from typing import Any

PARTIAL = ".partial"


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a temporary path that replaces ``path`` at the end. The folder is created if it is missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + PARTIAL)
    yield partial
    partial.replace(path)


def write_text(path: Path, text: str) -> None:
    """Write UTF-8 text atomically."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file atomically."""
    with atomic_write(path) as partial:
        partial.write_bytes(content)


def sha256_of(path: Path) -> str:
    """Return a file's sha256 in hex digits."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def digest(content: Any) -> str:
    """Return a digest of a JSON-like value: 16 hex digits."""
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def digest_of_files(*paths: Path) -> str:
    """Return a digest of the content of files: 16 hex digits."""
    content = sha256()
    for path in paths:
        content.update(bytes.fromhex(sha256_of(path)))
    return content.hexdigest()[:16]
