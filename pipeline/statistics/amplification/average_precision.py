"""Average precision of scores by task, and its mean over tasks (mAP)."""

from typing import Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import BootstrapOptions, Resamples, ratio
from pipeline.statistics.arrays import Floats, binary, names_of, numbers
from pipeline.statistics.inference import interval

PRECISION_COLUMNS = ("task", "rows", "positives", "average_precision", "low", "high")
MEAN = "mAP"
MAX_WEIGHTS = 2**22  # resampling weights held as floats at a time


def average_precision(tasks: ArrayLike, scores: ArrayLike, **options: Unpack[BootstrapOptions]) -> pd.DataFrame:
    """Average precision of each task, and their mean; a task without positives is NaN and does not enter the mean.

    ``AP = sum_k (R_k - R_(k-1)) P_k`` over the distinct scores, as in scikit-learn, without interpolation. The
    intervals are bootstrap intervals over rows or clusters; a resample without positives of a task omits that task.

    Args:
        tasks: ``(n, |T|)`` labels, 0 and 1.
        scores: ``(n, |T|)`` finite numbers, higher for more likely.
        **options: resamples, seed, level, clusters, task_names: see ``BootstrapOptions``.

    Returns:
        The columns of ``PRECISION_COLUMNS``, the mean in the last row.

    Raises:
        ValueError: shapes that do not match, or values out of range.
    """
    names = names_of(tasks, options.get("task_names"), "tasks")
    labels = binary(tasks, "tasks")
    values = numbers(scores, "scores", columns=labels.shape[1])
    if len(values) != len(labels):
        raise ValueError(f"scores have {len(values)} rows, but tasks {len(labels)}")
    drawn = Resamples.of_rows(len(labels), options)
    unit = _unit_of_row(drawn, len(labels))
    own = np.array([_weighted(y, s, np.ones((1, len(y))))[0] for y, s in zip(labels.T, values.T, strict=True)])
    size = max(1, MAX_WEIGHTS // max(len(labels), 1))
    samples = np.empty((len(names), len(drawn)))
    for start in range(0, len(drawn), size):
        weights = drawn.weights[start : start + size][:, unit].astype(np.float64)
        for task, (y, s) in enumerate(zip(labels.T, values.T, strict=True)):
            samples[task, start : start + size] = _weighted(y, s, weights)
    known = ~np.isnan(own)
    mean = own[known].mean() if known.any() else float("nan")
    means = np.nanmean(samples[known], axis=0) if known.any() and samples.size else np.empty(len(drawn))
    rows, positives = len(labels), labels.sum(axis=0, dtype=np.int64)
    low, high = interval(np.vstack([samples, means[None]]), drawn.level, units=len(drawn.units))
    return pd.DataFrame(
        {
            "task": [*names, MEAN], "rows": rows, "positives": [*positives, int(positives.sum())],
            "average_precision": [*own, mean], "low": low, "high": high,
        },
        columns=list(PRECISION_COLUMNS),
    )  # fmt: skip


def _weighted(labels: NDArray[np.int8], scores: Floats, weights: Floats) -> Floats:
    """Average precisions ``(R,)`` of one task under weights ``(R, n)``; NaN where no positive has weight."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    ordered = weights[:, order]
    true_positives = np.cumsum(ordered * labels[order], axis=1)[:, ends]
    retrieved = np.cumsum(ordered, axis=1)[:, ends]
    precision = np.divide(true_positives, retrieved, out=np.zeros_like(retrieved), where=retrieved > 0)
    area = (np.diff(true_positives, axis=1, prepend=0.0) * precision).sum(axis=1)
    return ratio(area, true_positives[:, -1])


def _unit_of_row(drawn: Resamples, rows: int) -> NDArray[np.intp]:
    units = drawn.units
    if units.order is None or units.starts is None:
        return np.arange(rows)
    unit = np.empty(rows, dtype=np.intp)
    unit[units.order] = np.repeat(np.arange(len(units)), units.sizes.astype(np.intp))
    return unit
