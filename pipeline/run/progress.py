"""Progress displays of stages: bars on standard error or in a notebook, or none."""

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from html import escape
from importlib import import_module
from time import monotonic
from typing import TYPE_CHECKING, Any, Protocol

from pipeline.run.formats import duration

if TYPE_CHECKING:
    from rich.progress import Progress


SECONDS_BETWEEN = 0.3  # between updates in a notebook, each of which is a message to the browser


class Advance(Protocol):
    """Reports finished items of a stage."""

    def __call__(self, count: float, note: str = "") -> None:
        """Add ``count`` finished items, which may be a fraction; show ``note`` until the next call."""
        ...


class Watch(Protocol):
    """Opens the progress display of a stage."""

    def __call__(self, stage: str, *, total: int) -> AbstractContextManager[Advance]:
        """Watch a stage of ``total`` items. Several stages may be watched at once."""
        ...


@contextmanager
def unwatched(stage: str, *, total: int) -> Iterator[Advance]:
    """Show nothing."""
    yield lambda count, note="": None


class Bars:
    """One bar per stage on standard error, with counts and time left. Bars of finished stages stay."""

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
                display.update(task, completed=round(done, 6), note=note)  # rounded, so that thirds of a photo sum to 1

        try:
            yield advance
        finally:
            with self._lock:
                self._open -= 1
                if self._open == 0:
                    display.stop()
                    self._display = None


def in_notebook() -> bool:
    """Return whether this process is a notebook's kernel; IPython in a terminal is not."""
    shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
    return getattr(shell, "kernel", None) is not None


class NotebookBars:
    """One bar per stage below the notebook's cell, with counts and time, without widgets. Bars stay."""

    @contextmanager
    def __call__(self, stage: str, *, total: int) -> Iterator[Advance]:
        """See ``Watch``."""
        display = import_module("IPython.display").display
        started, done, said, drawn = monotonic(), 0.0, "starting", 0.0
        lock = threading.Lock()
        shown = display(_line(stage, 0, total, 0, said), raw=True, display_id=True)

        def advance(count: float, note: str = "") -> None:
            nonlocal done, said, drawn
            with lock:
                done, said, now = round(done + count, 6), note, monotonic()
                if now - drawn > SECONDS_BETWEEN:
                    drawn = now
                    shown.update(_line(stage, done, total, now - started, said), raw=True)

        try:
            yield advance
        finally:
            shown.update(_line(stage, done, total, monotonic() - started, said), raw=True)


def _line(stage: str, done: float, total: int, seconds: float, note: str) -> dict[str, Any]:
    """Return a stage's progress for IPython's ``display``."""
    words = f"{stage} {int(done):,} of {total:,} · {duration(seconds)}" + (f" · {note}" if note else "")
    bar = f'<progress value="{done:g}" max="{max(total, 1)}"></progress>'
    return {"text/plain": words, "text/html": f"{bar} {escape(words)}"}


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
        SpinnerColumn(finished_text=" "),  # shows activity while networks load
        TextColumn("{task.description:<16}", markup=False), BarColumn(bar_width=30), MofNCompleteColumn(),
        TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), TextColumn("{task.fields[note]}", markup=False),
    )  # fmt: skip
    return Progress(*columns, console=Console(stderr=True, emoji=False))
