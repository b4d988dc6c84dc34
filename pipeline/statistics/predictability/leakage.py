"""Leakage and leakage amplification (Wang, Zhao, Yatskar, Chang & Ordonez 2019, "Balanced Datasets Are Not Enough").

How much of the attribute is given away by the task labels, and how much by the model's predictions of them. Leakage has
no direction; ``dpa`` has.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Categories, Floats, aligned, categories, check_rows, scores
from pipeline.statistics.inference import RESAMPLES
from pipeline.statistics.predictability.attackers import Attacker
from pipeline.statistics.predictability.attacks import Attack, Attacked, Compared, Plan
from pipeline.statistics.predictability.measurement import AUTO, Method, pattern_count

READS_LABELS = "the attacker 'majority' counts labels and cannot read outputs: choose another"


@dataclass(frozen=True, eq=False)
class Leakage(Attacked):
    """Leakage of labels and predictions; ``repeats`` has the columns data, model, unchanged, amplification."""

    @property
    def data(self) -> float:
        """lambda_D(a), of the labels made as wrong as the predictions; the mean over repeats."""
        return self.mean("data")

    @property
    def model(self) -> float:
        """lambda_M, of the predictions; the mean over repeats."""
        return self.mean("model")

    @property
    def amplification(self) -> float:
        """``model - data``."""
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
    attacker: str | Attacker = AUTO,
    quality: str = "accuracy",
    equalise: str = "accuracy",
    grid: Sequence[float] | None = None,
    flips: str | None = None,
    repeats: int = 5,
    held_out: float | None = None,
    balance: str = "none",
    folded: bool = False,
    resamples: int = RESAMPLES,
    level: float = 0.95,
    clusters: Sequence[Hashable] | None = None,
    seed: int = 0,
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
        tasks: ``(n,)`` or ``(n, C)`` true labels.
        predictions: of the same shape: predicted labels.
        outputs: ``(n,)`` or ``(n, F)`` the model's scores, attacked in place of the predictions.
        attacker: "auto", "majority", "logistic", "network", "wang", or one of your own. "auto" is the majority's rule
            where the rows are of few kinds, and else logistic regression.
        quality: "accuracy", "f1", "inverse_mse", "inverse_bce".
        equalise, grid: see ``labels_to_change``.
        flips: "expected" or "drawn"; by default the former where it can be (one column, an attacker that takes weights,
            all rows).
        repeats: how often labels are changed, rows drawn and attackers started; 1 where none of it is random.
        held_out: share of rows that attackers are tested on and have not learnt; 0 for the rows they have learnt.
            Unless given it is 0 where the rows are of few kinds; else attackers are cross-fitted, and a note says so.
        balance, folded, seed: see ``measurement.Method``. Groups are balanced by the attribute.
        resamples: of the examples, for an interval that speaks of other examples of the same kind; 0 for none. The
            majority's has bounds for ties (``tie_bounds``), that of cross-fitted attackers is a t interval over rows;
            for other attacks a note says that there is none.
        level: of the intervals, 0-1.
        clusters: the cluster of each row (e.g. the person), resampled in the rows' place.

    Raises:
        ValueError: arrays or options that cannot be, named.
    """
    (target,) = categories(attributes=attributes)
    truth, predicted = categories(
        tasks=aligned(tasks, attributes, "tasks", to="attributes"),
        predictions=aligned(predictions, attributes, "predictions", to="attributes"),
    )
    attacked: Categories | Floats = predicted
    features = [truth.features(), predicted.features()]
    if outputs is not None:
        attacked = scores(aligned(outputs, attributes, "outputs", to="attributes"), "outputs")
        features.append(attacked)
    check_rows({"attributes": target, "tasks": truth, "predictions": predicted, "outputs": features[-1]})
    chosen = "logistic" if attacker == AUTO and outputs is not None else attacker
    if chosen == "majority" and outputs is not None:
        raise ValueError(READS_LABELS)
    method, notes = Method.of(
        attacker=chosen, quality=quality, held_out=held_out, balance=balance, folded=folded, seed=seed,
        patterns=pattern_count(*features), rows=len(target),
    )  # fmt: skip
    plan = Plan(method, equalise, grid, flips, repeats, resamples, level, clusters)
    attacks = (
        Attack("data", truth, target, noisy="inputs"),
        Attack("model", attacked, target),
        Attack("unchanged", truth, target),
    )
    found = plan.run(attacks, COMPARED, truth=truth, predicted=predicted, groups=target, name="tasks", notes=notes)
    return Leakage(**vars(found))


COMPARED = Compared("amplification", lambda model, data: model - data)
