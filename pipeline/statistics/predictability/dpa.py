"""Directional predictability amplification, DPA (Tokas, Nair & Kerner, arXiv 2412.11060).

Attribute to task and task to attribute, each as the relative change of predictability. ``leakage`` is the metric
without a direction that it builds on.
"""

import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Categories, Codes, Floats, categories, check_rows
from pipeline.statistics.predictability.attackers import Attacker
from pipeline.statistics.predictability.label_noise import labels_to_change
from pipeline.statistics.predictability.measurement import (
    Flips,
    Method,
    Predictability,
    choose_flips,
    equalised,
    gather_notes,
    measure,
    nothing_drawn,
    repeats_needed,
)
from pipeline.statistics.predictability.over_examples import LEFT_OUT, Rows, over_examples, with_examples
from pipeline.statistics.repeats import repeats_table

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
        examples: the same of every resample of the examples; empty without any.
        units: examples, or clusters of them.
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
    examples: pd.DataFrame
    units: int
    notes: tuple[str, ...]

    def to_frame(self, *, level: float = 0.95) -> pd.DataFrame:
        """A row for each quantity: see ``repeats_table``; and the interval over examples."""
        table = repeats_table(self.repeats.drop(columns="repeat"), level=level)
        table = with_examples(table, self.examples, units=self.units, level=level)
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
    resamples: int = 0,
    clusters: Sequence[Hashable] | None = None,
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
        attacker, quality, equalise, flips, resamples, clusters: as for ``leakage``.
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
            resamples=resamples,
            clusters=clusters,
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
    resamples: int,
    clusters: Sequence[Hashable] | None,
) -> Dpa:
    counts = labels_to_change(truth, predicted, rule=equalise)
    chosen = choose_flips(method, flips, counts, name=name)
    given = Rows((truth, predicted), inputs.features(), groups.joint())
    rows, attacks = [], []
    for repeat in range(repeats_needed(method, counts, flips=chosen, repeats=repeats)):
        parts = _attacked(method, given, counts, flips=chosen, repeat=repeat)
        attacks += list(parts.values())
        rows.append({"repeat": repeat, **_figures(parts)})
    undefined = {UNDEFINED.format(value=row["model"]) for row in rows if math.isnan(row["dpa"])}
    notes, examples = (*gather_notes(attacks), *sorted(undefined)), pd.DataFrame()

    def figures(some: Rows, weights: Floats) -> dict[str, float]:
        wrong = labels_to_change(*some.columns, rule=equalise, weights=weights)
        return _figures(_attacked(method, some, wrong, flips=chosen, weights=weights))

    if nothing_drawn(method, counts, flips=chosen):
        examples = over_examples(figures, given, clusters=clusters, resamples=resamples, seed=method.seed)
    elif resamples:
        notes += (LEFT_OUT,)
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
        examples=examples,
        units=len(truth) if clusters is None else len(set(clusters)),
        notes=notes,
    )


def _attacked(
    method: Method, rows: Rows, counts: Codes, *, flips: Flips, repeat: int = 0, weights: Floats | None = None
) -> dict[str, Predictability]:
    """Both predictabilities of one repeat."""
    truth, predicted = rows.columns
    as_wrong = equalised(method, truth, counts, flips=flips, repeat=repeat, weights=weights)
    data = measure(
        method,
        rows.features[as_wrong.rows],
        as_wrong.labels,
        groups=rows.groups[as_wrong.rows],
        weights=as_wrong.weights,
        repeat=repeat,
    )
    model = measure(method, rows.features, predicted, groups=rows.groups, weights=weights, repeat=repeat)
    return {"data": data, "model": model}


def _figures(parts: dict[str, Predictability]) -> dict[str, float]:
    data, model = parts["data"].value, parts["model"].value
    return {"data": data, "model": model, "dpa": relative_change(model, data)}
