"""Directional bias amplification, BiasAmp-> (Wang & Russakovsky 2021): A->T and T->A, with intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import (
    BootstrapOptions,
    Direction,
    LabelTable,
    Resamples,
    cooccurrences,
    harmonic_mean,
    name_options,
    pairs_frame,
    ratio,
)
from pipeline.statistics.amplification.signs import (
    CODE,
    SignRule,
    Signs,
    checked_signs,
    counted_rows,
    mean_of_pairs,
    signs,
    signs_drawn,
)
from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import interval

# Reasons why a pair is NaN or counts as 0.
NO_ROWS_OF_GROUP = "no row of this group"
NO_ROWS_OF_TASK = "no row of this task"
TIE = "tie in the base"
DEFINED = ""

TWO_BASES = "give train or base, not both"
PAIR_COLUMNS = (
    *("direction", "attribute", "task", "sign", "sign_support", "rows", "label_rate", "predicted_rate"),
    *("delta", "delta_low", "delta_high", "amplification", "reason"),
)
Train = tuple[ArrayLike, ArrayLike] | None


@dataclass(frozen=True, eq=False)
class Differences:
    """Differences between conditional rates of predictions and of labels by pair, ``(|A|, |T|)``."""

    # rows, units: number of rows, and of rows or clusters, in which the condition holds
    rows: NDArray[np.int64]
    units: NDArray[np.int64]
    # label_rate, predicted_rate: P(T|A) and P(That|A), or P(A|T) and P(Ahat|T); NaN without rows
    label_rate: Floats
    predicted_rate: Floats
    delta: Floats  # predicted - label, exactly 0 where the counts agree
    samples: Floats  # (|A|, |T|, R) delta in every resample


@dataclass(frozen=True, eq=False)
class Amplification:
    """Directional bias amplification of a classifier, overall and by pair of a group and a task, ``(|A|, |T|)``."""

    direction: Direction  # "A->T" or "T->A"
    attributes: tuple[str, ...]
    tasks: tuple[str, ...]
    value: float  # the mean over pairs of sign times delta; NaN where no pair is defined
    # low, high: interval of value; NaN without resamples
    low: float
    high: float
    # either_low, either_high: a wider interval that allows either sign for every unsure pair: from the low end for the
    # signs that minimise the value to the high end for those that maximise it
    either_low: float
    either_high: float
    sign: Signs  # of the base
    sign_support: Floats  # share of the resamples with the same sign; 1 for a base other than the test set
    unsure: NDArray[np.bool_]  # signs that fewer than (1 + level) / 2 of the resamples support
    differences: Differences  # of the pairs
    # delta_low, delta_high: interval of each delta
    delta_low: Floats
    delta_high: Floats
    reason: NDArray[np.str_]  # why a pair is NaN or counts as 0, else empty

    @property
    def delta(self) -> Floats:
        """``(|A|, |T|)`` D_at."""
        return self.differences.delta

    @property
    def contributions(self) -> Floats:
        """``(|A|, |T|)`` sign times delta, whose mean is ``value``."""
        return self.sign * self.differences.delta

    def to_frame(self) -> pd.DataFrame:
        """A row per pair, group by group: the columns of ``PAIR_COLUMNS``."""
        columns = {**vars(self.differences), **vars(self), "amplification": self.contributions}
        own = {name: columns[name] for name in PAIR_COLUMNS if name not in ("attribute", "task")}
        return pairs_frame(self.attributes, self.tasks, own)[list(PAIR_COLUMNS)]


def attribute_to_task(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike,
    train: Train = None,
    base: ArrayLike | None = None,
    rule: SignRule = CODE,
    **options: Unpack[BootstrapOptions],
) -> Amplification:
    """BiasAmp_A->T: does the group change the prediction of the task more than the bias of the labels does?

    ``D_at = P(That_t=1 | A_a=1) - P(T_t=1 | A_a=1)`` on the test set, ``y_at`` is the sign of the base, and the value
    is the mean over pairs of ``y_at D_at``. Source: Wang & Russakovsky 2021, Eq. 2-3; ``SignRule`` lists where paper
    and published code differ. A pair without rows of the group is NaN and does not enter the mean; a group that is not
    in the base is a tie and enters it as 0.

    The interval is the percentile bootstrap over rows or clusters, expanded for small groups. Signs of ``train`` or
    ``base`` are fixed. Signs of the test set are computed in every resample. Near independence they are unreliable,
    because a sign and its delta share the same noise: ``unsure`` marks those pairs, and the interval from
    ``either_low`` to ``either_high`` allows them either sign. ``docs/methods.md`` has the measured coverage. Give a
    base if there is one.

    Args:
        attributes: ``(n, |A|)`` labels of the test set, 0 and 1; groups may overlap or be missing in a row.
        tasks: ``(n, |T|)`` labels of the test set, 0 and 1.
        predictions: ``(n, |T|)`` of the tasks, 0 and 1, or probabilities, which are averaged. Frames are matched by
            index, and by column name if they share names.
        train: attributes and tasks of a training set, as the base.
        base: ``(|A|, |T|)`` signs, see ``signs`` and ``signs_of_shares``. Without ``train`` and ``base`` the test
            labels are the base.
        rule: default: that of the published code.
        **options: resamples, seed, level, clusters, attribute_names, task_names: see ``counts.BootstrapOptions``.

    Raises:
        ValueError: shapes that do not match, or values or options out of range.
    """
    return _directed("A->T", attributes, tasks, predictions, train=train, base=base, rule=rule, options=options)


def task_to_attribute(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike,
    train: Train = None,
    base: ArrayLike | None = None,
    rule: SignRule = CODE,
    **options: Unpack[BootstrapOptions],
) -> Amplification:
    """BiasAmp_T->A: does the task change the prediction of the group more than the bias of the labels does?

    ``D_at = P(Ahat_a=1 | T_t=1) - P(A_a=1 | T_t=1)``; ``predictions`` are ``(n, |A|)`` of the groups, and a pair
    without rows of the task is NaN. Otherwise as ``attribute_to_task``.
    """
    return _directed("T->A", attributes, tasks, predictions, train=train, base=base, rule=rule, options=options)


def base_signs(
    table: LabelTable,
    drawn: Resamples,
    *,
    train: Train,
    base: ArrayLike | None,
    rule: SignRule,
    columns: Callable[[NDArray[np.int8]], NDArray[np.int8]] = lambda tasks: tasks,
) -> tuple[Signs, Signs]:
    """Signs of ``base``, else of ``train``, else of the test labels; and those in every resample.

    ``columns`` transforms the tasks, such as into sets of tasks; the rest as for ``attribute_to_task``.

    Returns:
        ``(|A|, |T|)`` and ``(|A|, |T|, R)``, or ``(|A|, |T|, 1)`` for fixed signs.

    Raises:
        ValueError: both are given, or one does not match the test set.
    """
    tasks = columns(table.tasks)
    if train is not None and base is not None:
        raise ValueError(TWO_BASES)
    if base is not None:
        fixed = checked_signs(base, (table.attributes.shape[1], tasks.shape[1]))
    elif train is not None:
        groups, labels = table.other(*train, names=("train attributes", "train tasks"))
        fixed = signs(groups, columns(labels), rule=rule, counted=counted_rows(groups, labels, rule))
    else:
        counted = counted_rows(table.attributes, table.tasks, rule)
        own = signs(table.attributes, tasks, rule=rule, counted=counted)
        return own, signs_drawn(table.attributes, tasks, drawn, rule=rule, counted=counted)
    return fixed, fixed[:, :, None]


def differences(
    direction: Direction,
    attributes: NDArray[np.int8],
    tasks: NDArray[np.int8],
    predictions: NDArray[Any],
    drawn: Resamples,
) -> Differences:
    """Differences of all pairs, from checked labels and predictions."""
    if direction == "A->T":
        given, axis, left, right = attributes, 1, attributes, predictions - tasks
        predicted = cooccurrences(attributes, predictions)
    else:
        given, axis, left, right = tasks, 0, predictions - attributes, tasks
        predicted = cooccurrences(predictions, tasks)
    rows, pairs = np.expand_dims(given.sum(axis=0, dtype=np.int64), axis), cooccurrences(attributes, tasks)
    return Differences(
        rows=np.broadcast_to(rows, pairs.shape),
        units=np.broadcast_to(np.expand_dims(drawn.units_with(given), axis), pairs.shape),
        label_rate=ratio(pairs, rows),
        predicted_rate=ratio(predicted, rows),
        delta=ratio(predicted - pairs, rows),
        samples=ratio(drawn.cooccurrences(left, right), np.expand_dims(drawn.sums(given), axis)),
    )


def interval_of_mean(
    contributions: Floats, pairs: Differences, drawn: Resamples, rule: SignRule
) -> tuple[float, float]:
    """Interval of a mean over pairs, from resampled contributions ``(|A|, |T|, R)``."""
    low, high = interval(mean_of_pairs(contributions, rule)[None], drawn.level, units=harmonic_mean(pairs.units))
    return float(low[0]), float(high[0])


def _directed(
    direction: Direction,
    attributes: ArrayLike,
    tasks: ArrayLike,
    predictions: ArrayLike,
    *,
    train: Train,
    base: ArrayLike | None,
    rule: SignRule,
    options: BootstrapOptions,
) -> Amplification:
    table = LabelTable.of(attributes, tasks, **name_options(options))
    drawn = Resamples.of_rows(len(table.tasks), options)
    predicted = table.predicted(predictions, direction)
    sign = base_signs(table, drawn, train=train, base=base, rule=rule)
    pairs = differences(direction, table.attributes, table.tasks, predicted, drawn)
    return amplification_of(direction, (table.attribute_names, table.task_names), pairs, sign, drawn, rule=rule)


def amplification_of(
    direction: Direction,
    names: tuple[tuple[str, ...], tuple[str, ...]],
    pairs: Differences,
    base: tuple[Signs, Signs],
    drawn: Resamples,
    *,
    rule: SignRule,
) -> Amplification:
    """Combine differences with the signs of ``base_signs``; ``names`` are those of groups and tasks."""
    sign, sign_drawn = base
    resampled = sign_drawn.shape[2]
    support = (sign_drawn == sign[:, :, None]).sum(axis=2) / resampled if resampled else np.full(sign.shape, np.nan)
    undefined = np.isnan(pairs.delta)
    unsure = (support < (1 + drawn.level) / 2) & ~undefined
    low, high = interval_of_mean(sign_drawn * pairs.samples, pairs, drawn, rule)
    either_low, either_high = low, high
    if unsure.any():
        upwards = np.where(pairs.delta < 0, -1, 1)
        smallest, largest = (np.where(unsure, way * upwards, sign)[:, :, None] for way in (-1, 1))
        either_low = min(low, interval_of_mean(smallest * pairs.samples, pairs, drawn, rule)[0])
        either_high = max(high, interval_of_mean(largest * pairs.samples, pairs, drawn, rule)[1])
    delta_low, delta_high = interval(pairs.samples, drawn.level, units=pairs.units)
    missing = NO_ROWS_OF_GROUP if direction == "A->T" else NO_ROWS_OF_TASK
    return Amplification(
        direction=direction,
        attributes=names[0],
        tasks=names[1],
        value=float(mean_of_pairs(sign * pairs.delta, rule)),
        low=low,
        high=high,
        either_low=either_low,
        either_high=either_high,
        sign=sign,
        sign_support=support,
        unsure=unsure,
        differences=pairs,
        delta_low=delta_low,
        delta_high=delta_high,
        reason=np.where(undefined, missing, np.where(sign == 0, TIE, DEFINED)),
    )
