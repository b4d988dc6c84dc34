"""Labels of groups and tasks, and their co-occurrence counts in the data and in every bootstrap resample.

Every metric of amplification is a function of these counts.
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
MAX_WEIGHTS = 2**26  # resampling weights multiplied at a time; bounds the memory and changes no result


class Names(TypedDict, total=False):
    """Names of the columns; by default a frame's own, or numbers."""

    attribute_names: Sequence[str] | None
    task_names: Sequence[str] | None


class BootstrapOptions(Names, total=False):
    """Options of the bootstrap, and the names.

    Attributes:
        resamples: number R of resamples, default 2,000; 0 for no intervals.
        seed: default 0; the same seed gives the same bytes.
        level: of the intervals, 0-1, default 0.95.
        clusters: the cluster of each row (e.g. the person); clusters are then resampled.
    """

    resamples: int
    seed: int
    level: float
    clusters: Sequence[Hashable] | None


def name_options(options: BootstrapOptions) -> Names:
    """The options that name the columns."""
    return {"attribute_names": options.get("attribute_names"), "task_names": options.get("task_names")}


@dataclass(frozen=True, eq=False)
class LabelTable:
    """Checked labels of ``n`` rows, 0 and 1: ``attributes`` ``(n, |A|)`` and ``tasks`` ``(n, |T|)``.

    ``given`` holds both as they were passed; predictions are aligned to them.
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
        """Check labels; rows of frames are matched by index.

        Raises:
            ValueError: shapes that do not match, values other than 0 and 1, or rows that cannot be matched.
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
        """Check groups ``(m, |A|)`` and tasks ``(m, |T|)`` of other rows, such as a training set.

        ``names``: names of the two for errors; ``check``: ``binary``, or ``shares`` for predictions.
        """
        groups = aligned(attributes, self.given[0], names[0], to="attributes", rows=False, columns=True)
        labels = aligned(tasks, self.given[1], names[1], to="tasks", rows=False, columns=True)
        labels = aligned(labels, attributes, names[1], to=names[0])
        a = check(groups, names[0], columns=self.attributes.shape[1])
        return a, check(labels, names[1], rows=len(a), columns=self.tasks.shape[1])

    def predicted(self, values: ArrayLike, direction: Direction) -> NDArray[Any]:
        """Check predictions in 0-1 of the tasks ("A->T") or of the groups ("T->A") of the same rows."""
        if direction == "A->T":
            name, labels, given = "tasks", self.tasks, self.given[1]
        else:
            name, labels, given = "attributes", self.attributes, self.given[0]
        ordered = aligned(values, given, "predictions", to=name, columns=True)
        return shares(ordered, "predictions", rows=len(labels), columns=labels.shape[1])


@dataclass(frozen=True, eq=False)
class Resamples:
    """R bootstrap resamples of units (rows, or clusters of rows)."""

    units: Units
    weights: NDArray[np.uint8]  # (R, G) number of times each unit is in each resample; no intervals if R = 0
    level: float  # of the intervals, 0-1

    @classmethod
    def of(cls, units: Units, *, resamples: int = RESAMPLES, seed: int = 0, level: float = 0.95) -> "Resamples":
        """Resample units; ValueError for an option out of range."""
        check_level(level)
        check_count(resamples, "resamples")
        if resamples == 0 or len(units) == 0:
            return cls(units, np.empty((0, len(units)), dtype=np.uint8), level)
        return cls(units, bootstrap_counts(units, resamples=resamples, seed=seed), level)

    @classmethod
    def of_rows(cls, rows: int, options: BootstrapOptions) -> "Resamples":
        """Resample rows, or the clusters in the options; TypeError for an unknown option."""
        others = {"clusters", *Names.__annotations__}
        how: dict[str, Any] = {name: value for name, value in options.items() if name not in others}
        return cls.of(Units.of(rows, clusters=options.get("clusters")), **how)

    def __len__(self) -> int:
        return len(self.weights)

    def units_with(self, x: NDArray[Any]) -> NDArray[np.int64]:
        """Number of units with a non-zero sum in each column of ``(n, C)``: ``(C,)``."""
        return np.asarray(np.count_nonzero(self.units.sums(x.T), axis=1), dtype=np.int64)

    def sums(self, x: NDArray[Any]) -> Floats:
        """Sum of every column of ``(n, C)`` in every resample: ``(C, R)``."""
        return self._products(self.units.sums(x.T))

    def cooccurrences(self, left: NDArray[Any], right: NDArray[Any]) -> Floats:
        """``cooccurrences`` of ``(n, L)`` and ``(n, M)`` in every resample: ``(L, M, R)``."""
        if left.shape[1] > right.shape[1]:
            return self.cooccurrences(right, left).transpose(1, 0, 2)
        out = np.empty((left.shape[1], right.shape[1], len(self)))
        for counts, column in zip(out, left.T, strict=True):
            rows = np.flatnonzero(column)
            part = right[rows] if (column[rows] == 1).all() else right[rows] * column[rows, None]
            if self.units.order is None:
                counts[:] = self._products(part.T, rows)
            else:
                products = np.zeros(right.shape, dtype=part.dtype)
                products[rows] = part
                counts[:] = self.sums(products)
        return out

    def _products(self, x: NDArray[Any], units: NDArray[np.intp] | slice = slice(None)) -> Floats:
        """Sums in every resample, ``(C, R)``, of values ``(C, G)`` of the given units."""
        out = np.empty((len(x), len(self)))
        size = max(1, MAX_WEIGHTS // max(x.shape[1], 1))
        for start in range(0, len(self), size):
            weights = self.weights[start : start + size][:, units]
            out[:, start : start + size] = exact_product(x, weights, total=len(self.units))
        return out


def cooccurrences(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Co-occurrence counts of columns: ``sum over rows of left_il right_im``.

    Args:
        left, right: ``(n, L)`` and ``(n, M)``, 0 and 1 or shares.

    Returns:
        ``(L, M)``: exact int64 counts for integers, float64 sums for shares.
    """
    sample = Resamples(Units.of(len(left)), np.ones((1, len(left)), dtype=np.uint8), level=0.5)
    sums = sample.cooccurrences(left, right)[:, :, 0]
    return sums if "f" in left.dtype.kind + right.dtype.kind else sums.astype(np.int64)


def harmonic_mean(units: NDArray[Any]) -> float:
    """Harmonic mean of the positive numbers, else 0: small groups dominate the error of a mean of pairs."""
    positive = units[units > 0]
    return float(positive.size / (1 / positive).sum()) if positive.size else 0.0


def ratio(top: NDArray[Any], bottom: NDArray[Any]) -> Floats:
    """``top / bottom``, NaN where the denominator is not positive."""
    bottom = np.broadcast_to(bottom, top.shape)
    return np.asarray(np.divide(top, bottom, out=np.full(top.shape, np.nan), where=bottom > 0))


def pairs_frame(attributes: Sequence[str], tasks: Sequence[str], columns: Mapping[str, Any]) -> pd.DataFrame:
    """A row per pair of a group and a task, group by group; ``columns`` are scalars or ``(|A|, |T|)`` tables."""
    names = {"attribute": np.repeat(attributes, len(tasks)), "task": np.tile(tasks, len(attributes))}
    return pd.DataFrame(names | {name: np.ravel(part) if np.ndim(part) else part for name, part in columns.items()})
