"""Which way a base is biased: the sign y of every pair of a group and a task, exactly.

A base is a training set, the test set itself, or a table of shares such as labour statistics. What is measured against
the sign is ``directional``'s.
"""

from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import LabelTable, Resamples, ratio, together
from pipeline.statistics.arrays import Floats, shares

Signs = NDArray[np.int8]

BAD_SIGNS = "signs must hold -1, 0 and 1 in the shape (groups, tasks) = {wanted}, but has the shape {shape}"
BAD_WEIGHTS = "weights must hold one positive number for each of {tasks} tasks"


@dataclass(frozen=True)
class SignRule:
    """Where the paper and the published code of Wang & Russakovsky 2021 differ; the defaults are the code's."""

    # P(A,T) = P(A)P(T) exactly is "zero" (code: the pair counts as 0), or "against" (paper: y = 0, so that it counts
    # as -D)
    ties: Literal["zero", "against"] = "zero"
    # rows of the base that N counts: "labelled" (code: those with a group or a task), or "all" (paper)
    base_rows: Literal["labelled", "all"] = "labelled"
    # over the pairs that are "defined" (code), or over "all" |A||T| (paper: what is undefined adds nothing)
    mean: Literal["defined", "all"] = "defined"


CODE = SignRule()
PAPER = SignRule(ties="against", base_rows="all", mean="all")


def signs(
    attributes: ArrayLike, tasks: ArrayLike, *, rule: SignRule = CODE, counted: NDArray[np.int8] | None = None
) -> Signs:
    """+1 where a group and a task occur together more often than if they were independent, -1 where less often.

    ``sign(N n_at - n_a n_t)`` of integers, so a tie is 0 exactly; the published code takes the sign of a difference of
    floats, which calls about a fifth of the exact ties something else. A group or a task that the base lacks is a tie,
    and so is every pair of a base without any. Source: Wang & Russakovsky 2021, Eq. 3.

    Args:
        attributes: ``(n, |A|)`` of 0 and 1; groups may overlap or be missing in a row.
        tasks: ``(n, |T|)`` of 0 and 1.
        rule: for ties and rows without labels.
        counted: ``(n,)`` 1 for the rows that N counts, in place of the rule's.

    Returns:
        ``(|A|, |T|)`` of -1, 0 and 1; with ``rule.ties`` "against", -1 and 1 only.

    Raises:
        ValueError: arrays that are no such labels.
    """
    table = LabelTable.of(attributes, tasks)
    attributes, tasks = table.attributes, table.tasks
    n_a, n_t = attributes.sum(axis=0, dtype=np.int64), tasks.sum(axis=0, dtype=np.int64)
    rows = int((counted_rows(attributes, tasks, rule) if counted is None else counted).sum(dtype=np.int64))
    return _broken(rows * together(attributes, tasks) - n_a[:, None] * n_t, rule)


def signs_drawn(
    attributes: NDArray[np.int8],
    tasks: NDArray[np.int8],
    drawn: Resamples,
    *,
    rule: SignRule,
    counted: NDArray[np.int8],
) -> Signs:
    """``(|A|, |T|, R)`` the signs of every resample; arrays as ``binary`` gives them, the rest as for ``signs``."""
    pairs, n_a = drawn.together(attributes, tasks), drawn.sums(attributes)
    # Rows of a task: those of its pairs, corrected for rows without a group or with several.
    n_t = pairs.sum(axis=0) + drawn.together(1 - attributes.sum(axis=1, keepdims=True), tasks)[0]
    return _broken(drawn.sums(counted[:, None])[0] * pairs - n_a[:, None] * n_t, rule)


def signs_of_shares(
    group_shares: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    overall: ArrayLike | None = None,
    rule: SignRule = CODE,
) -> Signs:
    """The signs of a base that is known by the groups' shares in each task, e.g. women's in occupations.

    ``P(A_a | T_t) > P(A_a)``, with P(A_a) the mean of the shares over the tasks (so Wang & Russakovsky's Table 2
    treats labour statistics). A uniform base has the same share everywhere: ties, and an amplification of 0. Table 2's
    own uniform base takes its signs from a list of women's and men's occupations: to do so, give that list's shares.

    Args:
        group_shares: ``(|A|, |T|)`` P(A_a | T_t) in 0-1.
        weights: ``(|T|,)`` how frequent each task is; equally unless given.
        overall: ``(|A|,)`` P(A_a) in 0-1, in place of the mean; 0.5 asks which group is the majority.
        rule: for ties.

    Raises:
        ValueError: shares out of 0-1, or other shapes.
    """
    table = shares(group_shares, "group_shares").astype(np.float64)
    exact = [[Fraction(float(share)) for share in row] for row in table]
    if overall is not None:
        limits = np.broadcast_to(np.asarray(overall, dtype=np.float64), (len(table),))
        middle = [Fraction(float(limit)) for limit in limits]
    else:
        sizes = np.ones(table.shape[1]) if weights is None else np.asarray(weights, dtype=np.float64)
        if sizes.shape != table.shape[1:] or not (np.isfinite(sizes) & (sizes > 0)).all():
            raise ValueError(BAD_WEIGHTS.format(tasks=table.shape[1]))
        parts = [Fraction(float(size)) for size in sizes]
        whole = sum(parts, Fraction(0))
        middle = [sum((p * s for p, s in zip(parts, row, strict=True)), Fraction(0)) / whole for row in exact]
    excess = [[(share > limit) - (share < limit) for share in row] for row, limit in zip(exact, middle, strict=True)]
    return _broken(np.array(excess), rule)


def checked_signs(values: ArrayLike, shape: tuple[int, int]) -> Signs:
    """Signs from outside; ValueError for another shape, or other numbers than -1, 0 and 1."""
    given = np.asarray(values)
    if given.shape != shape or not np.isin(given, (-1, 0, 1)).all():
        raise ValueError(BAD_SIGNS.format(wanted=shape, shape=given.shape))
    return given.astype(np.int8)


def mean_of_pairs(contributions: Floats, rule: SignRule) -> Floats:
    """Mean over the first two axes, ``(|A|, |T|, …)``, NaN left out; NaN where all are."""
    defined = ~np.isnan(contributions)
    count = defined.sum(axis=(0, 1))
    size = count if rule.mean == "defined" else np.where(count > 0, defined.shape[0] * defined.shape[1], 0)
    return ratio(np.asarray(np.where(defined, contributions, 0.0).sum(axis=(0, 1))), size)


def counted_rows(attributes: NDArray[np.int8], tasks: NDArray[np.int8], rule: SignRule) -> NDArray[np.int8]:
    """``(n,)`` 1 for the rows that N counts."""
    if rule.base_rows == "all":
        return np.ones(len(attributes), dtype=np.int8)
    return np.asarray(np.maximum(attributes.max(axis=1), tasks.max(axis=1)))


def _broken(excess: NDArray[Any], rule: SignRule) -> Signs:
    """The sign of each excess over independence, ties as the rule has them."""
    sign = np.sign(excess).astype(np.int8)
    return sign if rule.ties == "zero" else np.where(sign == 0, np.int8(-1), sign)
