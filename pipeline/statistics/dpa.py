"""Directional predictability amplification, DPA (Tokas, Nair & Kerner, arXiv 2412.11060).

Attribute to task and task to attribute, each as the relative change of predictability. ``leakage`` is the metric
without a direction that it builds on.
"""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.attackers import Attacker
from pipeline.statistics.categories import Categories, categories, check_rows
from pipeline.statistics.equalising import labels_to_change
from pipeline.statistics.predictability import (
    Flips,
    Method,
    choose_flips,
    equalised,
    gather_notes,
    measure,
    repeats_needed,
)
from pipeline.statistics.repeats_table import repeats_table

Direction = Literal["A→T", "T→A"]
UNDEFINED = "both predictabilities are {value:g}, so their relative change is not defined"


@dataclass(frozen=True, eq=False)
class Dpa:
    """DPA in one direction.

    Attributes:
        direction: "A→T" or "T→A".
        data: Psi_D, how well the labels, made as wrong as the predictions, are guessed; the mean over repeats.
        model: Psi_M, how well the predictions are guessed; the mean over repeats.
        dpa: ``(Psi_M - Psi_D) / (Psi_M + Psi_D)`` of each repeat, then the mean; NaN where a repeat has none.
        changed: how many labels of each column were changed to equalise.
        flips: "expected": from the counts to be expected; "drawn": the mean over random changes. Near a tie the latter
            gives a larger Psi_D, for E[max] > max(E), and a smaller DPA.
        repeats: one row each: repeat, data, model, dpa.
        notes: what one should know about the attacks.
    """

    direction: Direction
    data: float
    model: float
    dpa: float
    changed: tuple[int, ...]
    flips: Flips
    attacker: str
    quality: str
    repeats: pd.DataFrame
    notes: tuple[str, ...]

    def to_frame(self, *, level: float = 0.95) -> pd.DataFrame:
        """A row for each quantity: see ``repeats_table``."""
        table = repeats_table(self.repeats.drop(columns="repeat"), level=level)
        table.insert(0, "direction", self.direction)
        return table.assign(attacker=self.attacker, quality=self.quality, flips=self.flips)


def dpa(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    task_predictions: ArrayLike | None = None,
    attribute_predictions: ArrayLike | None = None,
    attacker: str | Attacker = "majority",
    quality: str = "accuracy",
    equalise: str = "accuracy",
    flips: str | None = None,
    repeats: int = 20,
    held_out: float = 0.0,
    balance: str = "none",
    seed: int = 0,
) -> tuple[Dpa, ...]:
    """DPA in each direction whose predictions are given: A→T by the tasks', T→A by the attributes'.

    A→T: ``Psi_D = Q(f(A), T)``, ``Psi_M = Q(f'(A), That)``; T→A: ``Psi_D = Q(f(T), A)``, ``Psi_M = Q(f'(T), Ahat)``.
    What the attackers are given is the truth in both. T in Psi_D (A, in T→A) is first made as wrong as the predictions,
    by changing as many labels at random as there are wrong predictions. Every attack starts afresh; in the authors'
    code f' goes on from the trained f, and one f serves all repeats.

    In -1..1, and above 0 where predictions give away more than labels. With the accuracy the bound is narrower, since a
    majority is guessed rightly in any case: for two categories Psi is in 0.5-1, and |DPA| at most 1/3.

    The paper asks the attacker about the rows it has learnt (``held_out=0``) and has as attacker "network". Its code's
    default quality is "inverse_mse".

    Args:
        attributes: ``(n,)`` or ``(n, C)`` true groups; of several columns each is guessed by itself, and the quality
            averaged.
        tasks: ``(n,)`` or ``(n, C)`` true labels.
        task_predictions: of the tasks' shape.
        attribute_predictions: of the attributes' shape.
        repeats: how often labels are changed, rows drawn and attackers started; 1 where none of it is random.
        attacker, quality, equalise, flips: as for ``leakage``.
        held_out, balance, seed: see ``predictability.Method``. Groups are balanced by the attribute.

    Raises:
        ValueError: arrays or options that cannot be, named; neither predictions.
    """
    method = Method.of(attacker=attacker, quality=quality, held_out=held_out, balance=balance, seed=seed)
    (groups,), (given_tasks,) = categories(attributes=attributes), categories(tasks=tasks)
    check_rows({"attributes": groups, "tasks": given_tasks})
    results = []
    if task_predictions is not None:
        truth, predicted = categories(tasks=tasks, task_predictions=task_predictions)
        results.append(("A→T", "tasks", groups, truth, predicted))
    if attribute_predictions is not None:
        truth, predicted = categories(attributes=attributes, attribute_predictions=attribute_predictions)
        results.append(("T→A", "attributes", given_tasks, truth, predicted))
    if not results:
        raise ValueError("give task_predictions (for A→T), attribute_predictions (for T→A), or both")
    return tuple(
        _directed(
            direction,  # type: ignore[arg-type]
            inputs,
            truth,
            predicted,
            name=name,
            method=method,
            groups=groups,
            equalise=equalise,
            flips=flips,
            repeats=repeats,
        )
        for direction, name, inputs, truth, predicted in results
    )


def relative_change(model: float, data: float) -> float:
    """``(model - data) / (model + data)``, its limit where one is infinite; NaN where both are 0 or both infinite."""
    if math.isinf(model) or math.isinf(data):
        return float("nan") if model == data else float(np.sign(model - data))
    return (model - data) / (model + data) if model + data > 0 else float("nan")


def _directed(
    direction: Direction,
    inputs: Categories,
    truth: Categories,
    predicted: Categories,
    *,
    name: str,
    method: Method,
    groups: Categories,
    equalise: str,
    flips: str | None,
    repeats: int,
) -> Dpa:
    counts = labels_to_change(truth, predicted, rule=equalise)
    chosen = choose_flips(method, flips, counts, name=name)
    features, balanced = inputs.features(), groups.joint()
    rows, attacks, undefined = [], [], set()
    for repeat in range(repeats_needed(method, counts, flips=chosen, repeats=repeats)):
        as_wrong = equalised(method, truth, counts, flips=chosen, repeat=repeat)
        data = measure(
            method,
            features[as_wrong.rows],
            as_wrong.labels,
            groups=balanced[as_wrong.rows],
            weights=as_wrong.weights,
            repeat=repeat,
        )
        model = measure(method, features, predicted, groups=balanced, repeat=repeat)
        attacks += [data, model]
        change = relative_change(model.value, data.value)
        if math.isnan(change):
            undefined.add(UNDEFINED.format(value=model.value))
        rows.append({"repeat": repeat, "data": data.value, "model": model.value, "dpa": change})
    table = pd.DataFrame(rows, columns=["repeat", "data", "model", "dpa"])
    return Dpa(
        direction=direction,
        data=float(table["data"].mean()),
        model=float(table["model"].mean()),
        dpa=float(table["dpa"].mean(skipna=False)),
        changed=tuple(int(count) for count in counts),
        flips=chosen,
        attacker=method.attacker.name,
        quality=method.quality.name,
        repeats=table,
        notes=(*gather_notes(attacks), *sorted(undefined)),
    )
