"""Requests: each distinct image once, under the key of its answer, put together into calls. Nothing is sent here."""

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from adapters.base import Adapter, Landmarks
from pipeline.run.storage import File, sizes_of


@dataclass(frozen=True)
class ImageRef:
    """An image to send: the sha256 of the file's bytes, the file, the photo that it is a version of, and its face."""

    sha256: str
    path: File
    photo: str = ""
    face: Landmarks | None = None


@dataclass(frozen=True)
class Request:
    """One image for one classifier."""

    key: str  # under which the answer is kept; see ``key_maker``
    sha256: str  # of the image's bytes
    path: File = Path()
    photo: str = ""  # that the image is a version of, for messages
    face: Landmarks | None = None  # where its face is, as far as that is known
    attempts: int = 0  # how often it was sent without an answer
    unreadable: int = 0  # how many of these attempts brought an answer without labels
    first: float = 0.0  # when it was sent first, in monotonic seconds
    replaces: bool = False  # an answer that cannot be read is there, and is to be replaced


@dataclass(frozen=True)
class Pending:
    """The distinct images for one classifier: how many there are, and the requests for those without an answer."""

    images: int
    requests: tuple[Request, ...]

    @property
    def known(self) -> int:
        """How many images have an answer."""
        return self.images - len(self.requests)


class ImageError(Exception):
    """An image cannot be sent."""


def canonical_json(value: Any) -> str:
    """JSON in which equal values are equal texts; ValueError or TypeError where it is not plain JSON with text keys."""
    _refuse_other_keys(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def key_maker(*, adapter: str, model: str, parameters: Mapping[str, Any]) -> Callable[[str], str]:
    """The function from an image's sha256 to the key of its answer by this classifier with these parameters.

    A key is the sha256 of the canonical JSON ``[adapter, model, parameters, image_sha256]``.
    """
    classifier = canonical_json([adapter, model, dict(parameters)])
    start = sha256(f"{classifier[:-1]},".encode())

    def key(image_sha256: str) -> str:
        digest = start.copy()
        digest.update(f"{canonical_json(image_sha256)}]".encode())
        return digest.hexdigest()

    return key


def key_maker_of(adapter: Adapter) -> Callable[[str], str]:
    """``key_maker`` for an adapter as it is."""
    return key_maker(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)


def pending_requests(
    adapter: Adapter, images: Iterable[ImageRef], *, answered: Callable[[Collection[str]], set[str]]
) -> Pending:
    """Requests for the images without an answer; images of equal bytes share one.

    ``answered`` returns those of the given keys that have an answer.
    """
    key = key_maker_of(adapter)
    distinct: dict[str, Request] = {}
    for image in images:
        if image.sha256 not in distinct:
            distinct[image.sha256] = Request(key(image.sha256), image.sha256, image.path, image.photo, image.face)
    known = answered([request.key for request in distinct.values()])
    return Pending(len(distinct), tuple(request for request in distinct.values() if request.key not in known))


def batches_of(adapter: Adapter, requests: Sequence[Request]) -> list[tuple[Request, ...]]:
    """Requests put together into calls."""
    declared = adapter.capabilities
    weigh = declared.batch > 1 and declared.batch_bytes is not None
    sizes = sizes_of([one.path for one in requests]) if weigh else [None] * len(requests)
    return [tuple(requests[part]) for part in in_batches(sizes, most=declared.batch, most_bytes=declared.batch_bytes)]


def in_batches(sizes: Sequence[int | None], *, most: int, most_bytes: int | None) -> list[slice]:
    """Consecutive images, at most ``most`` and ``most_bytes`` bytes together (or one image) in each batch."""
    cuts, weight = [0], 0
    for index, size in enumerate(sizes):
        weight += size or 0
        if index > cuts[-1] and (index - cuts[-1] == most or (most_bytes is not None and weight > most_bytes)):
            cuts.append(index)
            weight = size or 0
    return [slice(start, end) for start, end in zip(cuts, [*cuts[1:], len(sizes)], strict=True) if end > start]


def read_image(path: File, expected: str) -> bytes:
    """The bytes of an image; ImageError where they cannot be read, or their sha256 is not the expected one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise ImageError(f"the image {path.name} cannot be read ({why}): make the images again") from error
    if sha256(content).hexdigest() != expected:
        raise ImageError(f"the image {path.name} was changed after it was made: make the images again")
    return content


def _refuse_other_keys(value: Any) -> None:
    """JSON would turn the keys 1 and "1" into the same text."""
    if isinstance(value, Mapping):
        if others := [name for name in value if not isinstance(name, str)]:
            raise TypeError(f"a parameter's key must be text, not {others[0]!r}")
        value = list(value.values())
    for inner in value if isinstance(value, list | tuple) else ():
        _refuse_other_keys(inner)
