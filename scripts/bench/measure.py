"""Shared by the benchmarks: time and memory of a function in a new process, and the coverage of intervals."""

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
    """Result and cost of a call.

    Attributes:
        result: the returned value.
        seconds: wall-clock time.
        processor: processor time, workers included, in seconds.
        peak_mib: peak memory of the process and its workers together, shared pages counted once (PSS, sampled twice a
            second).
    """

    result: Result
    seconds: float
    processor: float
    peak_mib: float

    def __str__(self) -> str:
        return f"{self.seconds:8.2f} s  {self.processor:8.2f} s processor time  peak {self.peak_mib:6.0f} MiB"


def measured(function: Callable[..., Result], *args: Any, **kwargs: Any) -> Measured[Result]:
    """Call a module-level function in a spawned process; the peak of a forked one would include its parent's memory."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_measure, (function, args, kwargs))


def tree_mib(process: int) -> float:
    """Return the current memory of a process and its descendants in MiB; shared pages count once."""
    total = 0.0
    for member in _tree(process):
        with suppress(OSError):  # it ended
            text = Path(f"/proc/{member}/smaps_rollup").read_text(encoding="ascii")
            total += sum(map(int, re.findall(r"^Pss:\s+(\d+)", text, re.MULTILINE))) / 1024
    return total


def _tree(process: int) -> Iterator[int]:
    yield process
    for children in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):
            for child in children.read_text(encoding="ascii").split():
                yield from _tree(int(child))


def interval_coverage(estimates: Sequence[tuple[float, float, float]], truth: float) -> tuple[float, float, float]:
    """Return the share of intervals that contain the truth, their mean width, and the mean estimate.

    Args:
        estimates: estimate, lower and upper end of each interval.
        truth: the simulated value.
    """
    values, low, high = np.array(estimates).T
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean()), float(values.mean())


def _measure(function: Callable[..., Result], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Measured[Result]:
    peak, done = 0.0, Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.5):
            peak = max(peak, tree_mib(os.getpid()))

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    started, processor_start = time.perf_counter(), time.process_time()
    result = function(*args, **kwargs)
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = time.process_time() - processor_start + children.ru_utime + children.ru_stime
    seconds = time.perf_counter() - started
    done.set()
    watcher.join()
    return Measured(result, seconds, processor, max(peak, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024))
