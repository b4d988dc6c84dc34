"""How well an attacker guesses: accuracy, F1, 1/MSE, 1/BCE. Who guesses is in ``attackers``.

The papers name the first two (range 0-1); the code of Tokas, Nair & Kerner has the inverse errors as well, and takes
1/MSE by default.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.statistics.arrays import Codes, Floats, check_choice

Measure = Callable[[Codes, Floats, Floats], float]
LEAST_CHANCE = 1e-12  # a chance of 0 or 1 has an infinite cross-entropy: it is taken as this far from it


@dataclass(frozen=True)
class Quality:
    """A quality, larger = better: a ``measure`` of (truth ``(n,)``, chances ``(n, K)``, weights ``(n,)``).

    ``inverted``: the measure is an error, and the quality 1 / error; infinite where there is no error.
    """

    name: str
    measure: Measure
    inverted: bool = False

    def of(self, measures: Sequence[float]) -> float:
        """The quality over several columns: of the mean of their measures."""
        mean = float(np.mean(measures))
        if not self.inverted:
            return mean
        return 1 / mean if mean > 0 else float("inf")


def accuracy(truth: Codes, chances: Floats, weights: Floats) -> float:
    """Share of the weight on which the likeliest class (of equals the first) is right."""
    return float(weights[chances.argmax(axis=1) == truth].sum() / weights.sum())


def f1(truth: Codes, chances: Floats, weights: Floats) -> float:
    """F1 of the last of two classes; of more, the mean F1 over them. A class that is neither there nor guessed: 0."""
    return f1_of_guesses(truth, chances.argmax(axis=1), weights, classes=chances.shape[1])


def f1_of_guesses(truth: Codes, guesses: Codes, weights: Floats, *, classes: int) -> float:
    """As ``f1``, from guessed classes ``(n,)``."""
    right = np.bincount(truth[truth == guesses], weights=weights[truth == guesses], minlength=classes)
    there = np.bincount(truth, weights=weights, minlength=classes)
    guessed = np.bincount(guesses, weights=weights, minlength=classes)
    return f1_of_counts(right, there, guessed)


def f1_of_counts(right: NDArray[Any], there: NDArray[Any], guessed: NDArray[Any]) -> float:
    """As ``f1``, from the classes' ``(K,)`` counts: guessed rightly, there, guessed."""
    either = there + guessed
    each = np.divide(2 * right, either, out=np.zeros_like(either, dtype=np.float64), where=either > 0)
    return float(each[1] if len(each) == 2 else each.mean())


def mse(truth: Codes, chances: Floats, weights: Floats) -> float:
    """Mean squared error of the chances over rows and classes; of two classes that of either one."""
    errors = (chances - _one_hot(truth, chances)) ** 2
    return float(weights @ errors.mean(axis=1) / weights.sum())


def bce(truth: Codes, chances: Floats, weights: Floats) -> float:
    """Mean binary cross-entropy (nats) of the chances over rows and classes; of two classes that of either one."""
    safe = np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)
    errors = -np.log(np.where(_one_hot(truth, chances), safe, 1 - safe))
    # What is certain and right has no error at all.
    errors = np.where(chances == _one_hot(truth, chances), 0.0, errors)
    return float(weights @ errors.mean(axis=1) / weights.sum())


QUALITIES = {
    "accuracy": Quality("accuracy", accuracy),
    "f1": Quality("f1", f1),
    "inverse_mse": Quality("inverse_mse", mse, inverted=True),
    "inverse_bce": Quality("inverse_bce", bce, inverted=True),
}


def quality_of(name: str) -> Quality:
    """A quality by its name; ValueError if there is none."""
    check_choice(name, "quality", QUALITIES)
    return QUALITIES[name]


def _one_hot(truth: Codes, chances: Floats) -> NDArray[np.bool_]:
    return np.asarray(truth[:, None] == np.arange(chances.shape[1]))
