"""How far what the majority gives away would differ with other examples, although a maximum is not regular at ties.

``sum over x of max over y p(x, y)`` is too large where the largest shares are tied or nearly so, and a bootstrap of it
does not see by how much. Two laws bracket its error: of the guess that is best here alone, and of the best of all
guesses that may be the best. Point estimates are ``measurement``'s.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri, stdtrit

from pipeline.statistics.arrays import Codes, Floats


@dataclass(frozen=True, eq=False)
class Guessing:
    """One variable guessed from another, cell by cell of ``m`` different examples."""

    # inputs, input_size: (m,) what the guess is made from, and how many categories it has
    inputs: Codes
    # target, sizes: (m, C) what is guessed, each column by itself, and how many categories each has
    target: Codes
    sizes: tuple[int, ...]
    noisy: str  # what is made wrong at random, "inputs" or "target", or "" for neither
    input_size: int

    def tables(self, weights: Floats, wrong: Floats) -> list[Floats]:
        """``(R, X, K)`` joint shares of inputs and target for each column.

        Args:
            weights: ``(R, m)`` of the examples, each row adding up to 1.
            wrong: ``(R, C)`` share of labels made wrong in each column of what is noisy.
        """
        found = []
        for column, size in enumerate(self.sizes):
            place = self.inputs * size + self.target[:, column]
            cells = np.zeros((len(place), self.input_size * size))
            cells[np.arange(len(place)), place] = 1.0
            table = (weights @ cells).reshape(-1, self.input_size, size)
            if self.noisy:
                axis, count = (2, size) if self.noisy == "target" else (1, self.input_size)
                share = wrong[:, column if self.noisy == "target" else 0, None, None]
                others = table.sum(axis=axis, keepdims=True) - table
                table = (1 - share) * table + share * others / max(count - 1, 1)
            found.append(table)
        return found


@dataclass(frozen=True, eq=False)
class Bracket:
    """``low`` and ``high`` ``(R,)``: values that may be true if as many guesses as possible are tied, or if none is."""

    low: Floats
    high: Floats


def accuracy_bracket(seen: list[Floats], drawn: list[Floats], *, units: int, level: float) -> Bracket:
    """Values that the true accuracy of the best guesses may have, from its tables here and in every resample.

    With e the resampled error of a guess, the accuracy seen is off by e of the best guess if there is one best guess,
    and by the largest e of the tied ones if some are tied. A guess counts as possibly tied where its share is less than
    ``sqrt(2 log n)`` standard errors below the best (moment selection, Andrews & Soares 2010; the law at ties is the
    directional delta method of Fang & Santos 2019). No accuracy lies below that of an even guess.

    Args:
        seen: ``(1, X, K)`` for each column.
        drawn: ``(R, X, K)`` for each column.
        units: rows or clusters.
        level: of the interval that is made of the bracket, which is widened as a t interval is.
    """
    reach = (1 + level) / 2
    widened = np.sqrt(units / max(units - 1, 1)) * stdtrit(max(units - 1, 1), reach) / ndtri(reach)
    low, high = np.zeros((2, len(drawn[0])))
    for table, resampled in zip(seen, drawn, strict=True):
        shares, errors = table[0], (resampled - table) * widened
        best = shares.argmax(axis=1)[None, :, None]
        own = np.take_along_axis(errors, np.broadcast_to(best, (len(errors), *best.shape[1:])), axis=2)
        behind = shares.max(axis=1, keepdims=True) - shares
        spread = np.sqrt(((errors - own) ** 2).mean(axis=0))
        tied = behind <= np.sqrt(2 * np.log(max(units, 2))) * spread
        value, floor = shares.max(axis=1).sum(), shares.sum() / shares.shape[1]
        largest = np.where(tied, errors, -np.inf).max(axis=2).sum(axis=1)
        low += np.maximum(value - largest, floor) / len(seen)
        high += np.maximum(value - own[..., 0].sum(axis=1), floor) / len(seen)
    return Bracket(low, high)


def ends(low: Floats, high: Floats, *, level: float) -> tuple[float, float]:
    """The interval with its lower end from the one law and its upper end from the other."""
    return float(np.quantile(low, (1 - level) / 2)), float(np.quantile(high, (1 + level) / 2))
