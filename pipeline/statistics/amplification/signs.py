"""Direction of a base's bias: the exact sign y of every pair of a group and a task.

A base is a training set, the test set itself, or a table of shares such as labour statistics.
"""

from dataclasses import dataclass
from fractions import Fraction
from operator import mul
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import LabelTable, Resamples, cooccurrences, ratio
from pipeline.statistics.arrays import Floats, shares

Signs = NDArray[np.int8]

BAD_SIGNS = "signs must hold -1, 0 and 1 in the shape (groups, tasks) = {wanted}, but has the shape {shape}"
BAD_WEIGHTS = "weights must hold a positive number for each of {tasks} tasks"


@dataclass(frozen=True)
class SignRule:
    """Rules in which the paper and the code of Wang & Russakovsky 2021 differ; the defaults are the code's."""

    # Exact ties P(A,T) = P(A)P(T): "zero" (code: the pair counts as 0), or "against" (paper: the pair counts as -D)
    ties: Literal["zero", "against"] = "zero"
    # rows of the base counted in N: "labelled" (code: those with a group or a task), or "all" (paper)
    base_rows: Literal["labelled", "all"] = "labelled"
    # mean over the pairs that are "defined" (code), or over "all" |A||T| pairs (paper: undefined ones count as 0)
    mean: Literal["defined", "all"] = "defined"


CODE = SignRule()
PAPER = SignRule(ties="against", base_rows="all", mean="all")


def signs(
    attributes: ArrayLike, tasks: ArrayLike, *, rule: SignRule = CODE, counted: NDArray[np.int8] | None = None
) -> Signs:
    """+1 where a group and a task occur together more often than if they were independent, -1 where less often.

    ``sign(N n_at - n_a n_t)`` of integers, so a tie is exactly 0. The published code uses floats and misses about a
    fifth of the exact ties. A group or a task that does not occur in the base is a tie. Source: Wang & Russakovsky
    2021, Eq. 3.

    Args:
        attributes: ``(n, |A|)`` of 0 and 1; groups may overlap or be missing in a row.
        tasks: ``(n, |T|)`` of 0 and 1.
        rule: for ties and rows without labels.
        counted: ``(n,)`` 1 for the rows counted in N; by default as the rule says.

    Returns:
        ``(|A|, |T|)`` of -1, 0 and 1; with ``rule.ties`` "against", -1 and 1 only.

    Raises:
        ValueError: labels other than 0 and 1, or shapes that do not match.
    """
    table = LabelTable.of(attributes, tasks)
    attributes, tasks = table.attributes, table.tasks
    n_a, n_t = attributes.sum(axis=0, dtype=np.int64), tasks.sum(axis=0, dtype=np.int64)
    rows = int((counted_rows(attributes, tasks, rule) if counted is None else counted).sum(dtype=np.int64))
    return _sign(rows * cooccurrences(attributes, tasks) - n_a[:, None] * n_t, rule)


def signs_drawn(
    attributes: NDArray[np.int8],
    tasks: NDArray[np.int8],
    drawn: Resamples,
    *,
    rule: SignRule,
    counted: NDArray[np.int8],
) -> Signs:
    """Signs in every resample, ``(|A|, |T|, R)``, of checked labels; the rest as for ``signs``."""
    pairs, n_a = drawn.cooccurrences(attributes, tasks), drawn.sums(attributes)
    # Rows of a task: those of its pairs, corrected for rows with no group or with several.
    n_t = pairs.sum(axis=0) + drawn.cooccurrences(1 - attributes.sum(axis=1, keepdims=True), tasks)[0]
    return _sign(drawn.sums(counted[:, None])[0] * pairs - n_a[:, None] * n_t, rule)


def signs_of_shares(
    group_shares: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    overall: ArrayLike | None = None,
    rule: SignRule = CODE,
) -> Signs:
    """Signs of a base given by the share of each group in each task, e.g. of women in occupations.

    The sign of ``P(A_a | T_t) - P(A_a)``, with P(A_a) the mean of the shares over the tasks, as Wang & Russakovsky's
    Table 2 treats labour statistics. A uniform base has equal shares everywhere: ties, and an amplification of 0. The
    signs of Table 2's own uniform base are those of a list of women's and men's occupations; to reproduce it, pass the
    shares of that list.

    Args:
        group_shares: ``(|A|, |T|)`` P(A_a | T_t) in 0-1.
        weights: ``(|T|,)`` frequency of each task; equal by default.
        overall: ``(|A|,)`` P(A_a) in 0-1, in place of the mean; 0.5 asks which group is the majority.
        rule: for ties.

    Raises:
        ValueError: shares outside 0-1, or shapes that do not match.
    """
    table = shares(group_shares, "group_shares").astype(np.float64)
    exact = [[Fraction(float(share)) for share in row] for row in table]
    if overall is not None:
        means = [Fraction(float(share)) for share in np.broadcast_to(np.asarray(overall, np.float64), (len(table),))]
    else:
        sizes = np.ones(table.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
        if sizes.shape != table.shape[1:] or not (np.isfinite(sizes) & (sizes > 0)).all():
            raise ValueError(BAD_WEIGHTS.format(tasks=table.shape[1]))
        parts = [Fraction(float(size)) for size in sizes]
        means = [sum(map(mul, parts, row), Fraction(0)) / sum(parts) for row in exact]
    excess = [[(share > mean) - (share < mean) for share in row] for row, mean in zip(exact, means, strict=True)]
    return _sign(np.array(excess), rule)


def checked_signs(values: ArrayLike, shape: tuple[int, int]) -> Signs:
    """Check signs; ValueError for another shape, or for values other than -1, 0 and 1."""
    given = np.asarray(values)
    if given.shape != shape or not np.isin(given, (-1, 0, 1)).all():
        raise ValueError(BAD_SIGNS.format(wanted=shape, shape=given.shape))
    return given.astype(np.int8)


def mean_of_pairs(contributions: Floats, rule: SignRule) -> Floats:
    """Mean over the first two axes of ``(|A|, |T|, …)``, ignoring NaN; NaN where all are NaN."""
    defined = ~np.isnan(contributions)
    count = defined.sum(axis=(0, 1))
    size = count if rule.mean == "defined" else np.where(count > 0, defined.shape[0] * defined.shape[1], 0)
    return ratio(np.asarray(np.where(defined, contributions, 0.0).sum(axis=(0, 1))), size)


def counted_rows(attributes: NDArray[np.int8], tasks: NDArray[np.int8], rule: SignRule) -> NDArray[np.int8]:
    """``(n,)`` 1 for the rows counted in N."""
    if rule.base_rows == "all":
        return np.ones(len(attributes), dtype=np.int8)
    return np.asarray(np.maximum(attributes.max(axis=1), tasks.max(axis=1)))


def _sign(excess: NDArray[Any], rule: SignRule) -> Signs:
    """Sign of each excess over independence, with ties by the rule."""
    sign = np.sign(excess).astype(np.int8)
    return sign if rule.ties == "zero" else np.where(sign == 0, np.int8(-1), sign)
