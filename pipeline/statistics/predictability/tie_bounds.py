"""Intervals for the accuracy of the majority rule, which is not a regular functional where shares are tied.

``sum over x of max over y p(x, y)`` is biased upwards where the largest shares are nearly tied, by an amount that a
bootstrap does not show. Two distributions bracket its error: that of the best guess in the sample, and that of the
largest of all guesses that may be tied with it.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from pipeline.statistics.arrays import Codes, Floats


@dataclass(frozen=True, eq=False)
class Guessing:
    """One variable predicted from another, for ``m`` distinct examples."""

    # inputs, input_size: (m,) codes of the input, and its number of categories
    inputs: Codes
    # target, sizes: (m, C) codes of the targets, predicted separately, and the number of categories of each
    target: Codes
    sizes: tuple[int, ...]
    noisy: str  # the variable with added random errors, "inputs" or "target", or "" for neither
    input_size: int

    def tables(self, weights: Floats, wrong: Floats) -> list[Floats]:
        """Joint shares ``(R, X, K)`` of input and target, for each target.

        Args:
            weights: ``(R, m)`` of the examples; rows sum to 1.
            wrong: ``(R, C)`` share of wrong labels in each column of the noisy variable.
        """
        tables = []
        for column, size in enumerate(self.sizes):
            cell = self.inputs * size + self.target[:, column]
            one_hot = np.zeros((len(cell), self.input_size * size))
            one_hot[np.arange(len(cell)), cell] = 1.0
            table = (weights @ one_hot).reshape(-1, self.input_size, size)
            if self.noisy:
                axis, count = (2, size) if self.noisy == "target" else (1, self.input_size)
                share = wrong[:, column if self.noisy == "target" else 0, None, None]
                others = table.sum(axis=axis, keepdims=True) - table
                table = (1 - share) * table + share * others / max(count - 1, 1)
            tables.append(table)
        return tables


def accuracy_bracket(
    observed: list[Floats], resampled: list[Floats], *, units: int, level: float
) -> tuple[Floats, Floats]:
    """Bracket the true accuracy of the best guesses.

    With e the resampled error of a guess, the error of the observed accuracy is e of the best guess if it is unique,
    and the largest e of the tied guesses otherwise. A guess is possibly tied if its share is less than
    ``sqrt(2 log n)`` standard errors below the best (moment selection, Andrews & Soares 2010; the distribution at ties
    is that of the directional delta method, Fang & Santos 2019). The accuracy is at least that of a uniform guess.

    Args:
        observed: joint shares ``(1, X, K)`` of each column.
        resampled: joint shares ``(R, X, K)`` of each column.
        units: number of rows or clusters.
        level: of the interval computed from the bracket; errors are widened to the t quantile.

    Returns:
        possible true values ``(R,)`` if as many guesses as possible are tied (low), and if none is (high).
    """
    reach = (1 + level) / 2
    widened = np.sqrt(units / max(units - 1, 1)) * stdtrit(max(units - 1, 1), reach) / ndtri(reach)
    low, high = np.zeros((2, len(resampled[0])))
    for table, samples in zip(observed, resampled, strict=True):
        shares, errors = table[0], (samples - table) * widened
        best = shares.argmax(axis=1)[None, :, None]
        own = np.take_along_axis(errors, np.broadcast_to(best, (len(errors), *best.shape[1:])), axis=2)
        behind = shares.max(axis=1, keepdims=True) - shares
        spread = np.sqrt(((errors - own) ** 2).mean(axis=0))
        tied = behind <= np.sqrt(2 * np.log(max(units, 2))) * spread
        value, floor = shares.max(axis=1).sum(), shares.sum() / shares.shape[1]
        largest = np.where(tied, errors, -np.inf).max(axis=2).sum(axis=1)
        low += np.maximum(value - largest, floor) / len(observed)
        high += np.maximum(value - own[..., 0].sum(axis=1), floor) / len(observed)
    return low, high


def ends(low: Floats, high: Floats, *, level: float) -> tuple[float, float]:
    """Interval with the lower end from the distribution ``low`` and the upper end from ``high``."""
    return float(np.quantile(low, (1 - level) / 2)), float(np.quantile(high, (1 + level) / 2))
