"""Thread-safe counts of the images for one classifier by their outcome."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class RequestCounts:
    """Counts of images; ``images = known + answered + unreadable + failed + waiting + not_sent`` in the end.

    Attributes:
        images: distinct images, by their bytes.
        known: images that had an answer before.
        answered: images that got an answer.
        unreadable: images that got an answer without labels; they are resent only with ``--retry unreadable``.
        failed: images that got no answer; the next run sends them again.
        waiting: images in unfinished jobs, whose answers a later run fetches.
        not_sent: images left out because the client stopped.
        unresolved: intents of interrupted runs without an outcome, so possibly sent, and billed, twice.
        calls: calls made, including calls for sentinels and failed calls.
        repeated: retries of images.
        throttled: calls that the service refused as too many.
        stopped: why the client stopped early.
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
        """Number of images with a final outcome."""
        return self.known + self.answered + self.unreadable + self.failed


class Tally:
    """Thread-safe counters; each change is atomic and reported before the next."""

    def __init__(self, counts: RequestCounts, progress: Callable[[RequestCounts], None]) -> None:
        self.counts = counts
        self._progress = progress
        self._lock = threading.Lock()

    def add(self, *, show: bool = False, **increments: int) -> tuple[RequestCounts, RequestCounts]:
        """Add to the counters, and report them if ``show``; return the counts before and after."""
        with self._lock:
            before = self.counts
            self.counts = replace(before, **{name: getattr(before, name) + count for name, count in increments.items()})
            if show:
                self._progress(self.counts)
            return before, self.counts

    def stopped(self, why: str) -> None:
        """Record why the client stopped; only the first reason counts."""
        with self._lock:
            self.counts = replace(self.counts, stopped=self.counts.stopped or why)
