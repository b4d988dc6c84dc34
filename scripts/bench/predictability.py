"""How often the intervals of DPA and leakage hold the truth, where a maximum over guesses is tied and where it is not:

    python scripts/bench/predictability.py --runs 1000

Balanced: groups and tasks are independent and even, predictions follow the group in 60 %. Ten categories: a task
that has nothing to do with the group, evenly spread or not. Favourite: one of ten categories a little ahead in
predictions or in labels. Twelve tasks, attacked by cross-fitted logistic regression: nothing to do with the group, or
four of them leaning with it and predictions more so; their truth is the mean of all runs, or 0. Forty tasks, as Wang et
al. have many: nothing depends on the group but a quarter of the predictions, which copy it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import typer
from measure import held
from numpy.typing import NDArray

from pipeline.statistics import dpa, leakage

Floats = NDArray[np.float64]
Measure = Callable[[Any, Any, Any, int], tuple[float, float, float]]


def balanced() -> Floats:
    """``(2, 2, 2)`` P(group, task, prediction)."""
    shares = np.zeros((2, 2, 2))
    for (group, task, guess), share in {
        (0, 0, 0): 0.25, (0, 1, 0): 0.05, (0, 1, 1): 0.2, (1, 1, 1): 0.25, (1, 0, 1): 0.05, (1, 0, 0): 0.2
    }.items():  # fmt: skip
        shares[group, task, guess] = share
    return shares


def independent(task: Floats, guess: Floats | None = None, *, right: float = 0.7) -> Floats:
    """``(2, K, K)``: nothing depends on the group; predictions are right in ``right``, or drawn from ``guess``."""
    count = len(task)
    if guess is not None:
        joint = np.outer(task, guess)
    else:
        joint = task[:, None] * np.where(np.eye(count, dtype=bool), right, (1 - right) / (count - 1))
    return np.stack([joint, joint]) / 2


def favourite(ahead: float, rows: int, *, categories: int = 10) -> Floats:
    """``(K,)`` even shares but for the first, which is so many standard errors of a difference ahead."""
    even = 1 / categories
    shares = np.full(categories, even)
    gap = ahead * np.sqrt(2 * even / rows)
    shares[1:] -= gap / categories
    shares[0] += gap * (1 - even)
    return shares


def truths(shares: Floats) -> tuple[float, float]:
    """DPA A->T and leakage amplification that endless rows would have."""
    labels, guesses = shares.sum(axis=2), shares.sum(axis=1)
    wrong = 1 - np.einsum("att->", shares)
    noisy = (1 - wrong) * labels + wrong * (labels.sum(axis=1, keepdims=True) - labels) / (labels.shape[1] - 1)
    model, data = guesses.max(axis=1).sum(), noisy.max(axis=1).sum()
    leaked = guesses.max(axis=0).sum() - noisy.max(axis=0).sum()
    return float((model - data) / (model + data)), float(leaked)


def dpa_of(group: Any, task: Any, guess: Any, seed: int) -> tuple[float, float, float]:
    """DPA A->T and the ends of its interval."""
    (found,) = dpa(group, task, predictions=guess, resamples=500, seed=seed)
    return found.dpa, *found.intervals.loc["dpa"]


def leakage_of(group: Any, task: Any, guess: Any, seed: int) -> tuple[float, float, float]:
    """Leakage amplification and the ends of its interval."""
    found = leakage(group, task, guess, resamples=500, repeats=2, seed=seed)
    return found.amplification, *found.intervals.loc["amplification"]


def sampled(shares: Floats, measure: Measure, *, rows: int, runs: int) -> list[tuple[float, float, float]]:
    """What a measure finds in samples of a population."""
    found = []
    for run in range(runs):
        random = np.random.default_rng([run, rows])
        cells = random.choice(shares.size, size=rows, p=shares.ravel())
        group, task, guess = np.unravel_index(cells, shares.shape)
        found.append(measure(group, task, guess, run))
    return found


def twelve_tasks(lean: float, *, rows: int, runs: int) -> dict[str, list[tuple[float, float, float]]]:
    """DPA T->A and leakage of twelve tasks, of which four lean with the group, and predictions more so."""
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
    """Leakage of forty tasks of which nothing depends on the group, but a quarter of the predictions copy it."""
    found = []
    for run in range(runs):
        random = np.random.default_rng([run, rows])
        group, tasks = random.integers(0, 2, rows), random.integers(0, 2, (rows, 40))
        guesses = np.where(random.random((rows, 40)) < 0.25, group[:, None], tasks)
        each = leakage(group, tasks, guesses, repeats=4, seed=run)
        found.append((each.amplification, *each.intervals.loc["amplification"]))
    return found


def cells(rows: int) -> Iterator[tuple[str, Floats]]:
    """The populations by name."""
    even, uneven = np.full(10, 0.1), np.arange(10, 0, -1) / 55
    yield "balanced", balanced()
    yield "ten categories, even", independent(even)
    yield "ten categories, uneven", independent(uneven)
    for ahead in (1.0, 2.0, 3.0):
        yield f"favourite in predictions, {ahead:g}", independent(even, favourite(ahead, rows))
        yield f"favourite in labels, {ahead:g}", independent(favourite(ahead, rows), even)


def main(runs: int = 1000, rows: str = "100,500,2000", cross_fitted: bool = False) -> None:
    """Print a line for each population, measure and number of rows, from so many simulated samples of each.

    Args:
        runs: samples of each population.
        rows: of a sample, one or more numbers.
        cross_fitted: only the populations of twelve tasks.
    """
    print("95 % intervals that hold the truth, in per cent; mean width; truth and mean estimate")
    for n in map(int, rows.split(",")):
        for lean in (0.0, 0.1):
            for kind, found in twelve_tasks(lean, rows=n, runs=runs if cross_fitted else max(1, runs // 10)).items():
                name = "four of twelve tasks lean" if lean else "twelve tasks, noise"
                show(f"n {n:5d}  {name}, {kind}", found, float(np.mean(found, axis=0)[0]) if lean else 0.0)
        forty = forty_tasks(rows=n, runs=runs if cross_fitted else max(1, runs // 10))
        show(f"n {n:5d}  forty tasks, a quarter copied, leakage", forty, float(np.mean(forty, axis=0)[0]))
        for name, shares in () if cross_fitted else cells(n):
            measures: dict[str, Measure] = {"DPA": dpa_of}
            if n >= 300 or shares.shape[1] == 2:  # below, ten categories are too many to be known by heart
                measures["leakage"] = leakage_of
            for (kind, measure), truth in zip(measures.items(), truths(shares), strict=False):
                show(f"n {n:5d}  {name}, {kind}", sampled(shares, measure, rows=n, runs=runs), truth)


def show(what: str, found: Sequence[tuple[float, float, float]], truth: float) -> None:
    """Print a line."""
    inside, width, mean = held(found, truth)
    print(f"{what}: {100 * inside:.1f}  {width:.3f}  {truth:.4f} {mean:.4f}", flush=True)


if __name__ == "__main__":
    typer.run(main)
