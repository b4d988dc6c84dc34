"""Coverage of the intervals of bias amplification on simulated test sets:

python scripts/bench/amplification.py --runs 1000
"""

from itertools import product
from typing import Any

import numpy as np
import typer
from measure import interval_coverage

from pipeline.statistics.amplification.directional import attribute_to_task, task_to_attribute


def simulated(*, rows: int, tasks: int, gap: float, given: bool, direction: str, runs: int) -> tuple[float, ...]:
    """Simulate test sets and compute the coverage of the 95 % interval and of the one that allows either sign.

    Args:
        rows: rows of each test set.
        tasks: number of tasks |T|, with rates from 10 to 60 % that differ by ``gap`` between the two groups, in either
            direction.
        gap: 0 to 0.4.
        given: use the true signs; otherwise those of the test set.
        direction: "A->T" or "T->A".
        runs: number of test sets.

    Returns:
        Coverage of both intervals in 0-1, and the mean width of the second divided by that of the first.
    """
    setting = np.random.default_rng(1)
    middle = setting.uniform(0.1, 0.6, tasks)
    lean = setting.choice([-1, 1], tasks) * gap / 2
    rates = np.clip(np.stack([middle - lean, middle + lean]), 0.02, 0.98)
    false, missed = setting.uniform(0.02, 0.2, (2, tasks)), setting.uniform(0.05, 0.3, (2, tasks))
    swapped = np.array([0.1, 0.2])  # error rate of the predicted group, by true group
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
    (inside, width, _), (inside_either, wider, _) = interval_coverage(narrow, truth), interval_coverage(wide, truth)
    return inside, inside_either, wider / width


def main(runs: int = 1000) -> None:
    """Print the coverage for each number of rows and tasks, gap and direction."""
    print("coverage of 95 % intervals: rows, tasks, gap between the groups' rates, direction")
    for (rows, tasks), gap, direction in product(((200, 1), (200, 20), (1000, 20)), (0.03, 0.1, 0.3), ("A->T", "T->A")):
        setting: dict[str, Any] = {"rows": rows, "tasks": tasks, "gap": gap, "direction": direction, "runs": runs}
        own, either, wider = simulated(**setting, given=False)
        given, *_ = simulated(**setting, given=True)
        coverages = f"signs given {given:.1%}, of the test set {own:.1%}, either sign {either:.1%}"
        print(f"  {rows:5d} {tasks:3d} {gap:.2f} {direction}: {coverages} ({wider:.1f} times as wide)", flush=True)


if __name__ == "__main__":
    typer.run(main)
