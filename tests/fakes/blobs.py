"""The objects of the fake object stores: one bucket in memory, its listings and reads."""

import re
from dataclasses import dataclass, field
from hashlib import md5
from threading import Lock

from fakes.http_server import Response

BUCKET = "photos"
PAGE = 3  # entries of a page of a listing: few, so that listings have several pages


@dataclass(frozen=True)
class Blobs:
    """Objects by name; ``protocol`` starts their URLs, ``environment`` lets a program find the server."""

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

    def etag(self, name: str) -> str:
        return md5(self.read(name)).hexdigest()

    def content(self, name: str, span: str | None) -> Response:
        """An object, or the range of its bytes that a header such as ``bytes=3-7`` requests."""
        whole = self.read(name)
        headers = {"Content-Type": "application/octet-stream", "ETag": f'"{self.etag(name)}"'}
        if span is None:
            return Response(200, whole, headers)
        first, last = re.fullmatch(r"bytes=(\d+)-(\d*)", span).groups()
        start, end = int(first), min(int(last or len(whole)), len(whole) - 1)
        if start >= len(whole):
            return Response(416, b"", headers | {"Content-Range": f"bytes */{len(whole)}"})
        return Response(206, whole[start : end + 1], headers | {"Content-Range": f"bytes {start}-{end}/{len(whole)}"})

    def listing_page(self, prefix: str, *, delimiter: str, after: str) -> tuple[list[str], list[str], str]:
        """Names and folders directly below a prefix, after the token of the last page; and the token of this page."""
        folder_of: dict[str, bool] = {}  # entry -> whether it is a folder
        for name in self.names(prefix):
            head, cut, _ = name.removeprefix(prefix).partition(delimiter) if delimiter else (name, "", "")
            folder_of[prefix + head + cut if delimiter else name] = bool(cut)
        remaining = [entry for entry in sorted(folder_of) if entry > after]
        page = remaining[:PAGE]
        names = [entry for entry in page if not folder_of[entry]]
        return names, [entry for entry in page if folder_of[entry]], page[-1] if len(remaining) > PAGE else ""
