"""Requests for distinct images, the keys of their answers, and batches. Nothing is sent here."""

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
    """An image to send."""

    sha256: str  # of the file's bytes
    path: File
    photo: str = ""  # the photo of which it is a version
    face: Landmarks | None = None


@dataclass(frozen=True)
class Request:
    """One image for one classifier."""

    key: str  # of the answer in the store; see ``key_maker``
    sha256: str  # of the image's bytes
    path: File = Path()
    photo: str = ""  # the photo of which it is a version, for messages
    face: Landmarks | None = None  # if known
    attempts: int = 0  # failed attempts so far
    unreadable: int = 0  # those of them that got an answer without labels
    first: float = 0.0  # time of the first attempt, in monotonic seconds
    replaces: bool = False  # its answer replaces a stored answer without labels


@dataclass(frozen=True)
class Pending:
    """The number of distinct images for one classifier, and the requests for those without an answer."""

    images: int
    requests: tuple[Request, ...]

    @property
    def known(self) -> int:
        """Number of images with an answer."""
        return self.images - len(self.requests)


class ImageError(Exception):
    """An image cannot be sent."""


def canonical_json(value: Any) -> str:
    """Encode JSON so that equal values give equal texts; ValueError or TypeError unless it is JSON with text keys."""
    _refuse_other_keys(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def key_maker(adapter: Adapter) -> Callable[[str], str]:
    """Return the function that maps an image's sha256 to the key of an adapter's answer.

    The key is the sha256 of the canonical JSON ``[name, model, parameters, image_sha256]``.
    """
    classifier = canonical_json([adapter.name, adapter.model, dict(adapter.parameters)])
    start = sha256(f"{classifier[:-1]},".encode())

    def key(image_sha256: str) -> str:
        digest = start.copy()
        digest.update(f"{canonical_json(image_sha256)}]".encode())
        return digest.hexdigest()

    return key


def pending_requests(
    adapter: Adapter, images: Iterable[ImageRef], *, answered: Callable[[Collection[str]], set[str]]
) -> Pending:
    """Make the requests for images without an answer; identical images share a request.

    ``answered`` returns the subset of keys that have an answer.
    """
    key = key_maker(adapter)
    distinct: dict[str, Request] = {}
    for image in images:
        if image.sha256 not in distinct:
            distinct[image.sha256] = Request(key(image.sha256), image.sha256, image.path, image.photo, image.face)
    known = answered([request.key for request in distinct.values()])
    return Pending(len(distinct), tuple(request for request in distinct.values() if request.key not in known))


def batches_of(adapter: Adapter, requests: Sequence[Request]) -> list[tuple[Request, ...]]:
    """Group requests into batches within the limits of a call."""
    declared = adapter.capabilities
    sizes_matter = declared.batch > 1 and declared.batch_bytes is not None
    sizes = sizes_of([request.path for request in requests]) if sizes_matter else [None] * len(requests)
    return [tuple(requests[part]) for part in in_batches(sizes, most=declared.batch, most_bytes=declared.batch_bytes)]


def in_batches(sizes: Sequence[int | None], *, most: int, most_bytes: int | None) -> list[slice]:
    """Split consecutive images into batches of at most ``most`` images and ``most_bytes`` bytes, or one image."""
    cuts, weight = [0], 0
    for index, size in enumerate(sizes):
        weight += size or 0
        if index > cuts[-1] and (index - cuts[-1] == most or (most_bytes is not None and weight > most_bytes)):
            cuts.append(index)
            weight = size or 0
    return [slice(start, end) for start, end in zip(cuts, [*cuts[1:], len(sizes)], strict=True) if end > start]


def read_image(path: File, expected: str) -> bytes:
    """Read an image; ImageError if it cannot be read, or its sha256 is not the expected one."""
    try:
        content = path.read_bytes()
    except OSError as error:
        why = error.strerror or error
        raise ImageError(f"the image {path.name} cannot be read ({why}): make the images again") from error
    if sha256(content).hexdigest() != expected:
        raise ImageError(f"the image {path.name} was changed after it was made: make the images again")
    return content


def _refuse_other_keys(value: Any) -> None:
    """Refuse keys that are not text, because JSON would encode the keys 1 and "1" in the same way."""
    if isinstance(value, Mapping):
        if others := [name for name in value if not isinstance(name, str)]:
            raise TypeError(f"a parameter's key must be text, not {others[0]!r}")
        value = list(value.values())
    for inner in value if isinstance(value, list | tuple) else ():
        _refuse_other_keys(inner)
