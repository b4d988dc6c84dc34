"""Directional bias amplification, BiasAmp-> (Wang & Russakovsky 2021): A->T and T->A, with intervals.

The older measure is in ``mals``, sets of tasks in ``multi_attribute``, the attribute intervened on in
``counterfactual``. Counts come from ``counts``, signs from ``signs``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import (
    Direction,
    Drawing,
    LabelTable,
    Resamples,
    harmonic_mean,
    names_in,
    pairs_frame,
    ratio,
    together,
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

# Why a pair has no difference, or counts as 0.
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
    """How far predicted conditional rates are from those of the labels, pair by pair: tables ``(|A|, |T|)``."""

    # rows, units: rows of the event that is given, and rows or clusters that hold it
    rows: NDArray[np.int64]
    units: NDArray[np.int64]
    # label_rate, predicted_rate: P(T|A) and P(That|A), or P(A|T) and P(Ahat|T); NaN without rows
    label_rate: Floats
    predicted_rate: Floats
    delta: Floats  # predicted - label, exactly 0 where the counts agree
    samples: Floats  # (|A|, |T|, R) delta in every resample


@dataclass(frozen=True, eq=False)
class Amplification:
    """Directional bias amplification of a classifier, as a whole and by pair of a group and a task."""

    direction: Direction  # "A->T" or "T->A"
    attributes: tuple[str, ...]
    tasks: tuple[str, ...]
    value: float  # the mean over pairs of sign times delta; NaN where no pair is defined
    # low, high: ends of its interval; NaN without resamples
    low: float
    high: float
    # either_low, either_high: ends of a wider one, which allows every sign that is not sure to be the other: from the
    # low end at the signs that make the value smallest to the high end at those that make it largest
    either_low: float
    either_high: float
    sign: Signs  # (|A|, |T|) of the base
    # (|A|, |T|) share of the resamples that have the same sign; 1 where it comes from elsewhere
    sign_support: Floats
    unsure: NDArray[np.bool_]  # (|A|, |T|) signs that fewer than (1 + level) / 2 of the resamples support
    differences: Differences  # of the pairs
    # delta_low, delta_high: (|A|, |T|) ends of each delta's interval
    delta_low: Floats
    delta_high: Floats
    reason: NDArray[np.str_]  # (|A|, |T|) why a pair is NaN or counts as 0; empty where neither

    @property
    def delta(self) -> Floats:
        """``(|A|, |T|)`` D_at."""
        return self.differences.delta

    @property
    def contributions(self) -> Floats:
        """``(|A|, |T|)`` sign times delta, of which ``value`` is the mean."""
        return self.sign * self.differences.delta

    def to_frame(self) -> pd.DataFrame:
        """One row a pair, group after group: the columns of ``PAIR_COLUMNS``."""
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
    **options: Unpack[Drawing],
) -> Amplification:
    """BiasAmp_A->T: does the group change the prediction of the task more than the labels' own bias?

    ``D_at = P(That_t=1 | A_a=1) - P(T_t=1 | A_a=1)`` on the test set, ``y_at`` the sign of the base, and the value the
    mean over pairs of ``y_at D_at``. Source: Wang & Russakovsky 2021, Eq. 2-3; rules where paper and published code
    differ: ``SignRule``. A pair without any row of the group is NaN and leaves the mean; a group that the base lacks is
    a tie and stays in it as 0.

    The interval is the bootstrap's percentile interval over rows or clusters, expanded for small groups. Signs from
    ``train`` or ``base`` are held fixed. Signs of the test set are drawn anew in every resample; near independence they
    mislead, because a sign comes from the same noise as its delta: ``unsure`` names those pairs, and ``either_low`` to
    ``either_high`` allows them either sign. ``docs/methods.md`` has the measured coverage. Give a base where there is
    one.

    Args:
        attributes: ``(n, |A|)`` labels of the test set, 0 and 1; groups may overlap or be missing in a row.
        tasks: ``(n, |T|)`` labels of the test set, 0 and 1.
        predictions: ``(n, |T|)`` of the tasks, 0 and 1, or probabilities, which are averaged. Frames are matched by
            index, and by column name where they share names.
        train: attributes and tasks of the training set; their signs count.
        base: ``(|A|, |T|)`` signs from elsewhere, as ``signs`` or ``signs_of_shares`` gives them. With neither
            ``train`` nor ``base`` the test labels are the base.
        rule: the code's, unless given.
        **options: resamples, seed, level, clusters, attribute_names, task_names: see ``counts.Drawing``.

    Raises:
        ValueError: shapes that do not fit, values that cannot be, an option out of range.
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
    **options: Unpack[Drawing],
) -> Amplification:
    """BiasAmp_T->A: does the task change the prediction of the group more than the labels' own bias?

    ``D_at = P(Ahat_a=1 | T_t=1) - P(A_a=1 | T_t=1)``; ``predictions`` are ``(n, |A|)`` of the groups. All else as for
    ``attribute_to_task``, with a pair NaN where no row has the task.
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
    """The signs of ``base``, else of ``train``, else of the test labels; and those of every resample.

    ``columns`` makes of the tasks what stands in their place, such as sets of them; the rest as for
    ``attribute_to_task``.

    Returns:
        ``(|A|, |T|)`` and ``(|A|, |T|, R)``, or ``(|A|, |T|, 1)`` where resampling the test set changes none.

    Raises:
        ValueError: both are given, or one does not fit the test set.
    """
    seen = columns(table.tasks)
    if train is not None and base is not None:
        raise ValueError(TWO_BASES)
    if base is not None:
        fixed = checked_signs(base, (table.attributes.shape[1], seen.shape[1]))
    elif train is not None:
        groups, tasks = table.other(*train, names=("train attributes", "train tasks"))
        fixed = signs(groups, columns(tasks), rule=rule, counted=counted_rows(groups, tasks, rule))
    else:
        counted = counted_rows(table.attributes, table.tasks, rule)
        own = signs(table.attributes, seen, rule=rule, counted=counted)
        return own, signs_drawn(table.attributes, seen, drawn, rule=rule, counted=counted)
    return fixed, fixed[:, :, None]


def differences(
    direction: Direction,
    attributes: NDArray[np.int8],
    tasks: NDArray[np.int8],
    predictions: NDArray[Any],
    drawn: Resamples,
) -> Differences:
    """The differences of all pairs, from counts; arrays as ``LabelTable`` gives them."""
    if direction == "A->T":
        given, axis, left, right = attributes, 1, attributes, predictions - tasks
        predicted = together(attributes, predictions)
    else:
        given, axis, left, right = tasks, 0, predictions - attributes, tasks
        predicted = together(predictions, tasks)
    rows, pairs = np.expand_dims(given.sum(axis=0, dtype=np.int64), axis), together(attributes, tasks)
    return Differences(
        rows=np.broadcast_to(rows, pairs.shape),
        units=np.broadcast_to(np.expand_dims(drawn.holding(given), axis), pairs.shape),
        label_rate=ratio(pairs, rows),
        predicted_rate=ratio(predicted, rows),
        delta=ratio(predicted - pairs, rows),
        samples=ratio(drawn.together(left, right), np.expand_dims(drawn.sums(given), axis)),
    )


def interval_of_mean(
    contributions: Floats, pairs: Differences, drawn: Resamples, rule: SignRule
) -> tuple[float, float]:
    """Ends of the interval of a mean over pairs, from ``(|A|, |T|, R)`` resampled contributions."""
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
    options: Drawing,
) -> Amplification:
    table = LabelTable.of(attributes, tasks, **names_in(options))
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
    """The result of differences and signs; ``names`` are of groups and tasks, ``base`` is as `base_signs` gives it."""
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
