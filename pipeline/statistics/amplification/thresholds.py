"""Predictions from scores: thresholds calibrated on a validation set, and amplification averaged over thresholds."""

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

from pipeline.statistics.amplification.directional import Amplification
from pipeline.statistics.arrays import Floats, binary, check_choice, numbers

OVER = ("scores", "ranks")
BAD_SCORES = "scores must lie in 0-1 to be integrated over thresholds: use over='ranks', or rescale them"


def calibrated_as_in_paper(validation_scores: ArrayLike, train_labels: ArrayLike) -> Floats:
    """Thresholds at which the positive share of a validation set equals that of the training set.

    With p the positive share in training, the N p highest-scoring of N validation examples are positive (Wang &
    Russakovsky 2021, section 3.3). N p is rounded half up. If tied scores allow no such threshold, the one with the
    nearest number of positives is used, of two equally near ones the higher.

    Args:
        validation_scores: ``(N, L)`` finite numbers.
        train_labels: ``(m, L)`` 0 and 1.

    Returns:
        ``(L,)``; scores above it are positive. -inf if all are positive.

    Raises:
        ValueError: shapes that do not match, or values out of range.
    """
    scores = numbers(validation_scores, "validation_scores")
    labels = binary(train_labels, "train_labels", columns=scores.shape[1])
    positives = (2 * labels.sum(axis=0, dtype=np.int64) * len(scores) + len(labels)) // (2 * len(labels))
    return np.array([_nearest(column, int(count)) for column, count in zip(scores.T, positives, strict=True)])


def calibrated_as_in_code(validation_scores: ArrayLike, validation_labels: ArrayLike) -> Floats:
    """Calibrate thresholds like the published code of Wang & Russakovsky and of Zhao et al. 2023.

    The number of positives k is that of the ``(N, L)`` validation labels, and the threshold is the score after the k
    highest. If ties make the number of positives differ from k, the next higher score is used if it comes closer. With
    k >= N - 1 the threshold is the lowest score, which itself is negative. Where the code fails (no next higher score,
    e.g. constant scores), the threshold is kept and nothing is positive. Arguments, result and errors as for
    ``calibrated_as_in_paper``.
    """
    scores = numbers(validation_scores, "validation_scores")
    labels = binary(validation_labels, "validation_labels", rows=len(scores), columns=scores.shape[1])
    thresholds = []
    for column, positives in zip(scores.T, labels.sum(axis=0, dtype=np.int64), strict=True):
        ascending = np.sort(column)
        threshold = ascending[-positives - 1] if positives + 1 < len(ascending) else ascending[0]
        higher = ascending[ascending > threshold]
        if len(higher) and abs(np.count_nonzero(higher > higher[0]) - positives) < abs(len(higher) - positives):
            threshold = higher[0]
        thresholds.append(threshold)
    return np.array(thresholds)


def at_thresholds(scores: ArrayLike, thresholds: ArrayLike) -> NDArray[np.int8]:
    """``(n, L)`` 1 where a score is strictly above its column's threshold, as in the published code."""
    table = numbers(scores, "scores")
    limits = np.broadcast_to(np.asarray(thresholds, dtype=np.float64), (table.shape[1],))
    return (table > limits).astype(np.int8)


def threshold_free(
    measure: Callable[..., Amplification],
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    scores: ArrayLike,
    over: Literal["scores", "ranks"] = "scores",
    **options: Any,
) -> Amplification:
    """BiasAmp-> averaged over all thresholds.

    Averaging over thresholds is linear, and only the predicted rate depends on them, so the average is exactly that of
    a soft prediction:

    - over "scores", with thresholds uniform in 0-1: the mean over thresholds of P(s > threshold) is the mean of s;
    - over "ranks", with thresholds that make the positive share uniform, which is invariant to monotone transformations
      of the scores: the share of the rows with a lower score, ties counting half.

    With "ranks" half of the rows are positive on average, whatever the share of the labels; for two groups of opposite
    sign this offset nearly cancels. Resamples keep the ranks of the whole sample.

    Args:
        measure: ``attribute_to_task`` or ``task_to_attribute``, called with attributes, tasks and options.
        scores: ``(n, |T|)`` or ``(n, |A|)``, in place of predictions; in 0-1 for "scores".
        over: "scores" or "ranks".

    Raises:
        ValueError: as ``measure``, or scores outside 0-1 for "scores".
    """
    check_choice(over, "over", OVER)
    table = numbers(scores, "scores")
    if over == "scores" and not (table.min() >= 0 and table.max() <= 1):
        raise ValueError(BAD_SCORES)
    soft = table if over == "scores" else (2 * rankdata(table, axis=0) - 1) / (2 * len(table))
    # A frame stays a frame, so that its rows and columns are matched by name.
    predictions = pd.DataFrame(soft, scores.index, scores.columns) if isinstance(scores, pd.DataFrame) else soft
    return measure(attributes, tasks, predictions=predictions, **options)


def _nearest(scores: Floats, positives: int) -> float:
    """The score above which the number of scores is nearest to ``positives``."""
    candidates = np.concatenate([np.unique(scores)[::-1], [-np.inf]])
    counts = len(scores) - np.searchsorted(np.sort(scores), candidates, side="right")
    return float(candidates[np.argmin(np.abs(counts - positives))])
