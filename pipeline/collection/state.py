"""What a collection's folder holds: replies of searches, photos named by their addresses, and what became of each."""

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
    """What became of one address.

    Attributes:
        url: the address.
        reason: why there is no photo; empty where there is one.
        again: whether another try may help.
        file: the photo, from the collection's folder.
        sha256: of its bytes.
        phash: its perceptual hash, 64 bits in hex digits.
    """

    url: str
    reason: str = ""
    again: bool = False
    file: str = ""
    sha256: str = ""
    phash: str = ""


class CollectionFolder:
    """A folder that one process at a time works on; every file is whole or absent, so that it survives a kill."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._journal = folder / "downloads.jsonl"
        self.outcomes: dict[str, Outcome] = {}
        if self._journal.is_file():
            for line in self._journal.read_text(encoding="utf-8", errors="replace").splitlines():
                try:
                    one = Outcome(**json.loads(line))
                except (ValueError, TypeError):  # a line that a kill cut
                    continue
                if not one.file or (folder / one.file).is_file():
                    self.outcomes[one.url] = one

    @contextmanager
    def opened(self) -> Iterator[None]:
        """Take outcomes with `note` while this is open."""
        self.folder.mkdir(parents=True, exist_ok=True)
        cut = self._journal.is_file() and not self._journal.read_bytes().endswith(b"\n")
        with self._journal.open("a", encoding="utf-8") as self._stream:
            self._stream.write("\n" if cut else "")
            yield

    def note(self, outcome: Outcome) -> None:
        """Keep an outcome, at once and for good."""
        self.outcomes[outcome.url] = outcome
        self._stream.write(json.dumps(asdict(outcome)) + "\n")
        self._stream.flush()
        os.fsync(self._stream.fileno())

    def reply(self, search: Mapping[str, Any]) -> bytes | None:
        """The kept reply to a search; None where there is none."""
        path = self._reply_path(search)
        return path.read_bytes() if path.is_file() else None

    def keep_reply(self, search: Mapping[str, Any], body: bytes) -> None:
        """Keep the reply to a search."""
        write_bytes(self._reply_path(search), body)

    def _reply_path(self, search: Mapping[str, Any]) -> Path:
        return self.folder / "searches" / f"{digest(dict(search))}.json"

    def photo(self, url: str) -> Path | None:
        """The photo of an address, where its file is there."""
        found = (self.folder / "photos").glob(f"{_name(url)}.*")
        return next((path for path in found if path.suffix != PARTIAL), None)

    def keep_photo(self, url: str, content: bytes) -> Path:
        """Write the bytes of an address; what is no image gets the ending ``.bin``."""
        ending = next((ending for start, ending in ENDINGS.items() if content.startswith(start)), ".bin")
        path = self.folder / "photos" / f"{_name(url)}{ending}"
        write_bytes(path, content)
        return path


def _name(url: str) -> str:
    return sha256(url.encode("utf-8", "surrogatepass")).hexdigest()[:20]
