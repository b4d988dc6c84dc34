"""Bias amplification as Zhao et al. 2017 ("men also like shopping") measure it: BiasAmp_MALS, with an interval.

Kept for comparison with published figures: it sees only what a group has too much of, and mixes the two directions that
``directional`` holds apart (Wang & Russakovsky 2021, section 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import (
    Drawing,
    LabelTable,
    Resamples,
    harmonic_mean,
    names_in,
    pairs_frame,
    ratio,
    together,
)
from pipeline.statistics.arrays import Floats, names_of, shares
from pipeline.statistics.inference import interval

# Why a pair counts as 0.
NOT_IN_BASE = "the task is with no group in the base"
NOT_MORE = "not more than an even share in the base"
NEVER_PREDICTED = "the task is predicted with no group"
COUNTED = ""

PREDICTIONS = ("predicted_attributes", "predictions")
BAD_COUNTS = "{name} must hold counts of 0 or more in the shape (groups, tasks){like}, but has the shape {shape}"
PAIR_COLUMNS = (
    *("attribute", "task", "base_count", "predicted_count"),
    *("base_share", "predicted_share", "delta", "reason"),
)


@dataclass(frozen=True, eq=False)
class Mals:
    """BiasAmp_MALS as a whole and by pair of a group and a task: tables ``(|A|, |T|)``."""

    attributes: tuple[str, ...]
    tasks: tuple[str, ...]
    value: float  # sum of delta / |T| over the pairs counted
    # low, high: ends of its interval; NaN without resamples
    low: float
    high: float
    base_count: NDArray[Any]
    predicted_count: NDArray[Any]
    # base_share, predicted_share: b_at and bh_at; NaN where the task is with no group
    base_share: Floats
    predicted_share: Floats
    delta: Floats  # bh_at - b_at where the pair counts, else 0; NaN where the task is predicted with no group
    reason: NDArray[np.str_]  # why a pair counts as 0; empty where it counts

    def to_frame(self) -> pd.DataFrame:
        """One row a pair, group after group: the columns of ``PAIR_COLUMNS``."""
        return pairs_frame(self.attributes, self.tasks, {name: vars(self)[name] for name in PAIR_COLUMNS[2:]})


def mals(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predicted_attributes: ArrayLike,
    predictions: ArrayLike,
    **options: Unpack[Drawing],
) -> Mals:
    """BiasAmp_MALS of predictions against a base.

    ``1/|T| sum over a, t of 1[b_at > 1/|A|] (bh_at - b_at)`` with b_at = P(A_a | T_t) on the base and bh_at =
    P(Ahat_a | That_t) on the predictions, both among the rows that have a group. Source: Zhao et al. 2017, as restated
    in Wang & Russakovsky 2021, Eq. 1; published code and paper agree. ``>`` is strict and exact; a task that the base
    or the predictions have with no group adds 0, and |T| stays. A binary task may be one column or two (present,
    absent): the values differ, and both are in print.

    Args:
        attributes, tasks: ``(m, |A|)`` and ``(m, |T|)`` labels of the base, usually the training set, 0 and 1.
        predicted_attributes, predictions: ``(n, |A|)`` and ``(n, |T|)`` on the test set, 0 and 1, or probabilities, of
            which a co-occurrence is the product.
        **options: see ``counts.Drawing``; the predictions are resampled, the base is held fixed.

    Raises:
        ValueError: shapes that do not fit, values that cannot be, an option out of range.
    """
    table = LabelTable.of(attributes, tasks, **names_in(options))
    a_hat, t_hat = table.other(predicted_attributes, predictions, names=PREDICTIONS, check=shares)
    drawn = Resamples.of_rows(len(a_hat), options)
    base, predicted = together(table.attributes, table.tasks), together(a_hat, t_hat)
    delta_drawn, _ = _deltas(base, drawn.together(a_hat, t_hat))
    value_drawn = np.nansum(delta_drawn, axis=(0, 1)) / len(table.task_names)
    low, high = interval(value_drawn[None], drawn.level, units=harmonic_mean(drawn.holding(t_hat)))
    names = table.attribute_names, table.task_names
    return _mals(names, base, predicted, ends=(float(low[0]), float(high[0])))


def mals_of_counts(
    base: ArrayLike,
    predicted: ArrayLike,
    *,
    attribute_names: Sequence[str] | None = None,
    task_names: Sequence[str] | None = None,
) -> Mals:
    """The same from co-occurrence counts alone, ``(|A|, |T|)`` each; without an interval.

    Raises:
        ValueError: other shapes, or numbers below 0.
    """
    tables: list[NDArray[Any]] = []
    for name, values in (("base", base), ("predicted", predicted)):
        table = np.asarray(values)
        fits = table.ndim == 2 and table.size and (not tables or table.shape == tables[0].shape)
        if not (fits and table.dtype.kind in "biuf" and (table >= 0).all()):
            like = f" = {tables[0].shape}" if tables else ""
            raise ValueError(BAD_COUNTS.format(name=name, like=like, shape=table.shape))
        tables.append(table)
    names = names_of(tables[0].T, attribute_names, "attributes"), names_of(tables[0], task_names, "tasks")
    return _mals(names, *tables, ends=(np.nan, np.nan))


def _mals(
    names: tuple[tuple[str, ...], tuple[str, ...]],
    base: NDArray[Any],
    predicted: NDArray[Any],
    *,
    ends: tuple[float, float],
) -> Mals:
    delta, counted = _deltas(base, predicted[:, :, None])
    delta, with_group = delta[:, :, 0], np.broadcast_to(base.sum(axis=0) > 0, base.shape)
    reason = np.select([~with_group, ~counted, np.isnan(delta)], [NOT_IN_BASE, NOT_MORE, NEVER_PREDICTED], COUNTED)
    value = float(np.nansum(delta) / base.shape[1])
    share, predicted_share = (ratio(counts, counts.sum(axis=0)) for counts in (base, predicted))
    return Mals(*names, value, *ends, base, predicted, share, predicted_share, delta, reason.astype(np.str_))


def _deltas(base: NDArray[Any], predicted: NDArray[Any]) -> tuple[Floats, NDArray[np.bool_]]:
    """``(|A|, |T|)`` and ``(|A|, |T|, R)`` counts -> the deltas of every resample, and which pairs count."""
    counted = base * len(base) > base.sum(axis=0)
    share = ratio(base, base.sum(axis=0))[:, :, None]
    return np.where(counted[:, :, None], ratio(predicted, predicted.sum(axis=0)) - share, 0.0), counted
