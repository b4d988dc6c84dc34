"""Directional bias amplification against external rates, such as labour statistics (Table 2 of the paper).

Against the labels of the test set, see ``directional``.
"""

from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from pipeline.statistics.amplification.counts import BootstrapOptions, Direction, LabelTable, Resamples, ratio
from pipeline.statistics.amplification.directional import Amplification, amplification_of, differences
from pipeline.statistics.amplification.signs import CODE, SignRule, signs_of_shares
from pipeline.statistics.arrays import Floats, names_of, shares

BAD_SHAPE = "shares must be {groups} groups by {tasks} tasks, as the labels and predictions are, not {shape}"


def amplification_of_rates(
    direction: Direction,
    given: ArrayLike,
    *,
    predictions: ArrayLike,
    shares_of_groups: ArrayLike,
    weights: ArrayLike | None = None,
    rule: SignRule = CODE,
    **options: Unpack[BootstrapOptions],
) -> Amplification:
    """BiasAmp-> for rows without labels of the predicted variable, given external shares of the groups in each task.

    T->A: ``D_at = P(Ahat_a | T_t) - P(A_a | T_t)``, the first from the rows, the second the external share. A->T:
    ``D_at = P(That_t | A_a) - P(T_t | A_a)`` with ``P(T_t | A_a)`` proportional to weight times share. The signs are
    those of the same shares (``signs_of_shares``). The external rates are treated as exact; the interval is over rows.

    Args:
        direction: "T->A" or "A->T".
        given: ``(n, |T|)`` tasks, or ``(n, |A|)`` groups, of each row: 0 and 1.
        predictions: ``(n, |A|)`` of the groups, or ``(n, |T|)`` of the tasks: 0 and 1, or probabilities.
        shares_of_groups: ``(|A|, |T|)`` P(A_a | T_t) in 0-1.
        weights: ``(|T|,)`` frequency of each task, such as its number of employees; equal by default.
        rule: for ties and undefined pairs.
        **options: resamples, seed, level, clusters, attribute_names, task_names: see ``BootstrapOptions``.

    Raises:
        ValueError: shapes that do not match, or values out of range.

    Source: Wang & Russakovsky 2021, Table 2, and the published code's ``fit_sentences.py``.
    """
    base = shares(shares_of_groups, "shares").astype(np.float64)
    unlabelled = np.zeros_like(np.asarray(predictions), dtype=np.int8)
    table = LabelTable.of(*((given, unlabelled) if direction == "A->T" else (unlabelled, given)))
    if base.shape != (table.attributes.shape[1], table.tasks.shape[1]):
        wanted = {"groups": table.attributes.shape[1], "tasks": table.tasks.shape[1]}
        raise ValueError(BAD_SHAPE.format(shape=base.shape, **wanted))
    groups, tasks = (given, predictions) if direction == "A->T" else (predictions, given)
    names = (
        names_of(groups, options.get("attribute_names"), "groups"),
        names_of(tasks, options.get("task_names"), "tasks"),
    )
    drawn = Resamples.of_rows(len(table.tasks), options)
    predicted = shares(predictions, "predictions", rows=len(table.tasks))
    rates = _rates(base, weights) if direction == "A->T" else base
    # Without labels the differences are the predicted rates themselves.
    found = differences(direction, table.attributes, table.tasks, predicted, drawn)
    delta, samples = found.predicted_rate - rates, found.samples - rates[:, :, None]
    pairs = replace(found, label_rate=rates, delta=delta, samples=samples)
    sign = signs_of_shares(base, weights=weights, rule=rule)
    return amplification_of(direction, names, pairs, (sign, sign[:, :, None]), drawn, rule=rule)


def _rates(base: Floats, weights: ArrayLike | None) -> Floats:
    """P(T_t | A_a), ``(|A|, |T|)``, from the shares P(A_a | T_t) by Bayes' rule."""
    joint = base if weights is None else base * np.asarray(weights, dtype=np.float64)
    return ratio(joint, joint.sum(axis=1, keepdims=True))
