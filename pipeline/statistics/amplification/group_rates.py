"""True and false positive rates and accuracy by group, their differences and means, with score intervals."""

from collections.abc import Hashable, Sequence
from typing import Any, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri, stdtrit

from pipeline.statistics.amplification.counts import LabelTable, Names
from pipeline.statistics.arrays import Floats, check_level
from pipeline.statistics.inference import Estimate, Ratio, Units, share_interval

RATES = ("tpr", "fpr", "accuracy")
MEANS = ("mean group accuracy", "mean subgroup accuracy")
ENDS = ("value", "low", "high")
UNKNOWN_GROUP = "between must name two of the groups {groups}, not {group!r}"
BLOCK_CELLS = 4_000_000  # per block of tasks; bounds the memory and changes no result


def group_rates(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike,
    between: tuple[str, str] | None = None,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
    **names: Unpack[Names],
) -> pd.DataFrame:
    """Rates of a classifier by group, with intervals that have a positive width even at rates of 0 and 1.

    The metrics are the rates of every group, "tpr" P(That | T, A), "fpr" P(That | not T, A) and "accuracy"
    P(That = T | A); the "tpr difference" and so on of two groups, the last less the first; and means of the accuracy
    over groups, "mean group accuracy", or over groups and presence of the task, "mean subgroup accuracy".

    A rate has Wilson's score interval. With clusters or probabilities it uses the number of independent rows that would
    have the observed variance (Korn & Graubard 1998). Differences and means combine the intervals of the rates by
    squaring and adding, with the observed correlation where groups share rows or clusters (Newcombe 1998, method 10;
    Zou & Donner 2008).

    Args:
        attributes: ``(n, |A|)`` labels, 0 and 1.
        tasks: ``(n, |T|)`` labels.
        predictions: ``(n, |T|)``, 0 and 1, or probabilities, which give expected rates.
        between: names of the two groups to compare, by default the first and the last column.
        level, clusters, **names: as for ``attribute_to_task``.

    Returns:
        A row per number: metric, attribute, task, value, low, high.

    Raises:
        ValueError: shapes that do not match, values out of range, or an unknown group.
    """
    check_level(level)
    table = LabelTable.of(attributes, tasks, **names)
    groups = table.attribute_names
    pair = (groups[0], groups[-1]) if between is None else between
    for group in pair:
        if group not in groups:
            raise ValueError(UNKNOWN_GROUP.format(group=group, groups=", ".join(map(repr, groups))))
    predicted = table.predicted(predictions, "A->T")
    units = Units.of(len(table.tasks), clusters=clusters)
    independent = clusters is None and predicted.dtype.kind == "i"
    places = groups.index(pair[0]), groups.index(pair[1])
    size = max(1, BLOCK_CELLS // (len(units) * 3 * len(groups)))
    parts = []
    for columns in np.split(np.arange(len(table.task_names)), range(size, len(table.task_names), size)):
        labels = table.attributes, table.tasks[:, columns], predicted[:, columns]
        parts.append(_block(*labels, units, independent, level, places))
    named = dict.fromkeys(RATES, groups)
    named |= {f"{name} difference": (f"{pair[1]} - {pair[0]}",) for name in RATES} | dict.fromkeys(MEANS, ("",))
    frames = []
    for metric, rows in named.items():
        ends = {end: np.hstack([np.atleast_2d(getattr(part[metric], end)) for part in parts]) for end in ENDS}
        for row, name in enumerate(rows):
            numbers = {end: values[row] for end, values in ends.items()}
            frames.append(pd.DataFrame({"metric": metric, "attribute": name, "task": table.task_names, **numbers}))
    return pd.concat(frames, ignore_index=True)


def _block(
    attributes: NDArray[np.int8],
    tasks: NDArray[np.int8],
    predictions: NDArray[Any],
    units: Units,
    independent: bool,
    level: float,
    pair: tuple[int, int],
) -> dict[str, Estimate]:
    """All rates, differences and means of a block of tasks; ``pair``: columns of the two groups to compare."""
    count = attributes.shape[1]
    right = predictions * tasks + (1 - predictions) * (1 - tasks)
    kinds = {"tpr": (predictions, tasks), "fpr": (predictions, 1 - tasks), "accuracy": (right, np.ones_like(tasks))}
    ratios, unit_counts, rows = [], [], []
    for numbers, condition in kinds.values():
        for group in attributes.T:
            given = (condition * group[:, None]).T
            denominator = units.sums(given)
            ratios.append(Ratio.of(units.sums(numbers.T * given), denominator))
            unit_counts.append(np.count_nonzero(denominator, axis=1))
            rows.append(given.sum(axis=1))
    value = np.array([ratio.value for ratio in ratios])  # (3 |A|, T)
    n = np.array(rows, dtype=np.float64)
    if not independent:
        n = _independent_rows(value, np.array([ratio.error() for ratio in ratios]), np.array(unit_counts), n, level)
    low, high = share_interval(np.nan_to_num(value) * n, n, level=level)
    correlation = _correlation([ratio.errors for ratio in ratios])
    rate, (first, last), found = Estimate(value, low, high), pair, {}
    for number, name in enumerate(kinds):
        own = slice(number * count, (number + 1) * count)
        found[name] = Estimate(value[own], low[own], high[own])
        ends = {number * count + last: 1.0, number * count + first: -1.0}
        found[f"{name} difference"] = _combined(rate, correlation, ends if first != last else {})
    found[MEANS[0]] = _combined(rate, correlation, {2 * count + group: 1 / count for group in range(count)})
    halves = dict.fromkeys(range(count), 1 / (2 * count)) | {count + group: -1 / (2 * count) for group in range(count)}
    found[MEANS[1]] = _combined(rate, correlation, halves, offset=0.5)
    return found


def _independent_rows(value: Floats, error: Floats, units: NDArray[Any], rows: Floats, level: float) -> Floats:
    """Effective number of independent rows, reduced for the t quantile; the number of units if the variance is 0."""
    binomial = value * (1 - value)
    known = (error > 0) & (binomial > 0)
    n = np.divide(binomial, error**2, out=units.astype(np.float64), where=known)
    several = units >= 2
    factor = (ndtri((1 + level) / 2) / stdtrit(np.where(several, units - 1, 1), (1 + level) / 2)) ** 2
    return np.where(rows > 0, np.where(several, n * factor, units), 0.0)


def _correlation(errors: Sequence[Floats]) -> Floats:
    """Correlation of the rates' sampling errors, ``(T, J, J)`` from ``J`` arrays ``(T, G)``."""
    stacked = np.nan_to_num(np.stack(errors, axis=1))
    length = np.sqrt((stacked**2).sum(axis=2, keepdims=True))
    scaled = np.divide(stacked, length, out=np.zeros_like(stacked), where=length > 0)
    correlation: Floats = scaled @ scaled.transpose(0, 2, 1)
    correlation[:, range(len(errors)), range(len(errors))] = 1.0
    return correlation


def _combined(rate: Estimate, correlation: Floats, weights: dict[int, float], *, offset: float = 0.0) -> Estimate:
    """Weighted sum of rates, with an interval by squaring and adding; ``weights``: row of ``rate`` -> weight."""
    places, factors = list(weights), np.array(list(weights.values()), dtype=np.float64)
    value, low, high = (part[places] for part in (rate.value, rate.low, rate.high))
    own = correlation[:, places][:, :, places]
    down = np.where(factors[:, None] > 0, value - low, value - high) * factors[:, None]
    up = np.where(factors[:, None] > 0, high - value, low - value) * factors[:, None]
    centre = offset + factors @ value
    reaches = [np.sqrt(np.maximum(np.einsum("jt,tjk,kt->t", part, own, part), 0)) for part in (down, up)]
    return Estimate(centre, centre - reaches[0], centre + reaches[1])
