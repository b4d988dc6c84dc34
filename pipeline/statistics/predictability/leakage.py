"""Leakage and leakage amplification (Wang, Zhao, Yatskar, Chang & Ordonez 2019, "Balanced Datasets Are Not Enough").

How much of the attribute is given away by the task labels, and how much by the model's predictions of them. Leakage has
no direction; ``dpa`` has.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Codes, Floats, categories, check_rows, scores
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


@dataclass(frozen=True, eq=False)
class Leakage:
    """Leakage of labels and predictions.

    Attributes:
        data: lambda_D(a), of the labels made as wrong as the predictions; the mean over repeats.
        model: lambda_M, of the predictions; the mean over repeats.
        amplification: ``model - data``.
        unchanged: lambda_D, of the labels as they are.
        changed: how many labels of each column were changed to equalise.
        flips: "expected": from the counts to be expected; "drawn": the mean over random changes. Near a tie the latter
            is larger, for E[max] > max(E).
        repeats: one row each: repeat, data, model, amplification, unchanged.
        examples: the same of every resample of the examples; empty without any.
        units: examples, or clusters of them.
        notes: what one should know about the attacks.
    """

    data: float
    model: float
    amplification: float
    unchanged: float
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
        return table.assign(attacker=self.attacker, quality=self.quality, flips=self.flips)


def leakage(
    attributes: ArrayLike,
    tasks: ArrayLike,
    predictions: ArrayLike,
    *,
    outputs: ArrayLike | None = None,
    attacker: str | Attacker = "majority",
    quality: str = "accuracy",
    equalise: str = "accuracy",
    grid: Sequence[float] | None = None,
    flips: str | None = None,
    repeats: int = 5,
    held_out: float = 0.0,
    balance: str = "none",
    folded: bool = False,
    resamples: int = 0,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
) -> Leakage:
    """Leakage amplification: ``lambda_M - lambda_D(a)``, with ``lambda = Q(attacker guesses A)``.

    ``lambda_D(a)``: the labels are first made as wrong as the predictions (``equalise``). With the majority rule, the
    accuracy and all rows, ``lambda = sum_t max_a n(a, t) / n`` exactly.

    The paper and its code. Both: the attacker is asked about rows that it has not learnt (``held_out=0.5`` or so), five
    rounds. The code alone: rows are redrawn so that every group has as many (``balance="redraw"``), so chance is 0.5;
    the accuracy is folded (``folded=True``); lambda_M is measured on the model's raw outputs (``outputs``), lambda_D on
    binary labels, so that part of the gap is that difference and not bias; labels are changed until their macro-F1, not
    their accuracy, is the model's (``equalise="macro_f1"``, with a ``grid`` of shares). The attackers are
    "wang-coco" and "wang-imsitu". Tokas et al. restate leakage with the accuracy, which is the default here.

    Args:
        attributes: ``(n,)`` the group of each row.
        tasks: ``(n,)`` or ``(n, C)`` true labels.
        predictions: of the same shape: predicted labels.
        outputs: ``(n,)`` or ``(n, F)`` the model's scores, attacked in place of the predictions.
        attacker: "majority", "logistic", "network", "wang-coco", "wang-imsitu", or one of your own.
        quality: "accuracy", "f1", "inverse_mse", "inverse_bce".
        equalise, grid: see ``labels_to_change``.
        flips: "expected" or "drawn"; by default the former where it can be (one column, an attacker that takes weights,
            all rows).
        repeats: how often labels are changed, rows drawn and attackers started; 1 where none of it is random.
        held_out, balance, folded, seed: see ``predictability.Method``. Groups are balanced by the attribute.
        resamples: of the examples, for an interval that speaks of other examples of the same kind; the whole measure,
            equalising included, is taken anew in each. Only where nothing else is drawn, else a note says so.
        clusters: the cluster of each row (e.g. the person), resampled in the rows' place.

    Raises:
        ValueError: arrays or options that cannot be, named.
    """
    method = Method.of(attacker=attacker, quality=quality, held_out=held_out, balance=balance, folded=folded, seed=seed)
    (target,) = categories(attributes=attributes)
    truth, predicted = categories(tasks=tasks, predictions=predictions)
    given = {"attributes": target, "tasks": truth, "predictions": predicted}
    attacked = predicted.features()
    if outputs is not None:
        if method.attacker.name == "majority":
            raise ValueError("the attacker 'majority' counts labels and cannot read outputs: choose another")
        attacked = scores(outputs, "outputs")
    check_rows({**given, "outputs": attacked})
    about = Rows((target, truth, predicted), attacked, target.joint())
    counts = labels_to_change(truth, predicted, rule=equalise, grid=grid)
    chosen = choose_flips(method, flips, counts, name="tasks")
    rows, attacks = [], []
    for repeat in range(repeats_needed(method, counts, flips=chosen, repeats=repeats)):
        parts = _attacked(method, about, counts, flips=chosen, repeat=repeat)
        attacks += list(parts.values())
        rows.append({"repeat": repeat, **_figures(parts)})
    notes, examples = gather_notes(attacks), pd.DataFrame()

    def figures(some: Rows, weights: Floats) -> dict[str, float]:
        wrong = labels_to_change(*some.columns[1:], rule=equalise, grid=grid, weights=weights)
        return _figures(_attacked(method, some, wrong, flips=chosen, weights=weights))

    if nothing_drawn(method, counts, flips=chosen):
        examples = over_examples(figures, about, clusters=clusters, resamples=resamples, seed=seed)
    elif resamples:
        notes += (LEFT_OUT,)
    table = pd.DataFrame(rows, columns=["repeat", "data", "model", "amplification", "unchanged"])
    return Leakage(
        data=float(table["data"].mean()),
        model=float(table["model"].mean()),
        amplification=float(table["amplification"].mean()),
        unchanged=float(table["unchanged"].mean()),
        changed=tuple(int(count) for count in counts),
        flips=chosen,
        attacker=method.attacker.name,
        quality=method.quality.name,
        repeats=table,
        examples=examples,
        units=len(target) if clusters is None else len(set(clusters)),
        notes=notes,
    )


def _attacked(
    method: Method, rows: Rows, counts: Codes, *, flips: Flips, repeat: int = 0, weights: Floats | None = None
) -> dict[str, Predictability]:
    """The three leakages of one repeat."""
    target, truth, _ = rows.columns
    as_wrong = equalised(method, truth, counts, flips=flips, repeat=repeat, weights=weights)
    data = measure(
        method,
        as_wrong.labels.features(),
        target.take(as_wrong.rows),
        groups=rows.groups[as_wrong.rows],
        weights=as_wrong.weights,
        repeat=repeat,
    )
    model, unchanged = (
        measure(method, features, target, groups=rows.groups, weights=weights, repeat=repeat)
        for features in (rows.features, truth.features())
    )
    return {"data": data, "model": model, "unchanged": unchanged}


def _figures(parts: dict[str, Predictability]) -> dict[str, float]:
    values = {name: part.value for name, part in parts.items()}
    return values | {"amplification": values["model"] - values["data"]}
