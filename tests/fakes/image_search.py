"""Fake image searches (Openverse, Wikimedia Commons, Google)."""

from collections.abc import Callable, Sequence
from io import BytesIO
from typing import Any

import numpy as np
from fakes.http_server import Request, Response
from PIL import Image

PER_PAGE = {"openverse": 20, "wikimedia": 50, "google": 10}


def random_photo(seed: int, *, size: tuple[int, int] = (64, 64), format: str = "JPEG") -> bytes:
    """A smooth random image."""
    coarse = np.random.default_rng(seed).integers(0, 255, (8, 8, 3), dtype=np.uint8)
    stream = BytesIO()
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(stream, format, quality=95)
    return stream.getvalue()


class ImageSearch:
    """Answers searches page by page, in the format of one of three services.

    Args:
        service: a key of ``PER_PAGE``.
        addresses: search term -> URLs of the images found.
        licence: the name of the licence (Wikimedia only).
    """

    def __init__(self, service: str, addresses: Callable[[str], Sequence[str]], *, licence: str = "CC BY 4.0") -> None:
        self._service, self._addresses, self._licence = service, addresses, licence

    def __call__(self, request: Request) -> Response:
        return Response(200, getattr(self, f"_{self._service}")(request.query))

    def _openverse(self, query: Any) -> Any:
        found = self._addresses(query["q"])
        size = int(query["page_size"])
        start = (int(query["page"]) - 1) * size
        rows = [
            {
                "url": url, "foreign_landing_url": f"https://example.org/{number}", "title": f"No. {number}",
                "creator": "Ann <b>O.</b>", "license": "by", "license_version": "4.0",
                "license_url": "https://creativecommons.org/licenses/by/4.0/",
            }
            for number, url in enumerate(found)
        ]  # fmt: skip
        return {"result_count": len(found), "page_count": -(-len(found) // size), "results": rows[start : start + size]}

    def _wikimedia(self, query: Any) -> Any:
        found = self._addresses(query["gsrsearch"].removeprefix("filetype:bitmap "))
        start = int(query.get("gsroffset", 0))
        shown = list(enumerate(found))[start : start + int(query["gsrlimit"])]
        if not shown:
            return {"batchcomplete": True}
        meta = {
            "Artist": {"value": '<a href="//x">Ann O.</a>'}, "LicenseShortName": {"value": self._licence},
            "LicenseUrl": {"value": ""},
        }  # fmt: skip
        pages = [
            {
                "pageid": number, "ns": 6, "title": f"File:{number}.jpg", "index": number + 1,
                "imageinfo": [{"url": url, "descriptionurl": f"https://x/{number}", "extmetadata": meta}],
            }
            for number, url in reversed(shown)
        ]  # fmt: skip
        return {"query": {"pages": pages}}

    def _google(self, query: Any) -> Any:
        found = self._addresses(query["q"])
        start = int(query["start"]) - 1
        items = [
            {"link": url, "title": "title", "displayLink": "x.org", "image": {"contextLink": f"https://x.org/{number}"}}
            for number, url in enumerate(found)
        ]
        return {"kind": "customsearch#search", "items": items[start : start + int(query["num"])]}
