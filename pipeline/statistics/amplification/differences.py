"""How far predicted conditional rates are from those of the labels, pair by pair of a group and a task, from counts.

What the differences come to, with signs, is ``amplification``'s and ``multi_attribute``'s.
"""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from pipeline.statistics.amplification.counts import Resamples, ratio, together
from pipeline.statistics.inference import Floats

Direction = Literal["A->T", "T->A"]


@dataclass(frozen=True, eq=False)
class Differences:
    """How far predicted conditional rates are from those of the labels.

    Attributes:
        rows: ``(|A|, |T|)`` rows of the event that is given.
        units: ``(|A|, |T|)`` rows or clusters that hold it.
        label_rate, predicted_rate: ``(|A|, |T|)`` P(T|A) and P(That|A), or P(A|T) and P(Ahat|T); NaN without rows.
        delta: ``(|A|, |T|)`` predicted - label, exactly 0 where the counts agree.
        samples: ``(|A|, |T|, R)`` delta in every resample.
    """

    rows: NDArray[np.int64]
    units: NDArray[np.int64]
    label_rate: Floats
    predicted_rate: Floats
    delta: Floats
    samples: Floats

    def typical_units(self) -> float:
        """The harmonic mean of the units of the pairs that have any: as few as the smallest make the mean unsure."""
        held = self.units[self.units > 0]
        return float(held.size / (1 / held).sum()) if held.size else 0.0


def differences(
    direction: Direction,
    attributes: NDArray[np.int8],
    tasks: NDArray[np.int8],
    predictions: NDArray[Any],
    drawn: Resamples,
) -> Differences:
    """The differences of all pairs, from counts; arrays as ``binary`` and ``shares`` give them."""
    given, axis, labels = (attributes, 1, tasks) if direction == "A->T" else (tasks, 0, attributes)
    rows = np.expand_dims(given.sum(axis=0, dtype=np.int64), axis)
    if direction == "A->T":
        left, right = attributes, predictions - labels
        predicted = together(attributes, predictions)
    else:
        left, right = predictions - labels, tasks
        predicted = together(predictions, tasks)
    pairs = together(attributes, tasks)
    rows_drawn = np.expand_dims(drawn.sums(given), axis)
    return Differences(
        rows=np.broadcast_to(rows, pairs.shape),
        units=np.broadcast_to(np.expand_dims(drawn.holding(given), axis), pairs.shape),
        label_rate=ratio(pairs, rows),
        predicted_rate=ratio(predicted, rows),
        delta=ratio(predicted - pairs, rows),
        samples=ratio(drawn.together(left, right), rows_drawn),
    )
