"""BiasAmp_MALS, the bias amplification of Zhao et al. 2017 ("men also like shopping"), with an interval.

For comparison with published figures only: it counts only what a group has too much of, and mixes the two directions
that ``directional`` separates (Wang & Russakovsky 2021, section 3).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import (
    BootstrapOptions,
    LabelTable,
    Resamples,
    cooccurrences,
    harmonic_mean,
    name_options,
    pairs_frame,
    ratio,
)
from pipeline.statistics.arrays import Floats, names_of, shares
from pipeline.statistics.inference import interval

# Reasons why a pair counts as 0.
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
    """BiasAmp_MALS overall and by pair of a group and a task, ``(|A|, |T|)``."""

    attributes: tuple[str, ...]
    tasks: tuple[str, ...]
    value: float  # sum of delta / |T| over the pairs counted
    # low, high: interval of value; NaN without resamples
    low: float
    high: float
    base_count: NDArray[Any]
    predicted_count: NDArray[Any]
    # base_share, predicted_share: b_at and bh_at; NaN where no row of the task has a group
    base_share: Floats
    predicted_share: Floats
    delta: Floats  # bh_at - b_at where the pair counts, else 0; NaN where the task is never predicted with a group
    reason: NDArray[np.str_]  # why a pair counts as 0; empty where it counts

    def to_frame(self) -> pd.DataFrame:
        """A row per pair, group by group: the columns of ``PAIR_COLUMNS``."""
        return pairs_frame(self.attributes, self.tasks, {name: vars(self)[name] for name in PAIR_COLUMNS[2:]})


def mals(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predicted_attributes: ArrayLike,
    predictions: ArrayLike,
    **options: Unpack[BootstrapOptions],
) -> Mals:
    """BiasAmp_MALS of predictions against a base.

    ``1/|T| sum over a, t of 1[b_at > 1/|A|] (bh_at - b_at)`` with b_at = P(A_a | T_t) on the base and bh_at =
    P(Ahat_a | That_t) on the predictions, both among the rows that have a group. Source: Zhao et al. 2017, as restated
    in Wang & Russakovsky 2021, Eq. 1; published code and paper agree. ``>`` is strict and exact. A task that is with no
    group in the base or in the predictions adds 0 and is still counted in |T|. A binary task may be one column or two
    (present, absent). The values differ; both are used in publications.

    Args:
        attributes, tasks: ``(m, |A|)`` and ``(m, |T|)`` labels of the base, usually the training set, 0 and 1.
        predicted_attributes, predictions: ``(n, |A|)`` and ``(n, |T|)`` on the test set, 0 and 1, or probabilities,
            whose product is the co-occurrence.
        **options: see ``counts.BootstrapOptions``; the predictions are resampled, the base is fixed.

    Raises:
        ValueError: shapes that do not match, or values or options out of range.
    """
    table = LabelTable.of(attributes, tasks, **name_options(options))
    a_hat, t_hat = table.other(predicted_attributes, predictions, names=PREDICTIONS, check=shares)
    resamples = Resamples.of_rows(len(a_hat), options)
    base, predicted = cooccurrences(table.attributes, table.tasks), cooccurrences(a_hat, t_hat)
    deltas, _ = _deltas(base, resamples.cooccurrences(a_hat, t_hat))
    values = np.nansum(deltas, axis=(0, 1)) / len(table.task_names)
    low, high = interval(values[None], resamples.level, units=harmonic_mean(resamples.units_with(t_hat)))
    names = table.attribute_names, table.task_names
    return _mals(names, base, predicted, ends=(float(low[0]), float(high[0])))


def mals_of_counts(
    base: ArrayLike,
    predicted: ArrayLike,
    *,
    attribute_names: Sequence[str] | None = None,
    task_names: Sequence[str] | None = None,
) -> Mals:
    """BiasAmp_MALS from co-occurrence counts, ``(|A|, |T|)`` each, without an interval.

    Raises:
        ValueError: different shapes, or negative counts.
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
    """Deltas of every resample and which pairs count, from counts ``(|A|, |T|)`` and ``(|A|, |T|, R)``."""
    counted = base * len(base) > base.sum(axis=0)
    share = ratio(base, base.sum(axis=0))[:, :, None]
    return np.where(counted[:, :, None], ratio(predicted, predicted.sum(axis=0)) - share, 0.0), counted
