"""The opt-out list: photos that are never processed, named by file or by the sha256 of their bytes.

A photo that is named is hashed, so that copies of it under other names are left out too; it is never decoded.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import file_digest
from pathlib import Path, PurePosixPath

from pipeline.config.options import ConfigError

_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)


@dataclass(frozen=True)
class OptOut:
    """The entries of a list: ``names`` of photos, whole or their last part; ``hashes`` in lower case."""

    names: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.names or self.hashes)

    def names_photo(self, photo: str) -> bool:
        """Whether an entry is this photo's name, whole or the last part."""
        return photo in self.names or PurePosixPath(photo).name in self.names

    def with_hashes_of(self, names: Sequence[str], paths: Sequence[Path]) -> "OptOut":
        """The list with the sha256 of every photo that it names, as far as the files can be read."""
        found = set(self.hashes)
        for name, path in zip(names, paths, strict=True):
            if self.names_photo(name) and path.is_file():
                with path.open("rb") as file:
                    found.add(file_digest(file, "sha256").hexdigest())
        return OptOut(self.names, frozenset(found))

    def unmatched(self, photos: Sequence[str], hashes: Sequence[str | None]) -> list[str]:
        """The entries that are no photo's name and no photo's sha256: perhaps misspelt."""
        known = {*photos, *(PurePosixPath(photo).name for photo in photos)}
        return sorted(self.names - known) + sorted(self.hashes - set(hashes))


NOBODY = OptOut()


def read_opt_out(path: Path | None) -> OptOut:
    """Read a list: one photo a line, by name or by sha256 (64 hex digits); empty lines and ``#`` comments are skipped.

    Raises:
        ConfigError: the file cannot be read.
    """
    if path is None:
        return NOBODY
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the opt-out list {path} cannot be read: {error}") from error
    entries = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    hashes = {entry: found[1].lower() for entry in entries if (found := _SHA256.fullmatch(entry))}
    names = (entry.replace("\\", "/").removeprefix("./") for entry in entries if entry not in hashes)
    return OptOut(frozenset(names), frozenset(hashes.values()))
