"""Random label errors that make labels as wrong as a model's predictions, so that both can be compared.

A model that is often wrong leaks less than the labels, whatever its bias. So a share of the labels is changed at random
before the attacks (Wang et al. 2019; Tokas, Nair & Kerner 2025).
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
    """Number of labels of each column to change, ``(C,)``.

    Args:
        labels: the true labels.
        predictions: predictions with the same categories.
        rule: "accuracy": the number of wrong predictions in the column (Tokas et al.; their code uses a float share,
            which is off by one label for half of all shares). "macro_f1": the share for which the labels' expected F1,
            averaged over columns, equals that of the predictions (Wang et al.). "none": 0.
        grid: shares among which "macro_f1" chooses the nearest, as the code of Wang et al. does; by default the share
            is found by root finding.
        weights: ``(n,)`` whole number of times that each row counts; default: 1.

    Raises:
        ValueError: an unknown rule, or a grid that is empty or outside 0-1.
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
    """F1 of predictions (``qualities.f1``), averaged over columns."""
    each = np.ones(len(labels)) if weights is None else weights
    columns = zip(labels.codes.T, predictions.codes.T, labels.sizes, strict=True)
    return float(np.mean([f1_of_guesses(truth, guess, each, classes=size) for truth, guess, size in columns]))


def expected_macro_f1(labels: Categories, share: float, *, weights: Floats | None = None) -> float:
    """Macro-F1, from expected counts, of labels of which a share in 0-1 is changed to another category."""
    parts = []
    for column, size in enumerate(labels.sizes):
        true = np.bincount(labels.codes[:, column], weights=weights, minlength=size).astype(np.float64)
        changed = share if size > 1 else 0.0
        right = (1 - changed) * true
        predicted = right + changed * (true.sum() - true) / max(size - 1, 1)
        parts.append(f1_of_counts(right, true, predicted))
    return float(np.mean(parts))


def changed(labels: Categories, counts: Codes, *, generator: np.random.Generator) -> Categories:
    """Change ``counts`` ``(C,)`` random labels of each column to another of its categories."""
    codes = labels.codes.copy()
    for column, (count, size) in enumerate(zip(counts, labels.sizes, strict=True)):
        rows = generator.choice(len(codes), size=int(count), replace=False)
        codes[rows, column] = (codes[rows, column] + generator.integers(1, max(size, 2), size=len(rows))) % size
    return labels.with_codes(codes)


def expected_rows(labels: Categories, counts: Codes) -> tuple[NDArray[np.intp], Categories, Floats]:
    """The expectation of ``changed`` for one column: every row with each of the K categories, with integer weights.

    Returns:
        the original rows ``(n K,)``, the labels, and their weights ``(n K,)``.
    """
    (size,), (count,) = labels.sizes, counts
    rows = np.repeat(np.arange(len(labels)), size)
    codes = np.tile(np.arange(size), len(labels))
    own = codes == labels.codes[rows, 0]
    weights = np.where(own, float((len(labels) - count) * max(size - 1, 1)), float(count))
    return rows, labels.with_codes(codes[:, None]), weights


def _solve(labels: Categories, wanted: float, weights: Floats) -> float:
    """Find the share of labels to change for which their expected F1 is ``wanted``."""

    def excess(share: float) -> float:
        return expected_macro_f1(labels, share, weights=weights) - wanted

    if excess(0.0) <= 0:
        return 0.0
    return 1.0 if excess(1.0) >= 0 else float(brentq(excess, 0.0, 1.0, xtol=1e-12))
