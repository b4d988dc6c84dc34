"""What is done in one call: its images, how often each was asked in vain, and their bytes. Nothing is asked here."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from adapters.base import Adapter
from pipeline.querying.questions import batches_of
from pipeline.querying.store import Moment, Question


@dataclass(frozen=True)
class Item:
    """An image to ask about, and how often it was asked in vain since when (monotonic seconds)."""

    question: Question
    path: Path
    attempts: int = 0
    first: float = 0.0


@dataclass(frozen=True)
class Job:
    """One call to be made: ordinary images, or the panel's at some moment."""

    items: tuple[Item, ...]
    moment: Moment | None = None


class ImageError(Exception):
    """An image cannot be sent."""


def jobs_of(adapter: Adapter, items: Sequence[tuple[Question, Path]]) -> list[Job]:
    """Images put together into calls."""
    return [Job(tuple(Item(question, path) for question, path in items[part])) for part in batches_of(adapter, items)]


def content_of(path: Path, expected: str) -> bytes:
    """The bytes of an image, if they are those that were to be sent (their sha256 is ``expected``).

    Raises:
        ImageError: they are not, or cannot be read.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise ImageError(f"the image {path.name} cannot be read ({error.strerror}): make the images again") from error
    if sha256(content).hexdigest() != expected:
        raise ImageError(f"the image {path.name} was changed after it was made: make the images again")
    return content
