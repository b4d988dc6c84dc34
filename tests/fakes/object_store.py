"""A fake S3 (the server of moto) on loopback, with one empty bucket."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import pytest
from fakes.blobs import BUCKET


@dataclass(frozen=True)
class ObjectStore:
    """The bucket; ``environment`` lets a program find the server."""

    client: Any
    environment: dict[str, str]
    url = f"s3://{BUCKET}"

    def put(self, name: str, content: bytes) -> None:
        self.client.put_object(Bucket=BUCKET, Key=name, Body=content)

    def read(self, name: str) -> bytes:
        return self.client.get_object(Bucket=BUCKET, Key=name)["Body"].read()

    def names(self, folder: str = "") -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=BUCKET, Prefix=folder)
        return [entry["Key"] for page in pages for entry in page.get("Contents", ())]


@contextmanager
def object_store() -> Iterator[ObjectStore]:
    for package in ("s3fs", "moto", "flask", "flask_cors"):
        pytest.importorskip(package)
    import boto3
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    environment = {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
    }
    try:
        with patch.dict(os.environ, environment):
            client = boto3.client("s3")
        client.create_bucket(Bucket=BUCKET)
        yield ObjectStore(client, environment)
        client.close()
    finally:
        server.stop()
