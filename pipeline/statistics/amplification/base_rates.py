"""Directional bias amplification against rates from elsewhere, such as labour statistics (Table 2 of the paper).

Against the labels of the test set it is in ``directional``.
"""

from dataclasses import replace
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike

from pipeline.statistics.amplification.counts import Direction, Drawing, LabelTable, Resamples
from pipeline.statistics.amplification.directional import (
    DEFINED,
    NO_ROWS_OF_GROUP,
    NO_ROWS_OF_TASK,
    TIE,
    Amplification,
    differences,
    interval_of_mean,
)
from pipeline.statistics.amplification.signs import CODE, SignRule, mean_of_pairs, signs_of_shares
from pipeline.statistics.arrays import Floats, shares
from pipeline.statistics.inference import interval

BAD_SHAPE = "shares must be {groups} groups by {tasks} tasks, as the labels and predictions are, not {shape}"


def amplification_of_rates(
    direction: Direction,
    given: ArrayLike,
    *,
    predictions: ArrayLike,
    shares_of_groups: ArrayLike,
    weights: ArrayLike | None = None,
    rule: SignRule = CODE,
    **options: Unpack[Drawing],
) -> Amplification:
    """BiasAmp-> where no label says who has which task, but rates from elsewhere do.

    T->A: ``D_at = P(Ahat_a | T_t) - P(A_a | T_t)``, the first from the rows, the second the share from elsewhere; A->T:
    ``D_at = P(That_t | A_a) - P(T_t | A_a)`` with ``P(T_t | A_a)`` in proportion to weight times share. The signs are
    those of the same shares (``signs_of_shares``). The rates from elsewhere count as known; the interval is the rows'.

    Args:
        direction: "T->A" or "A->T".
        given: ``(n, |T|)`` tasks, or ``(n, |A|)`` groups, of each row: 0 and 1.
        predictions: ``(n, |A|)`` of the groups, or ``(n, |T|)`` of the tasks: 0 and 1, or probabilities.
        shares_of_groups: ``(|A|, |T|)`` P(A_a | T_t) in 0-1.
        weights: ``(|T|,)`` how frequent each task is, such as employees; equally unless given.
        rule: for ties and undefined pairs.
        **options: resamples, seed, level, clusters, attribute_names, task_names: see ``Drawing``.

    Raises:
        ValueError: shapes that do not fit, or values that cannot be.

    Source: Wang & Russakovsky 2021, Table 2, and the published code's ``fit_sentences.py``.
    """
    base = shares(shares_of_groups, "shares").astype(np.float64)
    groups, tasks = (given, predictions) if direction == "A->T" else (predictions, given)
    nothing = np.zeros_like(np.asarray(predictions), dtype=np.int8)
    names = {"attribute_names": options.get("attribute_names"), "task_names": options.get("task_names")}
    table = LabelTable.of(*((given, nothing) if direction == "A->T" else (nothing, given)))
    labelled = (_names(groups, names["attribute_names"]), _names(tasks, names["task_names"]))
    if base.shape != (table.attributes.shape[1], table.tasks.shape[1]):
        wanted = {"groups": table.attributes.shape[1], "tasks": table.tasks.shape[1]}
        raise ValueError(BAD_SHAPE.format(shape=base.shape, **wanted))
    drawn = Resamples.of_rows(len(table.tasks), options)
    predicted = shares(predictions, "predictions", rows=len(table.tasks))
    rates = _rates(base, weights) if direction == "A->T" else base
    # With no label at hand the differences are the predicted rates themselves.
    found = differences(direction, table.attributes, table.tasks, predicted, drawn)
    pairs = replace(
        found, label_rate=rates, delta=found.predicted_rate - rates, samples=found.samples - rates[:, :, None]
    )
    sign = signs_of_shares(base, weights=weights, rule=rule)
    undefined = np.isnan(pairs.delta)
    low, high = interval_of_mean(sign[:, :, None] * pairs.samples, pairs, drawn, rule)
    delta_low, delta_high = interval(pairs.samples, drawn.level, units=pairs.units)
    missing = NO_ROWS_OF_GROUP if direction == "A->T" else NO_ROWS_OF_TASK
    return Amplification(
        direction=direction,
        attributes=labelled[0],
        tasks=labelled[1],
        value=float(mean_of_pairs(sign * pairs.delta, rule)),
        low=low,
        high=high,
        either_low=low,
        either_high=high,
        sign=sign,
        sign_support=np.ones(sign.shape),
        unsure=np.zeros(sign.shape, dtype=bool),
        differences=pairs,
        delta_low=delta_low,
        delta_high=delta_high,
        reason=np.where(undefined, missing, np.where(sign == 0, TIE, DEFINED)),
    )


def _rates(base: Floats, weights: ArrayLike | None) -> Floats:
    """``(|A|, |T|)`` P(T_t | A_a) of the shares, by Bayes' rule."""
    sizes = np.ones(base.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    joint = base * sizes
    total = joint.sum(axis=1, keepdims=True)
    rates: Floats = np.divide(joint, total, out=np.full(joint.shape, np.nan), where=total > 0)
    return rates


def _names(values: Any, given: Any) -> tuple[str, ...]:
    columns = given if given is not None else getattr(values, "columns", range(np.shape(values)[1]))
    return tuple(str(name) for name in columns)
