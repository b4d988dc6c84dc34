"""Co-occurrence counts of groups and tasks, and the same counts in every bootstrap resample.

Every metric of amplification is a reduction of these counts; none is computed here.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr, stdtrit

from pipeline.statistics.inference import Floats, Units, bootstrap_counts, exact_product, percentiles

BAD_LEVEL = "level must lie between 0 and 1, not {level}"
MOST_WEIGHTS = 2**26  # held as numbers to multiply with at a time; changes no result
BAD_RESAMPLES = "resamples must be 0 (no intervals) or more, not {resamples}"


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each unit (row, or cluster of rows) is in each of R bootstrap resamples.

    Attributes:
        units: what is resampled.
        weights: ``(R, G)`` whole numbers, one byte each; with R = 0 there is no interval.
        level: of the intervals, 0-1.
    """

    units: Units
    weights: NDArray[np.uint8]
    level: float

    @classmethod
    def of(cls, units: Units, *, resamples: int, seed: int, level: float) -> "Resamples":
        """Resamples of rows or clusters.

        Raises:
            ValueError: an option out of range.
        """
        if not 0 < level < 1:
            raise ValueError(BAD_LEVEL.format(level=level))
        if resamples < 0:
            raise ValueError(BAD_RESAMPLES.format(resamples=resamples))
        if resamples == 0 or len(units) == 0:
            return cls(units, np.empty((0, len(units)), dtype=np.uint8), level)
        return cls(units, bootstrap_counts(units, resamples=resamples, seed=seed), level)

    def __len__(self) -> int:
        return len(self.weights)

    def holding(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """``(n, C)`` -> ``(C,)`` how many units have anything in a column."""
        units: NDArray[np.int64] = np.count_nonzero(self.units.sums(x.T), axis=1).astype(np.int64)
        return units

    def sums(self, x: NDArray[Any]) -> Floats:
        """``(n, C)`` -> ``(C, R)`` sums of every column in every resample."""
        return self._products(self.units.sums(x.T))

    def together(self, left: NDArray[Any], right: NDArray[Any]) -> Floats:
        """``(n, L)`` and ``(n, M)`` -> ``(L, M, R)``: ``together`` in every resample."""
        if left.shape[1] > right.shape[1]:
            return self.together(right, left).transpose(1, 0, 2)
        out = np.empty((left.shape[1], right.shape[1], len(self)))
        for place, column in zip(out, left.T, strict=True):
            rows = np.flatnonzero(column)
            part = right[rows] if (column[rows] == 1).all() else right[rows] * column[rows, None]
            if self.units.order is None:
                place[:] = self._products(part.T, rows)
            else:
                whole = np.zeros(right.shape, dtype=part.dtype)
                whole[rows] = part
                place[:] = self.sums(whole)
        return out

    def _products(self, x: NDArray[Any], units: NDArray[np.intp] | slice = slice(None)) -> Floats:
        """``(C, G)`` numbers of some units -> ``(C, R)`` their sums in every resample."""
        out = np.empty((len(x), len(self)))
        size = max(1, MOST_WEIGHTS // max(x.shape[1], 1))
        for start in range(0, len(self), size):
            weights = self.weights[start : start + size][:, units]
            out[:, start : start + size] = exact_product(x, weights, total=len(self.units))
        return out


def together(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """How often every two columns are 1 in the same row: ``sum over rows of left_il right_im``.

    Args:
        left: ``(n, L)``, 0 and 1 or shares.
        right: ``(n, M)``.

    Returns:
        ``(L, M)``: exact int64 counts for integers, float64 sums for shares.
    """
    everything = Resamples(Units.of(len(left)), np.ones((1, len(left)), dtype=np.uint8), level=0.5)
    sums = everything.together(left, right)[:, :, 0]
    return sums if "f" in left.dtype.kind + right.dtype.kind else sums.astype(np.int64)


def interval(samples: Floats, level: float, *, units: ArrayLike) -> tuple[Floats, Floats]:
    """Percentile interval over the last axis of any array, expanded for small samples.

    A percentile interval is too narrow for few units: its spread is that of a variance with divisor n, and its shape
    that of a normal. It is taken at the level at which, for a mean, it has the width of a t interval (Hesterberg 2015,
    "What teachers should know about the bootstrap").

    Args:
        samples: ``(…, R)``.
        level: 0-1.
        units: n, for all or ``(…,)`` for each.

    Returns:
        both ends, ``(…,)``; NaN without resamples or for fewer than two units.
    """
    shape = samples.shape[:-1]
    count = np.broadcast_to(np.asarray(units, dtype=np.float64), shape).ravel()
    told = count >= 2
    if samples.shape[-1] == 0 or not told.any():
        return np.full(shape, np.nan), np.full(shape, np.nan)
    freedom = np.where(told, count - 1, 1.0)
    reach = np.sqrt((freedom + 1) / freedom) * stdtrit(freedom, (1 + level) / 2)
    ends = percentiles(samples.reshape(-1, samples.shape[-1]), level=2 * ndtr(reach) - 1)
    low, high = (np.where(told, end, np.nan).reshape(shape) for end in ends)
    return low, high


def ratio(top: NDArray[Any], bottom: NDArray[Any]) -> Floats:
    """``top / bottom``, NaN where there is nothing to divide by."""
    bottom = np.broadcast_to(bottom, top.shape)
    quotient: Floats = np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0)
    return quotient
