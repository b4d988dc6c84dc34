"""Labels of groups and tasks, their co-occurrence counts, and the same counts in every bootstrap resample.

Every metric of amplification is a reduction of these counts; none is computed here.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.arrays import Floats, aligned, binary, check_count, check_level, names_of, shares
from pipeline.statistics.inference import RESAMPLES, Units, bootstrap_counts, exact_product

Direction = Literal["A->T", "T->A"]
DIRECTIONS = ("A->T", "T->A")
MOST_WEIGHTS = 2**26  # held as numbers to multiply with at a time; changes no result


class Names(TypedDict, total=False):
    """What the columns are called: a frame's own names, or numbers, unless given."""

    attribute_names: Sequence[str] | None
    task_names: Sequence[str] | None


class Drawing(Names, total=False):
    """How intervals are drawn, next to the names.

    Attributes:
        resamples: R of the bootstrap, 2,000 unless given; 0 for no intervals.
        seed: of the bootstrap, 0 unless given; the same seed gives the same bytes.
        level: of the intervals, 0-1, 0.95 unless given.
        clusters: the cluster of each row (e.g. the person), resampled in the rows' place.
    """

    resamples: int
    seed: int
    level: float
    clusters: Sequence[Hashable] | None


def names_in(options: Drawing) -> Names:
    """Those of the options that say what the columns are called."""
    return {"attribute_names": options.get("attribute_names"), "task_names": options.get("task_names")}


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Labels of ``n`` rows, checked: ``attributes`` ``(n, |A|)`` and ``tasks`` ``(n, |T|)`` of 0 and 1.

    ``given`` holds both as they came, in whose order predictions are put; the names are those of the columns.
    """

    attributes: NDArray[np.int8]
    tasks: NDArray[np.int8]
    attribute_names: tuple[str, ...]
    task_names: tuple[str, ...]
    given: tuple[Any, Any]

    @classmethod
    def of(
        cls,
        attributes: ArrayLike,
        tasks: ArrayLike,
        *,
        attribute_names: Sequence[str] | None = None,
        task_names: Sequence[str] | None = None,
    ) -> "LabelTable":
        """Checked labels; of frames the rows are matched by index.

        Raises:
            ValueError: shapes that do not fit, values that cannot be, rows that cannot be matched.
        """
        names = names_of(attributes, attribute_names, "attributes"), names_of(tasks, task_names, "tasks")
        a = binary(attributes, "attributes")
        ordered = aligned(tasks, attributes, "tasks", to="attributes")
        return cls(a, binary(ordered, "tasks", rows=len(a)), *names, (attributes, ordered))

    def other(
        self,
        attributes: ArrayLike,
        tasks: ArrayLike,
        *,
        names: tuple[str, str],
        check: Callable[..., NDArray[Any]] = binary,
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Groups ``(m, |A|)`` and tasks ``(m, |T|)`` of other rows, such as a training set, with the same columns.

        ``names``: what the two are called in errors; ``check``: ``binary``, or ``shares`` for predictions.
        """
        groups = aligned(attributes, self.given[0], names[0], to="attributes", rows=False, columns=True)
        labels = aligned(tasks, self.given[1], names[1], to="tasks", rows=False, columns=True)
        labels = aligned(labels, attributes, names[1], to=names[0])
        a = check(groups, names[0], columns=self.attributes.shape[1])
        return a, check(labels, names[1], rows=len(a), columns=self.tasks.shape[1])

    def predicted(self, values: ArrayLike, direction: Direction) -> NDArray[Any]:
        """Predictions of the tasks ("A->T") or of the groups ("T->A") of the same rows, 0 to 1."""
        place = 0 if direction == "T->A" else 1
        ordered = aligned(values, self.given[place], "predictions", to=("attributes", "tasks")[place], columns=True)
        columns = (self.attributes, self.tasks)[place].shape[1]
        return shares(ordered, "predictions", rows=len(self.attributes), columns=columns)


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each unit (row, or cluster of rows) is in each of R bootstrap resamples."""

    units: Units  # what is resampled
    weights: NDArray[np.uint8]  # (R, G) whole numbers, one byte each; with R = 0 there is no interval
    level: float  # of the intervals, 0-1

    @classmethod
    def of(cls, units: Units, *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95) -> "Resamples":
        """Resamples of rows or clusters.

        Raises:
            ValueError: an option out of range.
        """
        check_level(level)
        check_count(resamples, "resamples")
        if resamples == 0 or len(units) == 0:
            return cls(units, np.empty((0, len(units)), dtype=np.uint8), level)
        return cls(units, bootstrap_counts(units, resamples=resamples, seed=seed), level)

    @classmethod
    def of_rows(cls, rows: int, options: Drawing) -> "Resamples":
        """Resamples of so many rows, or of the clusters that the options name; TypeError for an unknown option."""
        others = {"clusters", *Names.__annotations__}
        how: dict[str, Any] = {name: value for name, value in options.items() if name not in others}
        return cls.of(Units.of(rows, clusters=options.get("clusters")), **how)

    def __len__(self) -> int:
        return len(self.weights)

    def holding(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """``(n, C)`` -> ``(C,)`` how many units have anything in a column."""
        return np.asarray(np.count_nonzero(self.units.sums(x.T), axis=1), dtype=np.int64)

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
        left, right: ``(n, L)`` and ``(n, M)``, 0 and 1 or shares.

    Returns:
        ``(L, M)``: exact int64 counts for integers, float64 sums for shares.
    """
    everything = Resamples(Units.of(len(left)), np.ones((1, len(left)), dtype=np.uint8), level=0.5)
    sums = everything.together(left, right)[:, :, 0]
    return sums if "f" in left.dtype.kind + right.dtype.kind else sums.astype(np.int64)


def harmonic_mean(units: NDArray[Any]) -> float:
    """Of the numbers above 0, 0 if there are none: as few as the smallest make a mean of pairs uncertain."""
    held = units[units > 0]
    return float(held.size / (1 / held).sum()) if held.size else 0.0


def ratio(top: NDArray[Any], bottom: NDArray[Any]) -> Floats:
    """``top / bottom``, NaN where there is nothing to divide by."""
    bottom = np.broadcast_to(bottom, top.shape)
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))


def pairs_frame(attributes: Sequence[str], tasks: Sequence[str], columns: Mapping[str, Any]) -> pd.DataFrame:
    """One row a pair of a group and a task, group after group; ``columns`` are numbers or ``(|A|, |T|)`` tables."""
    names = {"attribute": np.repeat(attributes, len(tasks)), "task": np.tile(tasks, len(attributes))}
    return pd.DataFrame(names | {name: np.ravel(part) if np.ndim(part) else part for name, part in columns.items()})
