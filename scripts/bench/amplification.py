"""How fast bias amplification is against a plain matrix formulation, and how often its interval holds the truth:

    python scripts/bench/amplification.py --coverage

The plain formulation resamples only the value and its deltas, with signs held fixed; ours also draws the signs anew.
"""

import argparse
import multiprocessing
import resource
import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from pipeline.statistics.amplification.directional import attribute_to_task, task_to_attribute

RESAMPLES = 1000
Labels = NDArray[np.int8]


def labels(*, rows: int, tasks: int, seed: int) -> tuple[Labels, Labels, Labels]:
    """Two groups, tasks of rates from 5 to 50 % that depend on the group, and predictions with 10 % errors."""
    random = np.random.default_rng(seed)
    group = random.integers(0, 2, size=rows)
    rates = random.uniform(0.05, 0.5, size=(2, tasks))
    truth = (random.random((rows, tasks), dtype=np.float32) < rates[group]).astype(np.int8)
    wrong = random.random((rows, tasks), dtype=np.float32) < 0.1
    return np.eye(2, dtype=np.int8)[group], truth, np.where(wrong, 1 - truth, truth)


def ours(attributes: Labels, tasks: Labels, predictions: Labels, *, given: bool) -> float:
    """Value and interval; with ``given`` signs, or with the test set's own, drawn anew."""
    base = np.ones((2, tasks.shape[1]), dtype=np.int8) if given else None
    return attribute_to_task(attributes, tasks, predictions=predictions, base=base, resamples=RESAMPLES).value


def plain(attributes: Labels, tasks: Labels, predictions: Labels) -> float:
    """The matrix formulation one would write first, in single precision."""
    rows = len(tasks)
    joint = attributes.T.astype(np.float32) @ tasks / rows
    sign = np.sign(joint - np.outer(attributes.mean(axis=0), tasks.mean(axis=0)))
    counts = np.random.default_rng(0).multinomial(rows, np.full(rows, 1 / rows), size=RESAMPLES).astype(np.float32)
    change = (predictions - tasks).astype(np.float32)
    values = np.zeros(RESAMPLES)
    for group in range(attributes.shape[1]):
        weights = counts * attributes[:, group]
        delta = (weights @ change) / weights.sum(axis=1, keepdims=True)
        values += (sign[group] * delta).sum(axis=1)
        np.percentile(delta, [2.5, 97.5], axis=0)
    return float(np.percentile(values / sign.size, [2.5, 97.5])[0])


def measured(work: Callable[[], float]) -> tuple[float, float, float]:
    """Seconds, seconds of processor time, and peak memory in GiB of the process of its own in which ``work`` ran."""
    queue = multiprocessing.get_context("fork").SimpleQueue()

    def run() -> None:
        start, started = time.perf_counter(), time.process_time()
        work()
        seconds, busy = time.perf_counter() - start, time.process_time() - started
        queue.put((seconds, busy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the measured process ended with {process.exitcode}")
    answer: tuple[float, float, float] = queue.get()
    return answer


def coverage(
    *, rows: int, tasks: int, gap: float, given: bool, direction: str, runs: int
) -> tuple[float, float, float]:
    """Shares of simulated test sets with a 95 % interval, and with a wider one, that hold the true amplification.

    The last number is how many times as wide the latter is, on average.

    Args:
        rows: of each test set.
        tasks: |T|, of rates from 10 to 60 %, ``gap`` apart between the two groups in either direction.
        gap: 0 to 0.4.
        given: whether the true signs are given, or those of the test set count.
        direction: "A->T" or "T->A".
        runs: test sets.
    """
    setting = np.random.default_rng(1)
    middle = setting.uniform(0.1, 0.6, tasks)
    lean = setting.choice([-1, 1], tasks) * gap / 2
    rates = np.clip(np.stack([middle - lean, middle + lean]), 0.02, 0.98)
    false, missed = setting.uniform(0.02, 0.2, (2, tasks)), setting.uniform(0.05, 0.3, (2, tasks))
    swapped = np.array([0.1, 0.2])  # how often the classifier takes each group for the other
    share = np.array([0.6, 0.4])
    sign = np.sign(np.round(rates - share @ rates, 12)).astype(np.int8)
    joint = share[:, None] * rates
    if direction == "A->T":
        delta = (1 - rates) * false - rates * missed
    else:
        delta = (swapped[::-1, None] * joint[::-1] - swapped[:, None] * joint) / joint.sum(axis=0)
    truth = float((sign * delta).mean())
    inside = inside_either = 0
    widths = []
    for run in range(runs):
        random = np.random.default_rng([run, rows, tasks])
        group = random.choice(2, size=rows, p=share)
        attributes = np.eye(2, dtype=np.int8)[group]
        labelled = (random.random((rows, tasks)) < rates[group]).astype(np.int8)
        base = sign if given else None
        if direction == "A->T":
            chance = np.where(labelled == 1, 1 - missed[group], false[group])
            predicted = (random.random((rows, tasks)) < chance).astype(np.int8)
            found = attribute_to_task(attributes, labelled, predictions=predicted, base=base, seed=run)
        else:
            taken = np.where(random.random(rows) < swapped[group], 1 - group, group)
            predicted = np.eye(2, dtype=np.int8)[taken]
            found = task_to_attribute(attributes, labelled, predictions=predicted, base=base, seed=run)
        inside += found.low <= truth <= found.high
        inside_either += found.either_low <= truth <= found.either_high
        widths.append((found.either_high - found.either_low) / (found.high - found.low))
    return inside / runs, inside_either / runs, float(np.mean(widths))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--coverage", action="store_true", help="simulate how often the intervals hold the truth")
    parser.add_argument("--runs", type=int, default=1000, help="simulated test sets of each kind")
    options = parser.parse_args()
    if options.coverage:
        print("share of 95 % intervals that hold the truth: rows, tasks, gap of the groups' rates, direction")
        for rows, tasks in ((200, 1), (200, 20), (1000, 20)):
            for gap in (0.03, 0.1, 0.3):
                for direction in ("A->T", "T->A"):
                    setting = {"rows": rows, "tasks": tasks, "gap": gap, "direction": direction, "runs": options.runs}
                    given, *_ = coverage(**setting, given=True)
                    own, either, wider = coverage(**setting, given=False)
                    words = f"signs given {given:.1%}, of the test set {own:.1%}, unsure ones either way {either:.1%}"
                    words += f" ({wider:.1f} times as wide)"
                    print(f"  {rows:5d} {tasks:3d} {gap:.2f} {direction}: {words}", flush=True)
        return
    arrays = labels(rows=options.rows, tasks=options.tasks, seed=0)
    print(f"A->T, {options.rows} rows x 2 groups x {options.tasks} tasks, {RESAMPLES} resamples")
    works: dict[str, Callable[[], float]] = {
        "plain matrices": lambda: plain(*arrays),
        "this house, signs given": lambda: ours(*arrays, given=True),
        "this house, signs drawn": lambda: ours(*arrays, given=False),
    }
    reference = 0.0
    for name, work in works.items():
        seconds, busy, memory = measured(work)
        reference = reference or busy
        times = f"{seconds:6.2f} s, {busy:6.2f} s of processor"
        print(f"  {name:24s} {times}  {memory:.2f} GiB  {reference / busy:.1f} times as fast as plain")


if __name__ == "__main__":
    main()
