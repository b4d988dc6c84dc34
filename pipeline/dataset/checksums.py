"""``SHA256SUMS``: the sha256 of every file of a dataset, as ``sha256sum -c SHA256SUMS`` reads it."""

from collections.abc import Iterable
from hashlib import file_digest
from pathlib import Path

NAME = "SHA256SUMS"


def sha256_of(path: Path) -> str:
    """The hex digits of a file's sha256."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


def write_checksums(folder: Path, sums: Iterable[tuple[str, str]]) -> None:
    """Write the file, whole or not at all.

    Args:
        folder: the dataset's.
        sums: file (relative to the folder; no line break or backslash in it) and sha256, in the order they are listed.
    """
    partial = folder / f"{NAME}.partial"
    with partial.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(f"{sha256}  {name}\n" for name, sha256 in sums)
    partial.replace(folder / NAME)
