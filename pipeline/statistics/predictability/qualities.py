"""Quality of an attacker's predictions: accuracy, F1, 1/MSE, 1/BCE.

The papers use the first two (range 0-1). The code of Tokas, Nair & Kerner also has the inverse errors, with 1/MSE as
the default.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.statistics.arrays import Codes, Floats, check_choice

Measure = Callable[[Codes, Floats, Floats], float]
LEAST_CHANCE = 1e-12  # probabilities are clipped to this distance from 0 and 1, where the cross-entropy is infinite


@dataclass(frozen=True)
class Quality:
    """A quality, larger = better: a ``measure`` of (truth ``(n,)``, chances ``(n, K)``, weights ``(n,)``).

    If ``inverted``, the measure is an error and the quality is 1 / error, infinite for an error of 0.
    """

    name: str
    measure: Measure
    inverted: bool = False

    def of(self, measures: Sequence[float]) -> float:
        """Quality of several columns, from the mean of their measures."""
        mean = float(np.mean(measures))
        if not self.inverted:
            return mean
        return 1 / mean if mean > 0 else float("inf")


def accuracy(truth: Codes, chances: Floats, weights: Floats) -> float:
    """Weighted share of rows whose likeliest class (of equals the first) is correct."""
    return float(weights[chances.argmax(axis=1) == truth].sum() / weights.sum())


def f1(truth: Codes, chances: Floats, weights: Floats) -> float:
    """F1 of the second of two classes, or mean F1 of more; 0 for a class that neither occurs nor is predicted."""
    return f1_of_guesses(truth, chances.argmax(axis=1), weights, classes=chances.shape[1])


def f1_of_guesses(truth: Codes, guesses: Codes, weights: Floats, *, classes: int) -> float:
    """``f1`` from predicted classes ``(n,)``."""
    right = np.bincount(truth[truth == guesses], weights=weights[truth == guesses], minlength=classes)
    there = np.bincount(truth, weights=weights, minlength=classes)
    guessed = np.bincount(guesses, weights=weights, minlength=classes)
    return f1_of_counts(right, there, guessed)


def f1_of_counts(right: NDArray[Any], there: NDArray[Any], guessed: NDArray[Any]) -> float:
    """``f1`` from counts ``(K,)`` of the classes: predicted correctly, true, predicted."""
    either = there + guessed
    each = np.divide(2 * right, either, out=np.zeros_like(either, dtype=np.float64), where=either > 0)
    return float(each[1] if len(each) == 2 else each.mean())


def mse(truth: Codes, chances: Floats, weights: Floats) -> float:
    """Mean squared error of the probabilities over rows and classes; for two classes, that of either."""
    errors = (chances - _one_hot(truth, chances)) ** 2
    return float(weights @ errors.mean(axis=1) / weights.sum())


def bce(truth: Codes, chances: Floats, weights: Floats) -> float:
    """Mean binary cross-entropy (nats) of the probabilities over rows and classes; for two classes, that of either."""
    safe = np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)
    errors = -np.log(np.where(_one_hot(truth, chances), safe, 1 - safe))
    # A certain and correct prediction has no error.
    errors = np.where(chances == _one_hot(truth, chances), 0.0, errors)
    return float(weights @ errors.mean(axis=1) / weights.sum())


QUALITIES = {
    "accuracy": Quality("accuracy", accuracy),
    "f1": Quality("f1", f1),
    "inverse_mse": Quality("inverse_mse", mse, inverted=True),
    "inverse_bce": Quality("inverse_bce", bce, inverted=True),
}


def quality_of(name: str) -> Quality:
    """Look up a quality by name; ValueError if it is unknown."""
    check_choice(name, "quality", QUALITIES)
    return QUALITIES[name]


def _one_hot(truth: Codes, chances: Floats) -> NDArray[np.bool_]:
    return np.asarray(truth[:, None] == np.arange(chances.shape[1]))
