"""A local classifier that counts how often it receives each image, and images for it."""

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from adapters.answers import from_answer
from adapters.base import Capabilities, Label, RawAnswer, Service
from pipeline.querying.requests import ImageRef

SERVICE = Service(provider="Nobody", host="127.0.0.1", retention="nothing", version="none")


class CountingAdapter:
    """Returns the text of each image as its label.

    ``on_send`` is called with each batch and may raise. Images are appended to the file ``log`` before that.
    """

    def __init__(
        self,
        *,
        batch: int = 1,
        concurrency: int = 1,
        remote: bool = False,
        on_send: Callable[[Sequence[bytes]], None] = lambda _: None,
        log: Path | None = None,
        model: str = "1",
    ) -> None:
        self.name = "counting"
        self.model = model
        self.parameters: Mapping[str, Any] = {"k": 1}
        self.capabilities = Capabilities(batch=batch, concurrency=concurrency, service=SERVICE if remote else None)
        self.received: Counter[bytes] = Counter()
        self.calls = 0
        self._on_send = on_send
        self._log = log

    def send(self, images: Sequence[bytes]) -> list[RawAnswer]:
        self.calls += 1
        self.received.update(images)
        if self._log is not None:
            with self._log.open("ab") as file:
                file.write(b"".join(image + b"\n" for image in images))
        self._on_send(images)
        return [RawAnswer(body=json.dumps({"labels": [[image.decode(), 0.5]]}).encode()) for image in images]

    def parse(self, answer: RawAnswer) -> list[Label]:
        return from_answer(answer)


def write_images(folder: Path, texts: Sequence[str]) -> list[ImageRef]:
    """One file for each text, in order; equal texts are identical images."""
    folder.mkdir(parents=True, exist_ok=True)
    images = []
    for number, text in enumerate(texts):
        path = folder / f"{number:04}.png"
        path.write_text(text)
        images.append(ImageRef(sha256(text.encode()).hexdigest(), path))
    return images
