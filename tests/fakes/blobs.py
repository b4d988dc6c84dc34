"""What the pretended object stores share: the objects of one bucket in memory, and how they are listed and read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import md5
from threading import Lock

from fakes.http_server import Response

BUCKET = "photos"
PAGE = 3  # objects of a page of a listing: few, so that every listing has several


@dataclass(frozen=True)
class Blobs:
    """The objects; ``protocol`` is that of their URLs, ``environment`` what a program needs to find the server."""

    protocol: str
    environment: dict[str, str] = field(default_factory=dict)
    _contents: dict[str, bytes] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    @property
    def url(self) -> str:
        return f"{self.protocol}://{BUCKET}"

    def put(self, name: str, content: bytes) -> None:
        with self._lock:
            self._contents[name] = content

    def read(self, name: str) -> bytes:
        return self._contents[name]

    def remove(self, name: str) -> None:
        with self._lock:
            del self._contents[name]

    def names(self, folder: str = "") -> list[str]:
        with self._lock:
            return sorted(name for name in self._contents if name.startswith(folder))

    def mark(self, name: str) -> str:
        return md5(self.read(name)).hexdigest()

    def content(self, name: str, span: str | None) -> Response:
        """An object, or the bytes of it that a header such as ``bytes=3-7`` asks for."""
        whole = self.read(name)
        headers = {"Content-Type": "application/octet-stream", "ETag": f'"{self.mark(name)}"'}
        if span is None:
            return Response(200, whole, headers)
        first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", span).groups()
        start, end = int(first), min(int(last or len(whole)), len(whole) - 1)
        if start >= len(whole):
            return Response(416, b"", headers | {"Content-Range": f"bytes */{len(whole)}"})
        return Response(206, whole[start : end + 1], headers | {"Content-Range": f"bytes {start}-{end}/{len(whole)}"})


def listing_page(names: Sequence[str], *, prefix: str, delimiter: str, after: str) -> tuple[list[str], list[str], str]:
    """A page of names and folders directly below a prefix, after what the last page ended with; and that of this."""
    found: dict[str, bool] = {}  # entry -> whether it is a folder
    for name in names:
        head, cut, _ = name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
        found[prefix + head + cut if delimiter else name] = bool(cut)
    left = [entry for entry in sorted(found) if entry > after]
    page = left[:PAGE]
    names_of = [entry for entry in page if not found[entry]]
    return names_of, [entry for entry in page if found[entry]], page[-1] if len(left) > PAGE else ""
