"""The cloud adapters in a run whose services fail now and then."""

from hashlib import sha256
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from adapter_calls import scores_of
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
KINDS = (TOO_MANY, "broken", "busy", "dropped", "html", "truncated", "empty", "empty object", "redirect")
POLICY = CallPolicy(
    rate=2000.0, retry=RetryPolicy(first=0.01, longest=0.05), breaker=BreakerPolicy(patience=5.0, pause=0.02)
)


def write_images(folder: Path, count: int) -> list[ImageRef]:
    images = []
    for number in range(count):
        buffer = BytesIO()
        Image.fromarray(np.full((96, 96, 3), (100 + number, 160, 90), np.uint8)).save(buffer, format="PNG")
        path = folder / f"{number}.png"
        path.write_bytes(buffer.getvalue())
        images.append(ImageRef(sha256(buffer.getvalue()).hexdigest(), path))
    return images


@pytest.mark.parametrize("name", CLOUDS)
def test_every_image_is_answered_once_despite_faults(name, tmp_path):
    images = write_images(tmp_path, 60)
    options = {"batch": 4} if name in ("google", "clarifai") else {}
    with service_and_adapter(name, options) as (service, adapter), Store(tmp_path / "responses.sqlite") as store:
        service.fault = lambda number: KINDS[number // 5 % len(KINDS)] if number % 5 == 0 else None
        counts = query_adapter(adapter, images, store, policy=POLICY)
        assert counts.images == counts.answered + counts.unreadable + counts.failed == len(images)
        assert counts.stopped is None
        key_of = key_maker(adapter)
        by_key = {key_of(image.sha256): image for image in images}
        parsed = 0
        for key, answer in store.answers(by_key):
            try:
                scores = scores_of(adapter, answer)
            except AnswerError:
                assert answer.body in [FAULTS[kind].body for kind in ("html", "truncated", "empty")] + [b"{}"]
            else:
                assert scores == pytest.approx(pixel_scores(by_key[key].path.read_bytes()))
                parsed += 1
        assert service.billed == parsed == counts.answered > len(images) / 2
        before = len(service.requests)
        service.fault = lambda number: None
        again = query_adapter(adapter, images, store, policy=POLICY)
        assert (again.known, again.failed) == (counts.answered + counts.unreadable, 0)
        assert service.billed == parsed + counts.failed
        assert len(service.requests) > before or counts.failed == 0
