"""Average precision of scores by task, and its mean over tasks (mAP): how well a model does."""

from typing import Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import Drawing, Resamples
from pipeline.statistics.arrays import Floats, binary, names_of, numbers
from pipeline.statistics.inference import interval

PRECISION_COLUMNS = ("task", "rows", "positives", "average_precision", "low", "high")
MEAN = "mAP"
_AT_A_TIME = 2**22  # weights held as floats


def average_precision(tasks: ArrayLike, scores: ArrayLike, **options: Unpack[Drawing]) -> pd.DataFrame:
    """Average precision of each task, the last row their mean; a task without positives has none and leaves the mean.

    ``AP = sum_k (R_k - R_(k-1)) P_k`` over the distinct scores, as scikit-learn has it, without interpolation. The
    intervals are the bootstrap's over rows or clusters; a resample without positives of a task leaves that task out.

    Args:
        tasks: ``(n, |T|)`` labels, 0 and 1.
        scores: ``(n, |T|)`` any numbers, higher for more likely.
        **options: resamples, seed, level, clusters, task_names: see ``Drawing``.

    Returns:
        The columns of ``PRECISION_COLUMNS``.

    Raises:
        ValueError: shapes that do not fit, or values that cannot be.
    """
    names = names_of(tasks, options.get("task_names"), "tasks")
    labels = binary(tasks, "tasks")
    values = numbers(scores, "scores", columns=labels.shape[1])
    if len(values) != len(labels):
        raise ValueError(f"scores have {len(values)} rows, but tasks {len(labels)}")
    drawn = Resamples.of_rows(len(labels), options)
    unit = _unit_of_row(drawn, len(labels))
    own = np.array([_weighted(y, s, np.ones((1, len(y))))[0] for y, s in zip(labels.T, values.T, strict=True)])
    size = max(1, _AT_A_TIME // max(len(labels), 1))
    samples = np.empty((len(names), len(drawn)))
    for start in range(0, len(drawn), size):
        weights = drawn.weights[start : start + size][:, unit].astype(np.float64)
        for place, (y, s) in enumerate(zip(labels.T, values.T, strict=True)):
            samples[place, start : start + size] = _weighted(y, s, weights)
    known = ~np.isnan(own)
    mean = own[known].mean() if known.any() else float("nan")
    together = np.nanmean(samples[known], axis=0) if known.any() and samples.size else np.empty(len(drawn))
    rows, positives = len(labels), labels.sum(axis=0, dtype=np.int64)
    low, high = interval(np.vstack([samples, together[None]]), drawn.level, units=len(drawn.units))
    return pd.DataFrame(
        {
            "task": [*names, MEAN], "rows": rows, "positives": [*positives, int(positives.sum())],
            "average_precision": [*own, mean], "low": low, "high": high,
        },
        columns=list(PRECISION_COLUMNS),
    )  # fmt: skip


def _weighted(labels: NDArray[np.int8], scores: Floats, weights: Floats) -> Floats:
    """``(R,)`` average precisions of one task under ``(R, n)`` weights; NaN where nothing positive has weight."""
    order = np.argsort(-scores, kind="stable")
    ends = np.flatnonzero(np.append(np.diff(scores[order]) != 0, True))
    ordered = weights[:, order]
    found = np.cumsum(ordered * labels[order], axis=1)[:, ends]
    shown = np.cumsum(ordered, axis=1)[:, ends]
    precision = np.divide(found, shown, out=np.zeros_like(found), where=shown > 0)
    total = found[:, -1]
    area = (np.diff(found, axis=1, prepend=0.0) * precision).sum(axis=1)
    precisions: Floats = np.divide(area, total, out=np.full(len(total), np.nan), where=total > 0)
    return precisions


def _unit_of_row(drawn: Resamples, rows: int) -> NDArray[np.intp]:
    units = drawn.units
    if units.order is None or units.starts is None:
        return np.arange(rows)
    unit = np.empty(rows, dtype=np.intp)
    unit[units.order] = np.repeat(np.arange(len(units)), units.sizes.astype(np.intp))
    return unit
