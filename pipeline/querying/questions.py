"""What is asked of a classifier: each distinct image once, those without an answer, put together into calls."""

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from adapters.base import Adapter
from pipeline.querying.keys import key_maker
from pipeline.querying.store import Question


@dataclass(frozen=True)
class ImageRef:
    """An image that is sent: the sha256 of the file's bytes, and where it lies."""

    sha256: str
    path: Path


@dataclass(frozen=True)
class Questions:
    """What is to be asked of one classifier: each distinct image once, and which have no answer yet."""

    images: int
    todo: tuple[tuple[Question, Path], ...]


def questions_of(
    adapter: Adapter, images: Iterable[ImageRef], *, answered: Callable[[Collection[str]], set[str]]
) -> Questions:
    """The questions about ``images``; ``answered`` tells which keys have an answer."""
    key = key_maker(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    paths: dict[str, Path] = {}
    for image in images:
        paths.setdefault(image.sha256, image.path)
    questions = [Question(key(digest), digest) for digest in paths]
    known = answered([question.key for question in questions])
    todo = tuple((question, paths[question.image_sha256]) for question in questions if question.key not in known)
    return Questions(len(questions), todo)


def in_batches(sizes: Sequence[int | None], *, most: int, most_bytes: int | None) -> list[slice]:
    """Consecutive images, at most ``most`` and ``most_bytes`` bytes together (or one image) in each batch."""
    cuts, weight = [0], 0
    for index, size in enumerate(sizes):
        weight += size or 0
        if index > cuts[-1] and (index - cuts[-1] == most or (most_bytes is not None and weight > most_bytes)):
            cuts.append(index)
            weight = size or 0
    return [slice(start, end) for start, end in zip(cuts, [*cuts[1:], len(sizes)], strict=True) if end > start]


def batches_of(adapter: Adapter, items: "Sequence[tuple[Question, Path]]") -> list[slice]:
    """How images are put together into calls."""
    declared = adapter.capabilities
    weigh = declared.batch > 1 and declared.batch_bytes is not None
    sizes = [_size(path) if weigh else None for _, path in items]
    return in_batches(sizes, most=declared.batch, most_bytes=declared.batch_bytes)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None
