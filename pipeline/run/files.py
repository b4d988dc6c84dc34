"""Files of text and bytes, written whole or not at all."""

from pathlib import Path


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all; the same text gives the same bytes."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, content: bytes) -> None:
    """Write a file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".partial")
    partial.write_bytes(content)
    partial.replace(path)
