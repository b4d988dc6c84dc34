"""Multi-attribute bias amplification (Zhao, Andrews & Xiang 2023): Multi-> in both directions, and Multi_MALS.

Which sets of tasks (the paper's "attributes") are looked at is decided in ``task_sets``; differences and counts are
those of ``directional`` and ``mals``.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.amplification.counts import DIRECTIONS, Direction, LabelTable, Resamples, pairs_frame
from pipeline.statistics.amplification.directional import base_signs, differences, interval_of_mean
from pipeline.statistics.amplification.mals import PREDICTIONS, mals
from pipeline.statistics.amplification.signs import CODE, SignRule, Signs, mean_of_pairs
from pipeline.statistics.amplification.task_sets import checked_sets, present
from pipeline.statistics.arrays import Floats, binary, check_choice
from pipeline.statistics.inference import RESAMPLES, Units, interval

PAIR_COLUMNS = ("direction", "attribute", "tasks", "size", "sign", "delta", "delta_low", "delta_high")
WITHOUT_GROUP = ("left out", "first group")


@dataclass(frozen=True, eq=False)
class MultiAmplification:
    """Multi-attribute amplification as a whole and by pair of a group and a set of tasks.

    Attributes:
        direction: "A->T" (the paper's G->M), "T->A" (M->G) or "MALS".
        attributes: names of the groups.
        sets: names of the tasks of each set.
        value: mean of |delta|; of Multi_MALS their sum over |M|. Never negative, so it cannot show a reduction.
        low, high: ends of the percentile interval of ``value``.
        noise: the value that sampling noise alone would give, the mean over resamples of |delta drawn - delta|: |.|
            adds noise up instead of averaging it out, so a ``value`` that is hardly larger is no evidence of anything.
        signed: mean of sign times delta (of Multi_MALS the plain sum over |M|): the published code's other variant.
        signed_low, signed_high: ends of its interval.
        variance: of delta over all pairs, ddof 0, signs not applied (the published code).
        oriented_variance: of sign times delta, ddof 0 (as the paper's Delta is defined).
        sign: ``(|A|, |M|)`` of the base; of Multi_MALS 1 where the pair counts.
        delta: ``(|A|, |M|)``; NaN where nothing is given, 0 where Multi_MALS leaves the pair out.
        delta_low, delta_high: ``(|A|, |M|)`` ends of each delta's interval; NaN for Multi_MALS.
    """

    direction: Direction | Literal["MALS"]
    attributes: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    value: float
    low: float
    high: float
    noise: float
    signed: float
    signed_low: float
    signed_high: float
    variance: float
    oriented_variance: float
    sign: Signs
    delta: Floats
    delta_low: Floats
    delta_high: Floats

    def to_frame(self) -> pd.DataFrame:
        """One row a pair, group after group: the columns of ``PAIR_COLUMNS``; tasks joined by " + "."""
        columns = {name: getattr(self, name) for name in ("direction", "sign", "delta", "delta_low", "delta_high")}
        columns["size"] = [len(names) for names in self.sets] * len(self.attributes)
        frame = pairs_frame(self.attributes, [" + ".join(names) for names in self.sets], columns)
        return frame.rename(columns={"task": "tasks"})[list(PAIR_COLUMNS)]


def multi_amplification(
    direction: Direction,
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike,
    sets: Sequence[Sequence[int]],
    train: tuple[ArrayLike, ArrayLike] | None = None,
    base: ArrayLike | None = None,
    rule: SignRule = CODE,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
    attribute_names: Sequence[str] | None = None,
    task_names: Sequence[str] | None = None,
) -> MultiAmplification:
    """Multi->: ``1/(|G||M|) sum |Delta_gm|`` over groups g and sets of tasks m.

    "A->T" (G->M): Delta = P(mhat | g) - P(m | g). "T->A" (M->G): Delta = P(ghat | m) - P(g | m). Source: Zhao,
    Andrews & Xiang 2023. Groups are meant to be disjoint. A pair where nothing is given is NaN and leaves the mean.

    Args:
        direction: "A->T" or "T->A".
        attributes, tasks: labels of the test set, as for ``attribute_to_task``.
        predictions: of the tasks ``(n, |T|)`` or of the groups ``(n, |A|)``, 0 and 1.
        sets: as ``task_sets`` gives them.
        train: attributes and tasks of the training set; their signs count in ``signed``.
        base: ``(|A|, |M|)`` signs instead; the test set's without either.
        rule, resamples, seed, level, clusters, attribute_names, task_names: as for ``attribute_to_task``.

    Raises:
        ValueError: another direction, shapes that do not fit, values that cannot be, no sets.
    """
    check_choice(direction, "direction", DIRECTIONS)
    table = LabelTable.of(attributes, tasks, attribute_names=attribute_names, task_names=task_names)
    chosen = checked_sets(sets, len(table.task_names))
    predicted = binary(table.predicted(predictions, direction), "predictions")
    predicted = present(predicted, chosen) if direction == "A->T" else predicted
    drawn = Resamples.of(Units.of(len(table.tasks), clusters=clusters), resamples=resamples, seed=seed, level=level)
    sign, sign_drawn = base_signs(
        table, drawn, train=train, base=base, rule=rule, columns=lambda labels: present(labels, chosen)
    )
    pairs = differences(direction, table.attributes, present(table.tasks, chosen), predicted, drawn)
    oriented = sign * pairs.delta
    low, high = interval_of_mean(np.abs(pairs.samples), pairs, drawn, rule)
    signed_low, signed_high = interval_of_mean(sign_drawn * pairs.samples, pairs, drawn, rule)
    delta_low, delta_high = interval(pairs.samples, level, units=pairs.units)
    noise = mean_of_pairs(np.abs(pairs.samples - pairs.delta[:, :, None]), rule)
    return MultiAmplification(
        direction=direction,
        attributes=table.attribute_names,
        sets=_named(chosen, table.task_names),
        value=float(mean_of_pairs(np.abs(pairs.delta), rule)),
        low=low,
        high=high,
        noise=float(np.nanmean(noise)) if (~np.isnan(noise)).any() else float("nan"),
        signed=float(mean_of_pairs(oriented, rule)),
        signed_low=signed_low,
        signed_high=signed_high,
        variance=_variance(pairs.delta),
        oriented_variance=_variance(oriented),
        sign=sign,
        delta=pairs.delta,
        delta_low=delta_low,
        delta_high=delta_high,
    )


def multi_mals(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    attribute_predictions: ArrayLike,
    task_predictions: ArrayLike,
    sets: Sequence[Sequence[int]],
    rows_without_group: Literal["left out", "first group"] = "left out",
    attribute_names: Sequence[str] | None = None,
    task_names: Sequence[str] | None = None,
) -> MultiAmplification:
    """Multi_MALS: ``1/|M| sum |1[bias_train(m,g) > 1/|G|] (bias_pred(m,g) - bias_train(m,g))|``, without intervals.

    ``bias(m,g) = co(m,g) / sum over g' of co(m,g')``. Source: Zhao, Andrews & Xiang 2023. Their published code compares
    with 1 / (number of groups - 1) as it is called, which for two groups no share exceeds: its value is 0 for any data.

    Args:
        attributes, tasks: labels of the base, as for ``mals``.
        attribute_predictions, task_predictions: predictions on the test set, 0 and 1.
        sets: as ``task_sets`` gives them.
        rows_without_group: "left out", as the formula has it, or counted as the "first group", as the published code
            does (a row with several groups is then of the first of them).
        attribute_names, task_names: of the columns; a frame's own, or numbers, unless given.

    Raises:
        ValueError: shapes that do not fit, values that cannot be, no sets, another word for ``rows_without_group``.
    """
    check_choice(rows_without_group, "rows_without_group", WITHOUT_GROUP)
    table = LabelTable.of(attributes, tasks, attribute_names=attribute_names, task_names=task_names)
    a, (a_hat, t_hat) = table.attributes, table.other(attribute_predictions, task_predictions, names=PREDICTIONS)
    if rows_without_group == "first group":
        a, a_hat = (np.eye(a.shape[1], dtype=np.int8)[groups.argmax(axis=1)] for groups in (a, a_hat))
    chosen = checked_sets(sets, len(table.task_names))
    found = mals(
        a,
        present(table.tasks, chosen),
        attribute_predictions=a_hat,
        task_predictions=present(t_hat, chosen),
        resamples=0,
    )
    counted = found.base_count * a.shape[1] > found.base_count.sum(axis=0)
    nothing, unknown = np.full(found.delta.shape, np.nan), float("nan")
    return MultiAmplification(
        direction="MALS",
        attributes=table.attribute_names,
        sets=_named(chosen, table.task_names),
        value=float(np.nansum(np.abs(found.delta)) / len(chosen)),
        low=unknown,
        high=unknown,
        noise=unknown,
        signed=found.value,
        signed_low=unknown,
        signed_high=unknown,
        variance=_variance(found.delta),
        oriented_variance=_variance(found.delta),
        sign=counted.astype(np.int8),
        delta=found.delta,
        delta_low=nothing,
        delta_high=nothing,
    )


def _named(sets: Sequence[Sequence[int]], names: Sequence[str]) -> tuple[tuple[str, ...], ...]:
    return tuple(tuple(names[task] for task in tasks_of) for tasks_of in sets)


def _variance(delta: Floats) -> float:
    return float(np.nanvar(delta)) if (~np.isnan(delta)).any() else float("nan")
