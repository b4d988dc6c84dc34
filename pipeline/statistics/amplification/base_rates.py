"""Directional bias amplification against rates from elsewhere, such as labour statistics (Table 2 of the paper).

Against the labels of the test set it is in ``directional``.
"""

from dataclasses import replace
from typing import Unpack

import numpy as np
from numpy.typing import ArrayLike

from pipeline.statistics.amplification.counts import Direction, Drawing, LabelTable, Resamples
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
    nothing = np.zeros_like(np.asarray(predictions), dtype=np.int8)
    table = LabelTable.of(*((given, nothing) if direction == "A->T" else (nothing, given)))
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
    # With no label at hand the differences are the predicted rates themselves.
    found = differences(direction, table.attributes, table.tasks, predicted, drawn)
    delta, samples = found.predicted_rate - rates, found.samples - rates[:, :, None]
    pairs = replace(found, label_rate=rates, delta=delta, samples=samples)
    sign = signs_of_shares(base, weights=weights, rule=rule)
    return amplification_of(direction, names, pairs, (sign, sign[:, :, None]), drawn, rule=rule)


def _rates(base: Floats, weights: ArrayLike | None) -> Floats:
    """``(|A|, |T|)`` P(T_t | A_a) of the shares, by Bayes' rule."""
    sizes = np.ones(base.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
    joint = base * sizes
    total = joint.sum(axis=1, keepdims=True)
    rates: Floats = np.divide(joint, total, out=np.full(joint.shape, np.nan), where=total > 0)
    return rates
