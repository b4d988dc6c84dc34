"""Leakage and leakage amplification (Wang, Zhao, Yatskar, Chang & Ordonez 2019, "Balanced Datasets Are Not Enough").

How well the attribute can be predicted from the task labels, and how well from the model's predictions. ``dpa`` is the
directional measure.
"""

from dataclasses import dataclass, replace
from operator import sub
from typing import Any

from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Categories, Floats, aligned, categories, check_rows, scores
from pipeline.statistics.predictability.attacks import Attack, AttackComparison, Attacked, Plan
from pipeline.statistics.predictability.measurement import AUTO

READS_LABELS = "the attacker 'majority' counts labels and cannot use outputs: choose another attacker"


@dataclass(frozen=True, eq=False)
class Leakage(Attacked):
    """Leakage of labels and predictions; ``repeats`` has the columns data, model, unchanged, amplification."""

    @property
    def amplification(self) -> float:
        """``model - data``: lambda_M - lambda_D(a)."""
        return self.mean("amplification")

    @property
    def unchanged(self) -> float:
        """lambda_D, of the unchanged labels."""
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

    For ``lambda_D(a)`` random errors are first added to the labels until they are as wrong as the predictions
    (``equalise``). With the majority rule, the accuracy and all rows, ``lambda = sum_t max_a n(a, t) / n`` exactly.

    Paper and code both test the attacker on held-out rows (about ``held_out=0.5``), in five rounds. Only the code
    resamples rows so that all groups have the same size (``balance="redraw"``) and chance is 0.5; folds the accuracy
    (``folded=True``); measures lambda_M on the model's raw outputs (``outputs``) but lambda_D on binary labels, so that
    part of the gap is due to that difference and not to bias; and changes labels until their macro-F1, not their
    accuracy, is the model's (``equalise="macro_f1"``, with a ``grid`` of shares). The attacker is "wang".

    Args:
        attributes: ``(n,)`` the group of each row.
        tasks, predictions: ``(n,)`` or ``(n, C)`` true and predicted labels, of the same shape.
        outputs: ``(n,)`` or ``(n, F)`` the model's scores, attacked in place of the predictions.
        **options: of ``attacks.Plan``.

    Raises:
        ValueError: invalid arrays or options; the message names them.
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
