"""The cloud adapters in a run: each image is answered or fails by name, and none is paid for twice."""

from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from fakes.clouds import CLOUDS, service_and_adapter
from fakes.http_server import FAULTS, Response
from fakes.pixel_scores import pixel_scores
from PIL import Image

from adapters.base import AnswerError
from pipeline.querying.client import query_adapter
from pipeline.querying.limits import BreakerPolicy, CallPolicy, RetryPolicy
from pipeline.querying.requests import ImageRef, key_maker
from pipeline.querying.store import Store

TOO_MANY = Response(429, {"message": "slow down"}, {"Retry-After": "0.02"})
KINDS = (TOO_MANY, "broken", "busy", "dropped", "page", "cut", "empty", "nothing", "redirect")
MANNER = CallPolicy(
    rate=2000.0, retry=RetryPolicy(first=0.01, longest=0.05), breaker=BreakerPolicy(patience=5.0, pause=0.02)
)


def coloured(folder: Path, count: int) -> list[ImageRef]:
    images = []
    for number in range(count):
        buffer = BytesIO()
        Image.fromarray(np.full((96, 96, 3), (100 + number, 160, 90), np.uint8)).save(buffer, format="PNG")
        path = folder / f"{number}.png"
        path.write_bytes(buffer.getvalue())
        images.append(ImageRef(sha256(buffer.getvalue()).hexdigest(), path))
    return images


@pytest.mark.parametrize("name", CLOUDS)
def test_every_fifth_request_fails_somehow(name: str, tmp_path: Path) -> None:
    images = coloured(tmp_path, 60)
    options = {"batch": 4} if name in ("google", "clarifai") else {}
    with service_and_adapter(name, options) as (service, adapter), Store(tmp_path / "responses.sqlite") as store:
        service.fault = lambda number: KINDS[number // 5 % len(KINDS)] if number % 5 == 0 else None
        counts = query_adapter(adapter, images, store, policy=MANNER)
        assert counts.images == counts.answered + counts.unreadable + counts.failed == len(images)
        assert counts.stopped is None
        make = key_maker(adapter)
        key = {make(image.sha256): image for image in images}
        read = 0
        for found, answer in store.answers(key):
            try:
                labels = adapter.parse(answer)
            except AnswerError:
                assert answer.body in [FAULTS[kind].body for kind in ("page", "cut", "empty")] + [b"{}"]
            else:
                expected = pixel_scores(key[found].path.read_bytes())
                assert {label.name: label.score for label in labels} == pytest.approx(expected)
                read += 1
        assert service.billed == read == counts.answered > len(images) / 2
        request = len(service.requests)
        service.fault = lambda number: None
        again = query_adapter(adapter, images, store, policy=MANNER)
        assert (again.known, again.failed) == (counts.answered + counts.unreadable, 0)
        assert service.billed == read + counts.failed
        assert len(service.requests) > request or counts.failed == 0
