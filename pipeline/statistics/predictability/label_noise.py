"""Labels made as wrong as a model's predictions are, so that both can be compared: how many to change, and which.

A model that is often wrong gives less away than its labels do, whatever its bias. So before labels and predictions are
attacked, a share of the labels is changed at random (Wang et al. 2019; Tokas, Nair & Kerner 2025).
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq

from pipeline.statistics.arrays import Categories, Codes, Floats, check_choice
from pipeline.statistics.predictability.qualities import f1_of_counts, f1_of_guesses

RULES = ("accuracy", "macro_f1", "none")


def labels_to_change(
    labels: Categories,
    predictions: Categories,
    *,
    rule: str = "accuracy",
    grid: Sequence[float] | None = None,
    weights: Floats | None = None,
) -> Codes:
    """``(C,)`` how many labels of each column are to be changed.

    Args:
        labels: the true ones.
        predictions: of the same categories.
        rule: "accuracy": as many as there are wrong predictions in the column, counted in integers (the rule of Tokas
            et al.; their code has a float share, which is one label off for half of all shares). "macro_f1": the share
            for which the labels' expected F1, averaged over columns, is the predictions' (what Wang et al. match).
            "none": no label.
        grid: with "macro_f1", the shares among which the one that comes nearest is taken, as the code of Wang et al.
            does with a list made by hand; without it the share is solved for.
        weights: ``(n,)`` how often each row counts, whole numbers; once unless given.

    Raises:
        ValueError: there is no such rule, or the grid is empty or leaves 0-1.
    """
    check_choice(rule, "equalise", RULES)
    if rule == "none":
        return np.zeros(labels.codes.shape[1], dtype=np.intp)
    each = np.ones(len(labels)) if weights is None else weights
    if rule == "accuracy":
        wrong: Codes = np.rint(each @ (labels.codes != predictions.codes)).astype(np.intp)
        return wrong
    wanted = macro_f1(labels, predictions, weights=each)
    if grid is None:
        share = _solve(labels, wanted, each)
    else:
        shares = np.asarray(grid, dtype=np.float64)
        if shares.size == 0 or not np.all((shares >= 0) & (shares <= 1)):
            raise ValueError("grid must hold shares of labels to change, in 0-1")
        reached = [expected_macro_f1(labels, part, weights=each) for part in shares]
        share = float(shares[np.argmin(np.abs(np.array(reached) - wanted))])
    changeable = np.array(labels.sizes) > 1
    return np.where(changeable, np.rint(share * each.sum()), 0).astype(np.intp)


def macro_f1(labels: Categories, predictions: Categories, *, weights: Floats | None = None) -> float:
    """F1 of predictions, averaged over columns (see ``qualities.f1``)."""
    each = np.ones(len(labels)) if weights is None else weights
    columns = zip(labels.codes.T, predictions.codes.T, labels.sizes, strict=True)
    return float(np.mean([f1_of_guesses(truth, guess, each, classes=size) for truth, guess, size in columns]))


def expected_macro_f1(labels: Categories, share: float, *, weights: Floats | None = None) -> float:
    """The F1, from expected counts, of labels of which a share 0-1 was changed to another category each."""
    parts = []
    for column, size in enumerate(labels.sizes):
        there = np.bincount(labels.codes[:, column], weights=weights, minlength=size).astype(np.float64)
        changed = share if size > 1 else 0.0
        right = (1 - changed) * there
        guessed = right + changed * (there.sum() - there) / max(size - 1, 1)
        parts.append(f1_of_counts(right, there, guessed))
    return float(np.mean(parts))


def changed(labels: Categories, counts: Codes, *, generator: np.random.Generator) -> Categories:
    """Labels of which ``counts`` ``(C,)`` in each column, drawn at random, became another category of it."""
    codes = labels.codes.copy()
    for column, (count, size) in enumerate(zip(counts, labels.sizes, strict=True)):
        rows = generator.choice(len(codes), size=int(count), replace=False)
        codes[rows, column] = (codes[rows, column] + generator.integers(1, max(size, 2), size=len(rows))) % size
    return labels.with_codes(codes)


def expected_rows(labels: Categories, counts: Codes) -> tuple[NDArray[np.intp], Categories, Floats]:
    """What ``changed`` gives on average: every row once for each category of its one column, with integer weights.

    Returns:
        ``(n K,)`` row each entry comes from, the entries, and their ``(n K,)`` weights.
    """
    (size,), (count,) = labels.sizes, counts
    rows = np.repeat(np.arange(len(labels)), size)
    codes = np.tile(np.arange(size), len(labels))
    own = codes == labels.codes[rows, 0]
    weights = np.where(own, float((len(labels) - count) * max(size - 1, 1)), float(count))
    return rows, labels.with_codes(codes[:, None]), weights


def _solve(labels: Categories, wanted: float, weights: Floats) -> float:
    """The share of labels to change at which their expected F1 is the one wanted."""

    def excess(share: float) -> float:
        return expected_macro_f1(labels, share, weights=weights) - wanted

    if excess(0.0) <= 0:
        return 0.0
    return 1.0 if excess(1.0) >= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-12))
