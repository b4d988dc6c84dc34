"""Counts of what became of the images for one classifier, added to by many threads."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class RequestCounts:
    """Counts of images; ``images = known + answered + unreadable + failed + waiting + not_sent`` once all are done.

    Attributes:
        images: distinct images, by their bytes.
        known: had an answer before.
        answered: got one now.
        unreadable: got one now that holds no labels; sent again only where that is wanted.
        failed: got none; they are sent again by the next run.
        waiting: in jobs that are not answered yet; a later run fetches their answers.
        not_sent: left out, because the client stopped before.
        unresolved: intents of earlier, interrupted runs that have no outcome: possibly sent, and billed, twice.
        calls: made now, those for sentinels and those in vain included.
        repeated: images that were sent again after a failure, once for each time.
        throttled: calls that came too fast for the service.
        stopped: why the client stopped before all were sent.
    """

    images: int
    known: int = 0
    answered: int = 0
    unreadable: int = 0
    failed: int = 0
    waiting: int = 0
    not_sent: int = 0
    unresolved: int = 0
    calls: int = field(default=0, compare=False)
    repeated: int = field(default=0, compare=False)
    throttled: int = field(default=0, compare=False)
    stopped: str | None = None

    @property
    def done(self) -> int:
        """How many images have been dealt with."""
        return self.known + self.answered + self.unreadable + self.failed


class Tally:
    """The counts so far; each change is whole, and shown before the next."""

    def __init__(self, counts: RequestCounts, progress: Callable[[RequestCounts], None]) -> None:
        self.counts = counts
        self._progress = progress
        self._lock = threading.Lock()

    def add(self, *, show: bool = False, **more: int) -> tuple[RequestCounts, RequestCounts]:
        """The counts before and after so much more of each."""
        with self._lock:
            before = self.counts
            self.counts = replace(before, **{name: getattr(before, name) + count for name, count in more.items()})
            if show:
                self._progress(self.counts)
            return before, self.counts

    def stopped(self, why: str) -> None:
        """Keep why the client stopped, the first reason only."""
        with self._lock:
            self.counts = replace(self.counts, stopped=self.counts.stopped or why)
