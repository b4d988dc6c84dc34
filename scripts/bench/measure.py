"""What the benchmarks share: a function measured in a process of its own, and how often intervals hold the truth."""

import multiprocessing
import os
import re
import resource
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event, Thread
from typing import Any, Generic, TypeVar

import numpy as np

Result = TypeVar("Result")


@dataclass(frozen=True)
class Measured(Generic[Result]):
    """What a call returned, its seconds by the clock and of the processor (workers' too), and the most memory that its
    process and its workers held together, with what they share counted once (PSS, looked at twice a second)."""

    result: Result
    seconds: float
    processor: float
    peak_mib: float

    def __str__(self) -> str:
        return f"{self.seconds:8.2f} s  {self.processor:8.2f} s of processor  peak {self.peak_mib:6.0f} MiB"


def measured(work: Callable[..., Result], *given: Any, **named: Any) -> Measured[Result]:
    """Call a function of a module in a new process: a forked one's peak would begin with its parent's size."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (work, given, named))


def tree_mib(process: int) -> float:
    """What a process and its descendants hold at this moment, in MiB; pages that they share count once."""
    held = 0.0
    for one in _tree(process):
        with suppress(OSError):  # it ended
            text = Path(f"/proc/{one}/smaps_rollup").read_text(encoding="ascii")
            held += sum(map(int, re.findall(r"^Pss:\s+(\d+)", text, re.MULTILINE))) / 1024
    return held


def _tree(process: int) -> Iterator[int]:
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text(encoding="ascii").split():
                yield from _tree(int(child))


def held(found: Sequence[tuple[float, float, float]], truth: float) -> tuple[float, float, float]:
    """Share of intervals that hold the truth, their mean width, and the mean estimate.

    Args:
        found: estimate, and both ends of its interval.
        truth: what was simulated.
    """
    values, low, high = np.array(found).T
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean()), float(values.mean())


def _measure(work: Callable[..., Result], given: Sequence[Any], named: Mapping[str, Any]) -> Measured[Result]:
    peak, done = 0.0, Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.5):
            peak = max(peak, tree_mib(os.getpid()))

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    started, busy = time.perf_counter(), time.process_time()
    result = work(*given, **named)
    of_workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = time.process_time() - busy + of_workers.ru_utime + of_workers.ru_stime
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    return Measured(result, seconds, processor, max(peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
