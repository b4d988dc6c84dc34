"""A fake Azure Blob Storage on loopback: one container, whose blobs are listed, read, written and deleted."""

import base64
import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote
from xml.sax.saxutils import escape

import pytest
from fakes.blobs import BUCKET, Blobs
from fakes.http_server import FakeServer, Request, Response

ACCOUNT = "nobody"
DATE = "Thu, 01 Jan 2026 00:00:00 GMT"
XML = {"Content-Type": "application/xml"}


@contextmanager
def azure_blobs() -> Iterator[Blobs]:
    pytest.importorskip("adlfs")
    blobs = Blobs("abfs")
    blocks: dict[tuple[str, str], bytes] = {}  # uploaded blocks that are not yet committed to a blob

    def properties(name: str) -> dict[str, str]:
        return {"Last-Modified": DATE, "ETag": f'"{blobs.etag(name)}"'}

    def answer(request: Request) -> Response:
        if request.path == f"/{ACCOUNT}/{BUCKET}":
            if request.query.get("comp") == "list":
                return Response(200, listing(request), XML)
            return Response(200, b"", {"Last-Modified": DATE, "ETag": '"0"'})
        found = re.fullmatch(rf"/{ACCOUNT}/{BUCKET}/(.+)", request.path)
        if found is None:
            return not_found("ContainerNotFound")
        name = unquote(found[1])
        if request.method == "PUT":
            return write(name, request)
        if name not in blobs.names():
            return not_found("BlobNotFound")
        if request.method == "DELETE":
            blobs.remove(name)
            return Response(202)
        read = blobs.content(name, request.headers.get("x-ms-range", request.headers.get("range")))
        kind = {"x-ms-blob-type": "BlockBlob", "x-ms-creation-time": DATE, **properties(name)}
        return Response(read.status, read.body, {**read.headers, **kind})

    def write(name: str, request: Request) -> Response:
        if request.query.get("comp") == "block":
            blocks[name, request.query["blockid"]] = request.body
            return Response(201)
        if request.query.get("comp") == "blocklist":
            ids = re.findall(rb"<(?:Latest|Uncommitted)>([^<]+)<", request.body)
            blobs.put(name, b"".join(blocks.pop((name, block.decode())) for block in ids))
        elif request.headers.get("if-none-match") == "*" and name in blobs.names():
            return Response(409, b"", {"x-ms-error-code": "BlobAlreadyExists"})
        else:
            blobs.put(name, request.body)
        return Response(201, b"", properties(name))

    def listing(request: Request) -> bytes:
        prefix = request.query.get("prefix", "")
        names, folders, after = blobs.listing_page(
            prefix, delimiter=request.query.get("delimiter", ""), after=request.query.get("marker", "")
        )
        entries = [
            f"<Blob><Name>{escape(name)}</Name><Properties><Creation-Time>{DATE}</Creation-Time>"
            f"<Last-Modified>{DATE}</Last-Modified><Etag>{blobs.etag(name)}</Etag>"
            f"<Content-Length>{len(blobs.read(name))}</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"
            for name in names
        ] + [f"<BlobPrefix><Name>{escape(name)}</Name></BlobPrefix>" for name in folders]
        page = f"<Prefix>{escape(prefix)}</Prefix><Blobs>{''.join(entries)}</Blobs><NextMarker>{after}</NextMarker>"
        return f'<?xml version="1.0"?><EnumerationResults ContainerName="{BUCKET}">{page}</EnumerationResults>'.encode()

    with FakeServer(answer) as server:
        key = base64.b64encode(b"nothing").decode()
        account = f"AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={server.url}/{ACCOUNT};"
        blobs.environment["AZURE_STORAGE_CONNECTION_STRING"] = f"DefaultEndpointsProtocol=http;{account}"
        yield blobs


def not_found(code: str) -> Response:
    error = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>not found</Message></Error>"
    return Response(404, error.encode(), XML | {"x-ms-error-code": code})
