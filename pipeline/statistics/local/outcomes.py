"""Metrics that are compared between two groups in every cluster: accuracy, FPR, TPR, presence, AUC, or a callable."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from pipeline.statistics.arrays import Codes, Floats, categories, check_choice, check_rows, row_numbers

Metric = Callable[[NDArray[Any], NDArray[Any]], float]
METRICS = ("accuracy", "presence", "fpr", "tpr", "auc")
NO_TRUTH = "the metric {metric!r} needs truth"
NOT_BINARY = "{name} must hold 0 and 1 for the metric {metric!r}, but has {value} in row {row}"
NOTHING_SHARED = "no label occurs in both truth and prediction: write the same labels in the same way"
NOT_FINITE = "{name} has no finite number in row {row}"


class Outcome(ABC):
    """Outcomes of ``n`` rows under a metric; ``counted`` ``(n,)`` marks the rows that enter it."""

    counted: NDArray[np.bool_]

    @property
    @abstractmethod
    def codes(self) -> Codes:
        """``(n,)`` codes, equal for rows with the same outcome."""

    @abstractmethod
    def take(self, rows: Codes) -> Self:
        """Return the outcomes of the rows at these positions."""

    @abstractmethod
    def by_cell(self, cells: Codes, weights: Floats, *, count: int) -> Floats:
        """Metric of the rows in each cell, ``(count,)``; NaN where it is not defined."""

    @abstractmethod
    def contributions(self, cells: Codes, weights: Floats) -> Floats:
        """Numbers ``(n,)`` whose mean over a cell's counted rows is, at least nearly, the cell's metric."""


@dataclass(frozen=True, eq=False)
class MeanOutcome(Outcome):
    """A metric that is the mean of finite ``values`` over the counted rows, such as an accuracy or an FPR."""

    values: Floats
    counted: NDArray[np.bool_]

    @property
    def codes(self) -> Codes:  # noqa: D102
        return row_numbers(np.stack([np.where(self.counted, self.values, 0.0), self.counted], axis=1))

    def take(self, rows: Codes) -> Self:  # noqa: D102
        return replace(self, values=self.values[rows], counted=self.counted[rows])

    def by_cell(self, cells: Codes, weights: Floats, *, count: int) -> Floats:  # noqa: D102
        weighed = weights * self.counted
        rows = np.bincount(cells, weights=weighed, minlength=count)
        sums = np.bincount(cells, weights=weighed * self.values, minlength=count)
        return np.asarray(np.divide(sums, rows, out=np.full(count, np.nan), where=rows > 0))

    def contributions(self, cells: Codes, weights: Floats) -> Floats:  # noqa: D102
        return self.values


@dataclass(frozen=True, eq=False)
class CallableOutcome(Outcome):
    """Any metric of (truth, prediction), such as the AUC, or NaN where it is not defined; all rows count."""

    truth: NDArray[Any]
    prediction: NDArray[Any]
    metric: Metric

    @property
    def counted(self) -> NDArray[np.bool_]:  # type: ignore[override]  # noqa: D102
        return np.ones(len(self.truth), dtype=bool)

    @property
    def codes(self) -> Codes:  # noqa: D102
        truth, prediction = (row_numbers(part.reshape(len(part), -1)) for part in (self.truth, self.prediction))
        return np.asarray(truth * (prediction.max() + 1) + prediction)

    def take(self, rows: Codes) -> Self:  # noqa: D102
        return replace(self, truth=self.truth[rows], prediction=self.prediction[rows])

    def by_cell(self, cells: Codes, weights: Floats, *, count: int) -> Floats:  # noqa: D102
        order, times = np.argsort(cells, kind="stable"), weights.astype(np.intp)
        ends = np.searchsorted(cells[order], np.arange(count + 1))
        result = np.full(count, np.nan)
        for cell in range(count):
            rows = order[ends[cell] : ends[cell + 1]]
            if len(rows):
                result[cell] = self._of(np.repeat(rows, times[rows]))
        return result

    def contributions(self, cells: Codes, weights: Floats) -> Floats:
        """Jackknife pseudo-values within each cell; 0 where the metric is not defined with or without the row."""
        times, values = weights.astype(np.intp), np.zeros(len(cells))
        for cell in np.unique(cells):
            rows = np.repeat(np.flatnonzero(cells == cell), times[cells == cell])
            whole = self._of(rows)
            for place in np.flatnonzero(np.diff(rows, prepend=-1)):
                without = self._of(np.delete(rows, place)) if len(rows) > 1 else np.nan
                pseudo = len(rows) * whole - (len(rows) - 1) * without
                values[rows[place]] = pseudo if np.isfinite(pseudo) else 0.0
        return values

    def _of(self, rows: Codes) -> float:
        return float(self.metric(self.truth[rows], self.prediction[rows]))


def auc(truth: NDArray[Any], score: NDArray[Any]) -> float:
    """Probability that a positive has a higher score than a negative, ties half; NaN if there are none of either."""
    positive = truth == 1
    high, low = int(positive.sum()), int((~positive).sum())
    if not high or not low:
        return float("nan")
    return float((rankdata(score)[positive].sum() - high * (high + 1) / 2) / (high * low))


def outcome_of(prediction: ArrayLike, truth: ArrayLike | None = None, *, metric: str | Metric = "accuracy") -> Outcome:
    """Compute the outcomes of rows under a metric.

    Args:
        prediction: ``(n,)`` or ``(n, C)`` labels; scores for "auc"; any array for a callable.
        truth: of the same rows; not needed for "presence".
        metric: "accuracy" (exact match of all columns), "presence" (mean prediction, 0-1), "fpr", "tpr" (mean
            prediction among truth 0, or 1), "auc", or a callable (truth, prediction) -> float, NaN where undefined.

    Raises:
        ValueError: an unknown metric, missing truth, or invalid values; the message names the argument.
    """
    predicted = _column("prediction", prediction)
    if metric == "presence":
        return MeanOutcome(_numbers("prediction", predicted), np.ones(len(predicted), dtype=bool))
    if truth is None:
        raise ValueError(NO_TRUTH.format(metric=metric))
    true = _column("truth", truth)
    check_rows({"prediction": predicted, "truth": true})
    if callable(metric):
        return CallableOutcome(true, predicted, metric)
    if metric == "accuracy":
        if predicted.shape != true.shape:
            raise ValueError(f"truth must have the shape of prediction, {predicted.shape}, but has {true.shape}")
        labels, guesses = categories(truth=true, prediction=predicted)
        if not any(set(own) & set(other) for own, other in zip(labels.codes.T, guesses.codes.T, strict=True)):
            raise ValueError(NOTHING_SHARED)
        right = (labels.codes == guesses.codes).all(axis=1)
        return MeanOutcome(right.astype(np.float64), np.ones(len(true), dtype=bool))
    check_choice(metric, "metric", METRICS)
    numbers = _numbers("prediction", predicted)
    wrong = ~np.isin(true, (0, 1))
    if true.ndim != 1 or wrong.any():
        row = int(np.argmax(wrong)) if true.ndim == 1 else 0
        raise ValueError(NOT_BINARY.format(name="truth", metric=metric, value=true[row], row=row))
    if metric == "auc":
        return CallableOutcome(true.astype(np.int8), numbers, auc)
    return MeanOutcome(numbers, true == (1 if metric == "tpr" else 0))


def _column(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return rows of any type, without missing values."""
    array = np.asarray(values)
    if array.ndim not in (1, 2) or array.size == 0:
        raise ValueError(f"{name} must have the shape (n,) or (n, C) with n > 0, but has {array.shape}")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        row = int(np.argmax(~np.isfinite(array).reshape(len(array), -1).all(axis=1)))
        raise ValueError(NOT_FINITE.format(name=name, row=row))
    if array.dtype == object and pd.isna(array).any():
        raise ValueError(f"{name} has missing values")
    return array


def _numbers(name: str, array: NDArray[Any]) -> Floats:
    if array.ndim != 1 or array.dtype.kind not in "biuf":
        raise ValueError(f"{name} must be (n,) numbers, but is {array.dtype} of the shape {array.shape}")
    return array.astype(np.float64)
