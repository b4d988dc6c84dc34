"""Data sets with known results from the papers, and a reference implementation of directional amplification."""

from fractions import Fraction

import numpy as np

WOMEN, MEN = [1, 0], [0, 1]


def expand_counts(*cells):
    """Expand cells of (group, label, prediction, count) to arrays of attributes, tasks and predictions."""
    rows = [(group, label, guess) for group, label, guess, count in cells for _ in range(count)]
    return tuple(np.array(column, dtype=np.int8).reshape(len(rows), -1) for column in zip(*rows, strict=True))


def two_columns(task):
    """A binary task as two columns: present and absent."""
    return np.hstack([task, 1 - task])


# As many women as men paint, but a larger share of the women; the predictions widen the gap.
WIDENED = expand_counts(
    (WOMEN, 1, 1, 20), (WOMEN, 0, 1, 12), (WOMEN, 0, 0, 8), (MEN, 1, 1, 15), (MEN, 1, 0, 5), (MEN, 0, 0, 70)
)  # fmt: skip
# Most painters are men because most people are; the predictions have no male painter.
MINORITY = expand_counts(
    (WOMEN, 1, 1, 20), (WOMEN, 0, 1, 10), (MEN, 1, 0, 30), (MEN, 0, 0, 60)
)  # fmt: skip


# Tokas, Nair & Kerner: balanced data of 1,000 rows (attribute, task, prediction); 900 predictions are right, 600 equal
# the attribute.
BALANCED_AMPLIFIED = np.repeat(
    [(0, 0, 0), (0, 1, 0), (0, 1, 1), (1, 1, 1), (1, 0, 1), (1, 0, 0)], [250, 50, 200, 250, 50, 200], axis=0
).T  # fmt: skip


def figure_2(painting_women):
    """40 women, 30 of whom paint, and 40 men, 10 of whom do; only the women's predictions may be wrong."""
    right = min(painting_women, 30)
    women = ((WOMEN, 1, 1, right), (WOMEN, 1, 0, 30 - right))
    others = ((WOMEN, 0, 1, painting_women - right), (WOMEN, 0, 0, 10 - painting_women + right))
    return expand_counts(*women, *others, (MEN, 1, 1, 10), (MEN, 0, 0, 30))


def reference_amplification(
    attributes, tasks, predictions, *, direction, train=None, ties="zero", rows="labelled", mean="defined"
):
    """The mean over pairs, with exact signs; ``ties``, ``rows`` and ``mean`` select the code's or the paper's rule."""
    base_a, base_t = (attributes, tasks) if train is None else train
    kept = (base_a.sum(axis=1) > 0) | (base_t.sum(axis=1) > 0) if rows == "labelled" else np.ones(len(base_a), bool)
    base_a, base_t, size = base_a[kept], base_t[kept], int(kept.sum())
    values = []
    for a in range(attributes.shape[1]):
        for t in range(tasks.shape[1]):
            excess = 0
            if size:
                joint = Fraction(int((base_a[:, a] * base_t[:, t]).sum()), size)
                excess = joint - Fraction(int(base_a[:, a].sum()), size) * Fraction(int(base_t[:, t].sum()), size)
            sign = (excess > 0) - (excess < 0)
            if ties == "against" and sign == 0:
                sign = -1
            given, labels, guesses = (
                (attributes[:, a], tasks[:, t], predictions[:, t])
                if direction == "A->T"
                else (tasks[:, t], attributes[:, a], predictions[:, a])
            )
            picked = given == 1
            values.append(sign * (guesses[picked].mean() - labels[picked].mean()) if picked.any() else np.nan)
    known = [value for value in values if not np.isnan(value)]
    if not known:
        return np.nan
    return sum(known) / (len(known) if mean == "defined" else len(values))
