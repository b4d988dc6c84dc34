"""What the benchmarks share: a function measured in a process of its own, and how often intervals hold the truth."""

import multiprocessing
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

Result = TypeVar("Result")


@dataclass(frozen=True)
class Measured(Generic[Result]):
    """What a call returned, its seconds by the clock and of the processor (workers' too), its own peak of memory."""

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


def held(found: Sequence[tuple[float, float, float]], truth: float) -> tuple[float, float, float]:
    """Share of intervals that hold the truth, their mean width, and the mean estimate.

    Args:
        found: estimate, and both ends of its interval.
        truth: what was simulated.
    """
    values, low, high = np.array(found).T
    return float(((low <= truth) & (truth <= high)).mean()), float((high - low).mean()), float(values.mean())


def _measure(work: Callable[..., Result], given: Sequence[Any], named: Mapping[str, Any]) -> Measured[Result]:
    started, busy = time.perf_counter(), time.process_time()
    result = work(*given, **named)
    of_workers = resource.getrusage(resource.RUSAGE_CHILDREN)
    processor = time.process_time() - busy + of_workers.ru_utime + of_workers.ru_stime
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return Measured(result, seconds, processor, peak)
