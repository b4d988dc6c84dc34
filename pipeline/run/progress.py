"""The progress of a stage: a bar on standard error, or nothing where there is no terminal."""

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from rich.progress import Progress


class Advance(Protocol):
    """Called with how many more items of a stage are done; parts of an item count too."""

    def __call__(self, count: float, note: str = "") -> None:
        """``note`` is shown next to the bar until the next call."""
        ...


class Watch(Protocol):
    """Opens a stage of ``total`` items and gives the function that is called as they are done."""

    def __call__(self, stage: str, *, total: int) -> AbstractContextManager[Advance]:
        """Watch one stage; several may be watched at once."""
        ...


@contextmanager
def unwatched(stage: str, *, total: int) -> Iterator[Advance]:
    """No display."""
    yield lambda count, note="": None


class Bars:
    """One bar a stage, with counts and time left, on standard error; it stays when the stage is done."""

    def __init__(self) -> None:
        self._display: Progress | None = None
        self._open = 0
        self._lock = threading.Lock()

    @contextmanager
    def __call__(self, stage: str, *, total: int) -> Iterator[Advance]:
        """See ``Watch``."""
        with self._lock:
            if self._display is None:
                self._display = _display()
                self._display.start()
            self._open += 1
            display = self._display
        task = display.add_task(stage, total=total, note="starting")
        done = 0.0

        def advance(count: float, note: str = "") -> None:
            nonlocal done
            with self._lock:
                done += count
                display.update(task, completed=round(done, 6), note=note)  # thirds of a photo add up to a whole one

        try:
            yield advance
        finally:
            with self._lock:
                self._open -= 1
                if self._open == 0:
                    display.stop()
                    self._display = None


def _display() -> "Progress":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        SpinnerColumn(finished_text=" "),  # moves while networks load, before anything can be counted
        TextColumn("{task.description:<16}", markup=False), BarColumn(bar_width=30), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False),
    )  # fmt: skip
    return Progress(*columns, console=Console(stderr=True, emoji=False))
