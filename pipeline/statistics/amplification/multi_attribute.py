"""Multi-attribute bias amplification (Zhao, Andrews & Xiang 2023): Multi-> in both directions, and Multi_MALS.

Which sets of tasks (the paper's "attributes") are looked at is decided in ``task_sets``; differences and counts are
those of ``amplification`` and ``mals``.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from pipeline.statistics.amplification.counts import Resamples, interval
from pipeline.statistics.amplification.differences import Direction, differences
from pipeline.statistics.amplification.directional import base_signs
from pipeline.statistics.amplification.mals import mals
from pipeline.statistics.amplification.signs import CODE, SignRule, Signs, mean_of_pairs
from pipeline.statistics.amplification.task_sets import checked_sets, present
from pipeline.statistics.checks import binary, names_of
from pipeline.statistics.inference import Floats, Units

if TYPE_CHECKING:
    import pandas as pd

PAIR_COLUMNS = ("direction", "attribute", "tasks", "size", "sign", "delta", "delta_low", "delta_high")


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

    def to_frame(self) -> "pd.DataFrame":
        """One row a pair, group after group: the columns of ``PAIR_COLUMNS``; tasks joined by " + "."""
        import pandas as pd

        columns = {
            "direction": self.direction,
            "attribute": np.repeat(self.attributes, len(self.sets)),
            "tasks": [" + ".join(names) for names in self.sets] * len(self.attributes),
            "size": [len(names) for names in self.sets] * len(self.attributes),
            "sign": self.sign.ravel(),
            "delta": self.delta.ravel(),
            "delta_low": self.delta_low.ravel(),
            "delta_high": self.delta_high.ravel(),
        }
        return pd.DataFrame(columns, columns=list(PAIR_COLUMNS))


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
    resamples: int = 1000,
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
        train: attributes and tasks of the training set, whose signs count in ``signed``.
        base: ``(|A|, |M|)`` signs instead; the test set's without either.
        rule, resamples, seed, level, clusters, attribute_names, task_names: as for ``attribute_to_task``.

    Raises:
        ValueError: shapes that do not fit, values that cannot be, no sets.
    """
    names = names_of(attributes, attribute_names, "attributes"), names_of(tasks, task_names, "tasks")
    a = binary(attributes, "attributes")
    t = binary(tasks, "tasks", rows=len(a))
    chosen = checked_sets(sets, t.shape[1])
    width = t.shape[1] if direction == "A->T" else a.shape[1]
    predicted = binary(predictions, "predictions", rows=len(a), columns=width)
    predicted = present(predicted, chosen) if direction == "A->T" else predicted
    drawn = Resamples.of(Units.of(len(a), clusters=clusters), resamples=resamples, seed=seed, level=level)
    sign, sign_drawn = base_signs(
        a, t, drawn, train=train, base=base, rule=rule, columns=lambda labels: present(labels, chosen)
    )
    pairs = differences(direction, a, present(t, chosen), predicted, drawn)
    oriented = sign * pairs.delta
    units = pairs.typical_units()
    low, high = interval(mean_of_pairs(np.abs(pairs.samples), rule)[None], level, units=units)
    signed_low, signed_high = interval(mean_of_pairs(sign_drawn * pairs.samples, rule)[None], level, units=units)
    delta_low, delta_high = interval(pairs.samples, level, units=pairs.units)
    return MultiAmplification(
        direction=direction,
        attributes=names[0],
        sets=tuple(tuple(names[1][task] for task in tasks_of) for tasks_of in chosen),
        value=float(mean_of_pairs(np.abs(pairs.delta), rule)),
        low=float(low[0]),
        high=float(high[0]),
        noise=_mean(mean_of_pairs(np.abs(pairs.samples - pairs.delta[:, :, None]), rule)),
        signed=float(mean_of_pairs(oriented, rule)),
        signed_low=float(signed_low[0]),
        signed_high=float(signed_high[0]),
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
    predicted_attributes: ArrayLike,
    predicted_tasks: ArrayLike,
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
        predicted_attributes, predicted_tasks: predictions on the test set, 0 and 1.
        sets: as ``task_sets`` gives them.
        rows_without_group: "left out", as the formula has it, or counted as the "first group", as the published code
            does (a row with several groups is then of the first of them).
        attribute_names, task_names: of the columns; a frame's own, or numbers, unless given.

    Raises:
        ValueError: shapes that do not fit, values that cannot be, no sets.
    """
    names = names_of(attributes, attribute_names, "attributes"), names_of(tasks, task_names, "tasks")
    t = binary(tasks, "tasks")
    a = binary(attributes, "attributes", rows=len(t))
    t_hat = binary(predicted_tasks, "predicted_tasks", columns=t.shape[1])
    a_hat = binary(predicted_attributes, "predicted_attributes", rows=len(t_hat), columns=a.shape[1])
    if rows_without_group == "first group":
        a, a_hat = (np.eye(a.shape[1], dtype=np.int8)[groups.argmax(axis=1)] for groups in (a, a_hat))
    chosen = checked_sets(sets, t.shape[1])
    found = mals(a, present(t, chosen), predicted_attributes=a_hat, predicted_tasks=present(t_hat, chosen), resamples=0)
    counted = found.base_count * len(names[0]) > found.base_count.sum(axis=0)
    nothing, unknown = np.full(found.delta.shape, np.nan), np.nan
    return MultiAmplification(
        direction="MALS",
        attributes=names[0],
        sets=tuple(tuple(names[1][task] for task in tasks_of) for tasks_of in chosen),
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


def _variance(delta: Floats) -> float:
    return float(np.nanvar(delta)) if (~np.isnan(delta)).any() else float("nan")


def _mean(samples: Floats) -> float:
    return float(np.nanmean(samples)) if (~np.isnan(samples)).any() else float("nan")
