"""What became of the images that one classifier was asked about, in numbers."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class AskCounts:
    """What became of the images; ``images = known + answered + failed + not_asked`` once all are done.

    Attributes:
        images: distinct images, by their bytes.
        known: had an answer before.
        answered: got one now.
        failed: got none; they are asked again by the next run.
        not_asked: left out, because the asking stopped before.
        unresolved: intents of earlier, interrupted runs that have no outcome: possibly asked, and billed, twice.
        calls: requests made now, those for sentinels and those in vain included.
        repeated: images that were asked about again after a failure, once for each time.
        throttled: calls that came too fast for the service.
        stopped: why the asking ended before all were asked.
    """

    images: int
    known: int = 0
    answered: int = 0
    failed: int = 0
    not_asked: int = 0
    unresolved: int = 0
    calls: int = field(default=0, compare=False)
    repeated: int = field(default=0, compare=False)
    throttled: int = field(default=0, compare=False)
    stopped: str | None = None

    @property
    def done(self) -> int:
        """How many images have been dealt with."""
        return self.known + self.answered + self.failed
