"""Leakage and leakage amplification (Wang, Zhao, Yatskar, Chang & Ordonez 2019, "Balanced Datasets Are Not Enough").

How much of the attribute is given away by the task labels, and how much by the model's predictions of them. Leakage has
no direction; ``dpa`` has.
"""

from dataclasses import dataclass, replace
from operator import sub
from typing import Any

from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Categories, Floats, aligned, categories, check_rows, scores
from pipeline.statistics.predictability.attacks import Attack, AttackComparison, Attacked, Plan
from pipeline.statistics.predictability.measurement import AUTO

READS_LABELS = "the attacker 'majority' counts labels and cannot read outputs: choose another"


@dataclass(frozen=True, eq=False)
class Leakage(Attacked):
    """Leakage of labels and predictions; ``repeats`` has the columns data, model, unchanged, amplification."""

    @property
    def amplification(self) -> float:
        """``model - data``: lambda_M - lambda_D(a)."""
        return self.mean("amplification")

    @property
    def unchanged(self) -> float:
        """lambda_D, of the labels as they are."""
        return self.mean("unchanged")


def leakage(
    attributes: ArrayLike,
    tasks: ArrayLike,
    predictions: ArrayLike,
    *,
    outputs: ArrayLike | None = None,
    **options: Any,
) -> Leakage:
    """Leakage amplification: ``lambda_M - lambda_D(a)``, with ``lambda = Q(attacker guesses A)``.

    ``lambda_D(a)``: the labels are first made as wrong as the predictions (``equalise``). With the majority rule, the
    accuracy and all rows, ``lambda = sum_t max_a n(a, t) / n`` exactly.

    The paper and its code. Both: the attacker is tested on rows that it has not learnt (``held_out=0.5`` or so), five
    rounds. The code alone: rows are redrawn so that every group has as many (``balance="redraw"``), so chance is 0.5;
    the accuracy is folded (``folded=True``); lambda_M is measured on the model's raw outputs (``outputs``), lambda_D on
    binary labels, so that part of the gap is that difference and not bias; labels are changed until their macro-F1, not
    their accuracy, is the model's (``equalise="macro_f1"``, with a ``grid`` of shares); the attacker is "wang".

    Args:
        attributes: ``(n,)`` the group of each row.
        tasks, predictions: ``(n,)`` or ``(n, C)`` true and predicted labels, of one shape.
        outputs: ``(n,)`` or ``(n, F)`` the model's scores, attacked in place of the predictions.
        **options: of ``attacks.Plan``.

    Raises:
        ValueError: arrays or options that cannot be, named.
    """
    (target,) = categories(attributes=attributes)
    truth, predicted = categories(
        tasks=aligned(tasks, attributes, "tasks", to="attributes"),
        predictions=aligned(predictions, attributes, "predictions", to="attributes"),
    )
    attacked: Categories | Floats = predicted
    features, plan = [truth.features(), predicted.features()], Plan(**options)
    if outputs is not None:
        attacked = scores(aligned(outputs, attributes, "outputs", to="attributes"), "outputs")
        features.append(attacked)
        if plan.attacker == "majority":
            raise ValueError(READS_LABELS)
        plan = replace(plan, attacker="logistic" if plan.attacker == AUTO else plan.attacker)
    check_rows({"attributes": target, "tasks": truth, "predictions": predicted, "outputs": features[-1]})
    method, notes = plan.method(*features)
    attacks = (
        Attack("data", truth, target, noisy="inputs"),
        Attack("model", attacked, target),
        Attack("unchanged", truth, target),
    )
    labelled = truth, predicted, target, "tasks"
    return Leakage(**AttackComparison(plan, method, attacks, "amplification", sub, *labelled).run(notes))
