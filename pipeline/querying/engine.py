"""Asks one classifier about many images: only what has no answer yet, every outcome kept, no failure unnamed.

What answers mean is not looked at here. The order of answers is of no consequence to anything.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from adapters.base import Adapter, AdapterError, RawAnswer
from pipeline.querying.keys import key_maker
from pipeline.querying.store import Question, Store


@dataclass(frozen=True)
class ImageRef:
    """An image as the table of counterfactuals has it: the sha256 of the file's bytes, and where it lies."""

    sha256: str
    path: Path


@dataclass(frozen=True)
class AskCounts:
    """What became of the images; ``images = known + answered + failed`` once all are done.

    Attributes:
        images: distinct images, by their bytes.
        known: had an answer before.
        answered: got one now.
        failed: got none; they are asked again by the next run.
        unresolved: intents of earlier, interrupted runs that have no outcome: possibly asked, and billed, twice.
    """

    images: int
    known: int = 0
    answered: int = 0
    failed: int = 0
    unresolved: int = 0

    @property
    def done(self) -> int:
        """How many images have been dealt with."""
        return self.known + self.answered + self.failed


class _ImageError(Exception):
    """An image cannot be sent."""


@dataclass(frozen=True)
class _Asking:
    """One classifier and the store that its answers go to."""

    adapter: Adapter
    store: Store
    classifier: int

    def batch(self, images: Sequence[tuple[Question, Path]]) -> tuple[int, int]:
        """Ask about a batch; how many were answered, and how many failed."""
        ready: list[tuple[Question, Path]] = []
        contents: list[bytes] = []
        for question, path in images:
            try:
                contents.append(_read(path, question.image_sha256))
            except _ImageError as error:
                self.store.refuse(question, classifier=self.classifier, error=str(error))
            else:
                ready.append((question, path))
        failed = len(images) - len(ready)
        if not ready:
            return 0, failed
        intents = self.store.begin([question for question, _ in ready], classifier=self.classifier)
        try:
            answers = _checked(self.adapter.send(contents), expected=len(contents))
        except AdapterError as error:
            self.store.fail(intents, error=str(error))
            raise
        except Exception as error:  # one image's failure, whatever it is, must not take the run with it
            self.store.fail(intents, error=f"{type(error).__name__}: {error}")
            if len(ready) == 1:
                return 0, failed + 1
            single = [self.batch([image]) for image in ready]
            return sum(ok for ok, _ in single), failed + sum(lost for _, lost in single)
        self.store.finish(zip(intents, answers, strict=True), classifier=self.classifier)
        return len(ready), failed


def ask(
    adapter: Adapter,
    images: Iterable[ImageRef],
    store: Store,
    *,
    progress: Callable[[AskCounts], None] | None = None,
) -> AskCounts:
    """Ask a classifier about every image that has no answer yet; images of identical bytes are asked once.

    A batch that fails is asked again image by image, once. ``progress`` is told the counts so far after each batch.

    Raises:
        AdapterError: the classifier cannot be used; every answer it gave before is kept.
    """
    key = key_maker(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    paths: dict[str, Path] = {}
    for image in images:
        paths.setdefault(image.sha256, image.path)
    questions = [Question(key(digest), digest) for digest in paths]
    known = store.answered([question.key for question in questions])
    todo = [(question, paths[question.image_sha256]) for question in questions if question.key not in known]

    store.outlive_power_loss(adapter.capabilities.remote)
    classifier = store.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    asking = _Asking(adapter, store, classifier)
    counts = AskCounts(images=len(questions), known=len(known), unresolved=store.unresolved(classifier=classifier))
    report = progress or (lambda _: None)
    report(counts)
    batches = _in_batches(todo, adapter.capabilities.batch)
    for answered, failed in _each(asking.batch, batches, concurrency=adapter.capabilities.concurrency):
        counts = replace(counts, answered=counts.answered + answered, failed=counts.failed + failed)
        report(counts)
    return counts


Batch = Sequence[tuple[Question, Path]]


def _in_batches(items: Batch, size: int) -> Iterator[Batch]:
    return (items[start : start + size] for start in range(0, len(items), size))


def _each(
    function: Callable[[Batch], tuple[int, int]], batches: Iterator[Batch], *, concurrency: int
) -> Iterator[tuple[int, int]]:
    """``function`` of each batch, up to ``concurrency`` at once, as they finish; few batches wait in memory."""
    if concurrency == 1:
        # In the caller's own thread: local models and users' functions may depend on it.
        yield from map(function, batches)
        return
    pool = ThreadPoolExecutor(concurrency, thread_name_prefix="ask")
    waiting: set[Future[tuple[int, int]]] = set()
    try:
        for batch in batches:
            waiting.add(pool.submit(function, batch))
            if len(waiting) > 2 * concurrency:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            yield from (future.result() for future in done)
    finally:
        pool.shutdown(cancel_futures=True)


def _read(path: Path, expected: str) -> bytes:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise _ImageError(f"the image {path.name} cannot be read ({error.strerror}): make the images again") from error
    if sha256(content).hexdigest() != expected:
        raise _ImageError(f"the image {path.name} was changed after it was made: make the images again")
    return content


def _checked(answers: list[RawAnswer], *, expected: int) -> list[RawAnswer]:
    if len(answers) != expected:
        raise ValueError(f"the adapter gave {len(answers)} answers for {expected} images")
    for answer in answers:
        if not isinstance(answer, RawAnswer) or not isinstance(answer.body, bytes):
            raise TypeError(f"the adapter gave {type(answer).__name__} instead of a RawAnswer with bytes")
    return answers
