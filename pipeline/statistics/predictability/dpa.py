"""Directional predictability amplification, DPA (Tokas, Nair & Kerner, arXiv 2412.11060).

The relative change of predictability, from attribute to task and from task to attribute.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.amplification.counts import Direction
from pipeline.statistics.arrays import Categories, aligned, categories, check_rows
from pipeline.statistics.predictability.attacks import Attack, AttackComparison, Attacked, Plan

NOTHING_PREDICTED = "give predictions (for A->T), predicted_attributes (for T->A), or both"
UNDEFINED = "both predictabilities are {value:g}, so their relative change is not defined"


@dataclass(frozen=True, eq=False)
class Dpa(Attacked):
    """DPA in one direction, "A->T" or "T->A"; ``repeats`` has the columns data (Psi_D), model (Psi_M), dpa."""

    direction: Direction

    @property
    def dpa(self) -> float:
        """Mean over repeats of ``(Psi_M - Psi_D) / (Psi_M + Psi_D)``; NaN if it is undefined in a repeat."""
        return self.mean("dpa")

    def to_frame(self) -> pd.DataFrame:
        """A row per quantity, with the direction."""
        table = super().to_frame()
        table.insert(0, "direction", self.direction)
        return table


def dpa(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike | None = None,
    predicted_attributes: ArrayLike | None = None,
    repeats: int = 20,
    **options: Any,
) -> tuple[Dpa, ...]:
    """DPA in each direction with predictions: A->T for predicted tasks, T->A for predicted attributes.

    A->T: ``Psi_D = Q(f(A), T)``, ``Psi_M = Q(f'(A), That)``; T->A: ``Psi_D = Q(f(T), A)``, ``Psi_M = Q(f'(T), Ahat)``.
    The inputs of the attackers are the true labels in both. Random errors are first added to T in Psi_D (in T->A: to
    A), as many as there are wrong predictions. Every attack trains a new attacker; in the authors' code f' continues
    from the trained f, and the same f is used in all repeats.

    DPA lies in -1 to 1 and is positive if the predictions are more predictable than the labels. With the accuracy the
    range is narrower, because the majority class is always guessed correctly: for two categories Psi is in 0.5-1, and
    |DPA| is at most 1/3. The paper tests the attacker on its training rows (``held_out=0``) with the attacker
    "network". The default quality of its code is "inverse_mse".

    Args:
        attributes: ``(n,)`` or ``(n, C)`` true groups; several columns are predicted separately and the quality is
            averaged.
        tasks: ``(n,)`` or ``(n, C)`` true labels.
        predictions, predicted_attributes: of the same shape as tasks and attributes.
        repeats: number of draws of label errors, rows and attackers; 1 if nothing is random.
        **options: the others of ``attacks.Plan``.

    Raises:
        ValueError: invalid arrays or options, which the message names, or no predictions.
    """
    (groups,) = categories(attributes=attributes)
    ordered = aligned(tasks, attributes, "tasks", to="attributes")
    (labels,) = categories(tasks=ordered)
    check_rows({"attributes": groups, "tasks": labels})
    todo: list[tuple[Direction, Categories, dict[str, ArrayLike]]] = []
    if predictions is not None:
        todo.append(("A->T", groups, {"tasks": ordered, "predictions": predictions}))
    if predicted_attributes is not None:
        todo.append(("T->A", labels, {"attributes": attributes, "predicted_attributes": predicted_attributes}))
    if not todo:
        raise ValueError(NOTHING_PREDICTED)
    results = []
    for direction, inputs, both in todo:
        truth, predicted = categories(**both)
        plan = Plan(repeats=repeats, **options)
        method, notes = plan.method(inputs.features())
        attacks = Attack("data", inputs, truth, noisy="target"), Attack("model", inputs, predicted)
        labelled = truth, predicted, groups, next(iter(both))
        found = AttackComparison(plan, method, attacks, "dpa", relative_change, *labelled).run(notes)
        undefined = found["repeats"].loc[found["repeats"]["dpa"].isna(), "model"].unique()
        found["notes"] += tuple(UNDEFINED.format(value=value) for value in undefined)
        results.append(Dpa(**found, direction=direction))
    return tuple(results)


def relative_change(model: Any, data: Any) -> Any:
    """``(model - data) / (model + data)``, or its limit if one is infinite; NaN if both are 0 or both infinite."""
    model, data = np.asarray(model, dtype=np.float64), np.asarray(data, dtype=np.float64)
    infinite, total = np.isinf(model) | np.isinf(data), model + data
    finite = np.where(infinite, 1.0, model), np.where(infinite, 1.0, data)
    safe = np.where(infinite | (total <= 0), 1.0, total)
    change = np.where(total > 0, (finite[0] - finite[1]) / safe, np.nan)
    limit = np.where(np.isinf(model) & np.isinf(data), np.nan, np.where(np.isinf(model), 1.0, -1.0))
    return np.where(infinite, limit, change)[()]
