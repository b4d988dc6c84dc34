"""How fast bias amplification is against a plain matrix formulation, and how often its interval holds the truth:

    python scripts/bench/amplification.py --coverage

The plain formulation resamples only the value and its deltas, with signs held fixed; ours also draws the signs anew.
"""

from itertools import product

import numpy as np
import typer
from measure import held, measured
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


def simulated(*, rows: int, tasks: int, gap: float, given: bool, direction: str, runs: int) -> tuple[float, ...]:
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
    narrow, wide = [], []
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
        narrow.append((found.value, found.low, found.high))
        wide.append((found.value, found.either_low, found.either_high))
    truth = float((sign * delta).mean())
    (inside, width, _), (inside_either, wider, _) = held(narrow, truth), held(wide, truth)
    return inside, inside_either, wider / width


def main(rows: int = 20_000, tasks: int = 1000, coverage: bool = False, runs: int = 1000) -> None:
    """Speed; with --coverage how often the intervals hold the truth, in so many simulated test sets of each kind."""
    if coverage:
        print("share of 95 % intervals that hold the truth: rows, tasks, gap of the groups' rates, direction")
        for (n, count), gap, direction in product(
            ((200, 1), (200, 20), (1000, 20)), (0.03, 0.1, 0.3), ("A->T", "T->A")
        ):
            own, either, wider = simulated(rows=n, tasks=count, gap=gap, direction=direction, runs=runs, given=False)
            given, *_ = simulated(rows=n, tasks=count, gap=gap, direction=direction, runs=runs, given=True)
            words = f"signs given {given:.1%}, of the test set {own:.1%}, unsure ones either way {either:.1%}"
            print(f"  {n:5d} {count:3d} {gap:.2f} {direction}: {words} ({wider:.1f} times as wide)", flush=True)
        return
    arrays = labels(rows=rows, tasks=tasks, seed=0)
    print(f"A->T, {rows} rows x 2 groups x {tasks} tasks, {RESAMPLES} resamples")
    reference = measured(plain, *arrays)
    print(f"  plain matrices    {reference}")
    for given in (True, False):
        cost = measured(ours, *arrays, given=given)
        times = reference.processor / cost.processor
        print(f"  ours, signs {'given' if given else 'drawn'}  {cost}  {times:.1f} times as fast as plain")


if __name__ == "__main__":
    typer.run(main)
