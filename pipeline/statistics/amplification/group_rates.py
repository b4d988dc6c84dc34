"""Fairness metrics that stand beside amplification: true and false positive rates and accuracy by group.

All are reductions of the counts in ``counts``; what the labels' own bias has to do with them is ``amplification``'s.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import Resamples, interval, ratio
from pipeline.statistics.checks import binary, names_of, shares
from pipeline.statistics.inference import Floats, Units

if TYPE_CHECKING:
    import pandas as pd

RATES = ("tpr", "fpr", "accuracy")
UNKNOWN_GROUP = "between names {group!r}, which is not a group; there are {groups}"


@dataclass(frozen=True, eq=False)
class Rate:
    """Numbers with the ends of their intervals, of one shape; NaN where a group has nothing to divide by."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class GroupRates:
    """Rates of every group and task, and what they come to.

    Attributes:
        attributes: names of the groups.
        tasks: names of the tasks.
        between: the groups whose rates are compared, the first less the second.
        rates: "tpr" P(That | T, A), "fpr" P(That | not T, A), "accuracy" P(That = T | A): each ``(|A|, |T|)``.
        differences: the same names: ``(|T|,)`` first group less second.
        mean_group_accuracy: ``(|T|,)`` mean over groups of the accuracy.
        mean_subgroup_accuracy: ``(|T|,)`` mean over groups and over present and absent of the share that is right.
    """

    attributes: tuple[str, ...]
    tasks: tuple[str, ...]
    between: tuple[str, str]
    rates: dict[str, Rate]
    differences: dict[str, Rate]
    mean_group_accuracy: Rate
    mean_subgroup_accuracy: Rate

    def to_frame(self) -> "pd.DataFrame":
        """One row a number: columns metric, attribute (empty for a mean), task, value, low, high."""
        import pandas as pd

        first, second = self.between
        rows = [
            (metric, group, task, *ends)
            for metric in RATES
            for group, line in zip(self.attributes, _lines(self.rates[metric]), strict=True)
            for task, ends in zip(self.tasks, line, strict=True)
        ]
        summaries = [(f"{metric} difference", f"{first} - {second}", self.differences[metric]) for metric in RATES]
        summaries += [
            ("mean group accuracy", "", self.mean_group_accuracy),
            ("mean subgroup accuracy", "", self.mean_subgroup_accuracy),
        ]
        for metric, group, rate in summaries:
            found = zip(self.tasks, rate.value, rate.low, rate.high, strict=True)
            rows += [(metric, group, task, *ends) for task, *ends in found]
        return pd.DataFrame(rows, columns=["metric", "attribute", "task", "value", "low", "high"])


def group_rates(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike,
    between: tuple[str, str] | None = None,
    resamples: int = 1000,
    seed: int = 0,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
    attribute_names: Sequence[str] | None = None,
    task_names: Sequence[str] | None = None,
) -> GroupRates:
    """Rates of a classifier by group, with percentile bootstrap intervals over rows or clusters.

    Args:
        attributes: ``(n, |A|)`` labels, 0 and 1.
        tasks: ``(n, |T|)`` labels.
        predictions: ``(n, |T|)``, 0 and 1, or probabilities: then the rates are expected ones.
        between: names of the two groups compared; the first and the last unless given.
        resamples, seed, level, clusters, attribute_names, task_names: as for ``attribute_to_task``.

    Raises:
        ValueError: shapes that do not fit, values that cannot be, an unknown group.
    """
    groups, labels = names_of(attributes, attribute_names, "attributes"), names_of(tasks, task_names, "tasks")
    pair = (groups[0], groups[-1]) if between is None else between
    for group in pair:
        if group not in groups:
            raise ValueError(UNKNOWN_GROUP.format(group=group, groups=", ".join(map(repr, groups))))
    a = binary(attributes, "attributes")
    t = binary(tasks, "tasks", rows=len(a))
    predicted = shares(predictions, "predictions", rows=len(a), columns=t.shape[1])
    everything = Resamples(Units.of(len(a)), np.ones((1, len(a)), dtype=np.uint8), level)
    drawn = Resamples.of(Units.of(len(a), clusters=clusters), resamples=resamples, seed=seed, level=level)
    value, samples = (_numbers(a, t, predicted, source) for source in (everything, drawn))
    first, second = (groups.index(group) for group in pair)

    members = drawn.holding(a)

    def rate(name: str) -> Rate:
        units = members[:, None] if name in RATES else members.min()
        return Rate(value[name][..., 0], *interval(samples[name], level, units=units))

    def difference(name: str) -> Rate:
        seen, resampled = (numbers[name][first] - numbers[name][second] for numbers in (value, samples))
        return Rate(seen[..., 0], *interval(resampled, level, units=members[[first, second]].min()))

    return GroupRates(
        attributes=groups,
        tasks=labels,
        between=pair,
        rates={name: rate(name) for name in RATES},
        differences={name: difference(name) for name in RATES},
        mean_group_accuracy=rate("group"),
        mean_subgroup_accuracy=rate("subgroup"),
    )


def _numbers(
    attributes: NDArray[np.int8], tasks: NDArray[np.int8], predictions: NDArray[Any], drawn: Resamples
) -> dict[str, Floats]:
    """Every rate ``(|A|, |T|, R)`` and mean ``(|T|, R)`` from true and false positives."""
    members = drawn.sums(attributes)[:, None]
    positives, called = drawn.together(attributes, tasks), drawn.together(attributes, predictions)
    true_positives = drawn.together(attributes, tasks * predictions)
    false_positives, negatives = called - true_positives, members - positives
    tpr, fpr = ratio(true_positives, positives), ratio(false_positives, negatives)
    accuracy = ratio(negatives - false_positives + true_positives, members)
    return {
        "tpr": tpr,
        "fpr": fpr,
        "accuracy": accuracy,
        "group": accuracy.mean(axis=0),
        "subgroup": ((tpr + 1 - fpr) / 2).mean(axis=0),
    }


def _lines(rate: Rate) -> list[list[tuple[float, ...]]]:
    return [list(zip(*line, strict=True)) for line in zip(rate.value, rate.low, rate.high, strict=True)]
