"""A collection's folder: stored search replies, photos named by the hash of their URL, and the outcome of each URL."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from pipeline.run.files import PARTIAL, digest, write_bytes

ENDINGS = {b"\xff\xd8\xff": ".jpg", b"\x89PNG": ".png", b"GIF8": ".gif", b"RIFF": ".webp", b"BM": ".bmp"}


@dataclass(frozen=True)
class Outcome:
    """The outcome of one download.

    Attributes:
        url: the image's URL.
        reason: why there is no photo; empty if there is one.
        again: whether a later command should try again.
        file: the photo, relative to the collection's folder.
        sha256: of the photo's bytes.
        phash: its perceptual hash, 64 bits in hex digits; empty if near-duplicates are kept.
    """

    url: str
    reason: str = ""
    again: bool = False
    file: str = ""
    sha256: str = ""
    phash: str = ""


class CollectionFolder:
    """A collection's folder, used by one process at a time. Files are written atomically, so a kill leaves it valid."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = folder / "downloads.jsonl"
        self.outcomes: dict[str, Outcome] = {}
        if self._journal.is_file():
            for line in self._journal.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    outcome = Outcome(**json.loads(line))
                except (ValueError, TypeError):  # a line that a kill cut short
                    continue
                if not outcome.file or (folder / outcome.file).is_file():
                    self.outcomes[outcome.url] = outcome

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Open the journal of outcomes for `note`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        cut = self._journal.is_file() and not self._journal.read_bytes().endswith(b"\n")
        with self._journal.open("a", encoding="utf-8") as self._stream:
            self._stream.write("\n" if cut else "")
            yield

    def note(self, outcome: Outcome) -> None:
        """Append an outcome to the journal and sync it to disk."""
        self.outcomes[outcome.url] = outcome
        self._stream.write(json.dumps(asdict(outcome)) + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def reply(self, search: Mapping[str, Any]) -> bytes | None:
        """Return the stored reply to a search (see ``search_key``); None if there is none."""
        path = self._reply_path(search)
        return path.read_bytes() if path.is_file() else None

    def keep_reply(self, search: Mapping[str, Any], body: bytes) -> None:
        """Store the reply to a search."""
        write_bytes(self._reply_path(search), body)

    def _reply_path(self, search: Mapping[str, Any]) -> Path:
        return self.folder / "searches" / f"{digest(dict(search))}.json"

    def photo(self, url: str) -> Path | None:
        """Return the path of a URL's photo; None if it is not there."""
        found = (self.folder / "photos").glob(f"{_name(url)}.*")
        return next((path for path in found if path.suffix != PARTIAL), None)

    def keep_photo(self, url: str, content: bytes) -> Path:
        """Write the content of a URL; its suffix is ``.bin`` if it is not an image of a known format."""
        ending = next((ending for start, ending in ENDINGS.items() if content.startswith(start)), ".bin")
        path = self.folder / "photos" / f"{_name(url)}{ending}"
        write_bytes(path, content)
        return path


def _name(url: str) -> str:
    return sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:20]
