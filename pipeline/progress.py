"""Telling people how far a stage is: a progress bar on a terminal, nothing where nobody looks."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

Advance = Callable[[int], None]


class Watch(Protocol):
    """Opens a stage of ``total`` items and gives the function that is told how many more are done."""

    def __call__(self, stage: str, *, total: int) -> AbstractContextManager[Advance]:
        """Watch one stage."""
        ...


@contextmanager
def unwatched(stage: str, *, total: int) -> Iterator[Advance]:
    """No display."""
    yield lambda count: None


@contextmanager
def progress_bar(stage: str, *, total: int) -> Iterator[Advance]:
    """A bar with rate and time left on standard error; it stays when the stage is done."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description:<16}"), BarColumn(bar_width=30), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("left"), TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True)) as display:
        task = display.add_task(stage, total=total)
        yield lambda count: display.advance(task, count)
