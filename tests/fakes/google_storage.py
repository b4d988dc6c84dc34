"""A fake Google Cloud Storage on loopback: one bucket, whose objects are listed, read, written and deleted."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from urllib.parse import unquote

import pytest
from fakes.blobs import BUCKET, Blobs
from fakes.http_server import FakeServer, Request, Response

NOT_FOUND = Response(404, {"error": {"code": 404, "message": "No such object"}})


@contextmanager
def google_storage() -> Iterator[Blobs]:
    if find_spec("gcsfs") is None:  # not imported here, as it reads the environment once, on import
        pytest.skip("gcsfs is not installed")
    blobs = Blobs("gs")
    uploads: dict[str, str] = {}  # resumable uploads: id -> name

    def metadata(name: str) -> dict[str, object]:
        return {
            "kind": "storage#object", "name": name, "bucket": BUCKET, "size": str(len(blobs.read(name))),
            "etag": blobs.etag(name), "generation": "1", "updated": "2026-01-01T00:00:00Z",
        }  # fmt: skip

    def answer(request: Request) -> Response:
        path = request.path
        if path == f"/storage/v1/b/{BUCKET}":
            return Response(200, {"kind": "storage#bucket", "name": BUCKET})
        if path == f"/storage/v1/b/{BUCKET}/o":
            names, folders, after = blobs.listing_page(
                request.query.get("prefix", ""),
                delimiter=request.query.get("delimiter", ""),
                after=request.query.get("pageToken", ""),
            )
            page = {"kind": "storage#objects", "items": [metadata(name) for name in names], "prefixes": folders}
            return Response(200, page | ({"nextPageToken": after} if after else {}))
        if path == f"/upload/storage/v1/b/{BUCKET}/o":
            return upload(request)
        if found := re.fullmatch(rf"(?:/download)?/storage/v1/b/{BUCKET}/o/(.+)", path):
            name = unquote(found[1])
            if name not in blobs.names():
                return NOT_FOUND
            if request.method == "DELETE":
                blobs.remove(name)
                return Response(204)
            if request.query.get("alt") == "media":
                return blobs.content(name, request.headers.get("range"))
            return Response(200, metadata(name))
        return NOT_FOUND

    def upload(request: Request) -> Response:
        if request.query["uploadType"] == "multipart":
            boundary = request.headers["content-type"].partition("boundary=")[2].strip('"').encode()
            _, about, rest = request.body.split(b"--" + boundary, 2)
            name = re.search(rb'"name": *"([^"]+)"', about)[1].decode()
            blobs.put(name, rest.partition(b"\n\n")[2].removesuffix(b"\n--" + boundary + b"--"))
            return Response(200, metadata(name))
        if "upload_id" not in request.query:
            number = str(len(uploads))
            uploads[number] = request.json()["name"]
            blobs.put(uploads[number], b"")
            location = f"http://{request.headers['host']}{request.path}?uploadType=resumable&upload_id={number}"
            return Response(200, {}, {"Location": location})
        name = uploads[request.query["upload_id"]]
        blobs.put(name, blobs.read(name) + request.body)
        _, last, total = map(int, re.fullmatch(r"bytes (\d+)-(\d+)/(\d+)", request.headers["content-range"]).groups())
        if last + 1 == total:
            return Response(200, metadata(name))
        return Response(308, headers={"Range": f"bytes=0-{last}"})

    with FakeServer(answer) as server:
        # Without the last variable, gcsfs requests the kind of bucket by gRPC.
        settings = {"FSSPEC_GS_TOKEN": "anon", "GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT": "false"}
        blobs.environment.update({"STORAGE_EMULATOR_HOST": server.url, **settings})
        yield blobs
