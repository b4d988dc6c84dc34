"""Coverage of the intervals of DPA and leakage, with and without ties between the best guesses:

    python scripts/bench/predictability.py --runs 1000

Populations:

* balanced: groups and tasks are independent and even, predictions follow the group in 60 %;
* ten categories: a task independent of the group, evenly spread or not;
* favourite: one of ten categories is slightly ahead, in predictions or in labels;
* twelve tasks, attacked by cross-fitted logistic regression: independent of the group (truth 0), or four of them depend
  on it and their predictions more so (truth: the mean of all runs);
* forty tasks, as Wang et al. have many: only a quarter of the predictions depend on the group, which they copy.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import typer
from measure import interval_coverage
from numpy.typing import NDArray

from pipeline.statistics import dpa, leakage

Floats = NDArray[np.float64]
Measure = Callable[[Any, Any, Any, int], tuple[float, float, float]]


def balanced() -> Floats:
    """Return P(group, task, prediction) ``(2, 2, 2)``."""
    shares = np.zeros((2, 2, 2))
    for (group, task, guess), share in {
        (0, 0, 0): 0.25, (0, 1, 0): 0.05, (0, 1, 1): 0.2, (1, 1, 1): 0.25, (1, 0, 1): 0.05, (1, 0, 0): 0.2
    }.items():  # fmt: skip
        shares[group, task, guess] = share
    return shares


def independent(task: Floats, guess: Floats | None = None, *, right: float = 0.7) -> Floats:
    """Return ``(2, K, K)`` independent of the group, with accuracy ``right`` or predictions drawn from ``guess``."""
    count = len(task)
    if guess is not None:
        joint = np.outer(task, guess)
    else:
        joint = task[:, None] * np.where(np.eye(count, dtype=bool), right, (1 - right) / (count - 1))
    return np.stack([joint, joint]) / 2


def favourite(ahead: float, rows: int, *, categories: int = 10) -> Floats:
    """Return shares ``(K,)``: even, with the first ``ahead`` by that many standard errors of a difference."""
    even = 1 / categories
    shares = np.full(categories, even)
    gap = ahead * np.sqrt(2 * even / rows)
    shares[1:] -= gap / categories
    shares[0] += gap * (1 - even)
    return shares


def truths(shares: Floats) -> tuple[float, float]:
    """Return DPA A->T and leakage amplification in the limit of infinitely many rows."""
    labels, guesses = shares.sum(axis=2), shares.sum(axis=1)
    wrong = 1 - np.einsum("att->", shares)
    noisy = (1 - wrong) * labels + wrong * (labels.sum(axis=1, keepdims=True) - labels) / (labels.shape[1] - 1)
    model, data = guesses.max(axis=1).sum(), noisy.max(axis=1).sum()
    leaked = guesses.max(axis=0).sum() - noisy.max(axis=0).sum()
    return float((model - data) / (model + data)), float(leaked)


def dpa_of(group: Any, task: Any, guess: Any, seed: int) -> tuple[float, float, float]:
    """Return DPA A->T and its interval."""
    (found,) = dpa(group, task, predictions=guess, resamples=500, seed=seed)
    return found.dpa, *found.intervals.loc["dpa"]


def leakage_of(group: Any, task: Any, guess: Any, seed: int) -> tuple[float, float, float]:
    """Return leakage amplification and its interval."""
    found = leakage(group, task, guess, resamples=500, repeats=2, seed=seed)
    return found.amplification, *found.intervals.loc["amplification"]


def sampled(shares: Floats, measure: Measure, *, rows: int, runs: int) -> list[tuple[float, float, float]]:
    """Estimate a measure in samples of a population."""
    found = []
    for run in range(runs):
        random = np.random.default_rng([run, rows])
        cells = random.choice(shares.size, size=rows, p=shares.ravel())
        group, task, guess = np.unravel_index(cells, shares.shape)
        found.append(measure(group, task, guess, run))
    return found


def twelve_tasks(lean: float, *, rows: int, runs: int) -> dict[str, list[tuple[float, float, float]]]:
    """Estimate DPA T->A and leakage of twelve tasks; four depend on the group by ``lean``, predictions more so."""
    found: dict[str, list[tuple[float, float, float]]] = {"DPA T->A": [], "leakage": []}
    for run in range(runs):
        random = np.random.default_rng([run, rows])
        group = random.integers(0, 2, rows)
        leaning = lean * (np.arange(12) < 4) * (2 * group[:, None] - 1)
        tasks = (random.random((rows, 12)) < 0.5 + leaning).astype(int)
        wrong = random.random((rows, 12)) < 0.3
        guesses = np.where(wrong, random.random((rows, 12)) < 0.5 + 3 * leaning, tasks)
        shown = tasks[:, :4].sum(axis=1) + random.random(rows) > 2.5
        follows = random.random(rows) < (0.3 if lean else 0.0)
        guess = np.where(follows, shown, np.where(random.random(rows) < 0.7, group, 1 - group)).astype(int)
        (each,) = dpa(group, tasks, predicted_attributes=guess, repeats=4, seed=run)
        found["DPA T->A"].append((each.dpa, *each.intervals.loc["dpa"]))
        leaked = leakage(group, tasks, guesses, repeats=4, seed=run)
        found["leakage"].append((leaked.amplification, *leaked.intervals.loc["amplification"]))
    return found


def forty_tasks(*, rows: int, runs: int) -> list[tuple[float, float, float]]:
    """Estimate leakage of forty tasks that are independent of the group; a quarter of the predictions copy it."""
    found = []
    for run in range(runs):
        random = np.random.default_rng([run, rows])
        group, tasks = random.integers(0, 2, rows), random.integers(0, 2, (rows, 40))
        guesses = np.where(random.random((rows, 40)) < 0.25, group[:, None], tasks)
        each = leakage(group, tasks, guesses, repeats=4, seed=run)
        found.append((each.amplification, *each.intervals.loc["amplification"]))
    return found


def cells(rows: int) -> Iterator[tuple[str, Floats]]:
    """Yield the populations with their names."""
    even, uneven = np.full(10, 0.1), np.arange(10, 0, -1) / 55
    yield "balanced", balanced()
    yield "ten categories, even", independent(even)
    yield "ten categories, uneven", independent(uneven)
    for ahead in (1.0, 2.0, 3.0):
        yield f"favourite in predictions, {ahead:g}", independent(even, favourite(ahead, rows))
        yield f"favourite in labels, {ahead:g}", independent(favourite(ahead, rows), even)


def main(runs: int = 1000, rows: str = "100,500,2000", cross_fitted: bool = False) -> None:
    """Print the coverage for each population, measure and number of rows.

    Args:
        runs: simulated samples of each population.
        rows: rows of a sample; several numbers are joined by commas.
        cross_fitted: only the populations of twelve and forty tasks.
    """
    print("coverage of 95 % intervals in per cent; mean width; truth and mean estimate")
    for n in map(int, rows.split(",")):
        for lean in (0.0, 0.1):
            for kind, found in twelve_tasks(lean, rows=n, runs=runs if cross_fitted else max(1, runs // 10)).items():
                name = "four of twelve tasks lean" if lean else "twelve tasks, noise"
                show(f"n {n:5d}  {name}, {kind}", found, float(np.mean(found, axis=0)[0]) if lean else 0.0)
        forty = forty_tasks(rows=n, runs=runs if cross_fitted else max(1, runs // 10))
        show(f"n {n:5d}  forty tasks, a quarter copied, leakage", forty, float(np.mean(forty, axis=0)[0]))
        for name, shares in () if cross_fitted else cells(n):
            measures: dict[str, Measure] = {"DPA": dpa_of}
            if n >= 300 or shares.shape[1] == 2:  # with fewer rows the majority rule memorises ten categories
                measures["leakage"] = leakage_of
            for (kind, measure), truth in zip(measures.items(), truths(shares), strict=False):
                show(f"n {n:5d}  {name}, {kind}", sampled(shares, measure, rows=n, runs=runs), truth)


def show(what: str, found: Sequence[tuple[float, float, float]], truth: float) -> None:
    """Print a line of the result."""
    inside, width, mean = interval_coverage(found, truth)
    print(f"{what}: {100 * inside:.1f}  {width:.3f}  {truth:.4f} {mean:.4f}", flush=True)


if __name__ == "__main__":
    typer.run(main)
