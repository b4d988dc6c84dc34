"""Clusters in which two groups fare differently: k-means, and from there the objective of Zhao & Chang 2020 (LOGAN).

What is done with the clusters is in ``logan``. Points here are in a fixed order, and equal points move together:
so the clusters do not depend on the order of the rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from pipeline.statistics.arrays import Codes, Floats
from pipeline.statistics.local.outcomes import Outcome
from pipeline.statistics.predictability.attackers import one_thread

Objective = Literal["literal", "weighted"]
OBJECTIVES = ("literal", "weighted")
ROUNDS = 1000
ROUNDING = 1e-10  # of the objective's scale: a smaller gain is rounding noise


@dataclass(frozen=True, eq=False)
class Points:
    """``m`` different rows, in a fixed order: features ``(m, D)``, centred on the mean of all rows, and ``(m,)`` each.

    ``weights``: how many rows each stands for; ``group``: 0 or 1.
    """

    features: Floats
    weights: Floats
    group: Codes
    outcome: Outcome

    @cached_property
    def squares(self) -> Floats:
        """``(m,)`` squared distance of each to the mean of all rows."""
        return np.asarray(np.einsum("md,md->m", self.features, self.features))

    @cached_property
    def spread(self) -> float:
        """The inertia of all rows as one cluster."""
        return float(self.weights @ self.squares)


@dataclass(frozen=True)
class Aim:
    """What is made small: ``inertia - strength * sum_j scale_j gap_j^2``.

    ``inertia``: squared distances of the rows to their cluster's mean, summed. ``gap_j``: the metric of group 1 less
    that of group 0 in cluster j; a cluster that lacks either has none and adds 0 (in the authors' code a group that is
    not there counts as accuracy 0). ``scale_j``: 1 for "literal", Eq. 2 as printed; the rows n_j of the cluster for
    "weighted", which is what the authors' code comes to, since it adds its penalty for every point.
    """

    strength: float
    objective: Objective = "weighted"

    def value(self, inertia: float, sizes: Floats, gaps: Floats) -> float:
        """The objective."""
        scale = sizes if self.objective == "weighted" else np.ones_like(sizes)
        return inertia - self.strength * float((scale * np.nan_to_num(gaps) ** 2).sum())


@dataclass(frozen=True, eq=False)
class Clustering:
    """``labels`` ``(m,)`` of the points, what they cost, and whether no single move would lower it further."""

    labels: Codes
    inertia: float
    value: float
    converged: bool


def kmeans_labels(features: Floats, weights: Floats, *, clusters: int, seed: int, starts: int = 10) -> Codes:
    """k-means++ and Lloyd (scikit-learn's), the best of several starts: ``(m,)`` cluster of each different point."""
    from sklearn.cluster import KMeans

    with one_thread():
        model = KMeans(n_clusters=clusters, n_init=starts, random_state=seed, max_iter=1000, tol=0)
        labels: Codes = model.fit(features, sample_weight=weights).labels_.astype(np.intp)
    return labels


def cost(points: Points, labels: Codes, aim: Aim, *, clusters: int) -> tuple[float, float]:
    """Inertia and objective of a clustering."""
    sizes, sums = _sums(points, labels, clusters)
    inertia = _inertia(points, sizes, sums)
    return inertia, aim.value(inertia, sizes, gaps_of(points, labels, clusters=clusters))


def gaps_of(points: Points, labels: Codes, *, clusters: int) -> Floats:
    """``(k,)`` the metric of group 1 less that of group 0 in each cluster; NaN where a group has none."""
    metric = points.outcome.by_cell(2 * labels + points.group, points.weights, count=2 * clusters).reshape(-1, 2)
    return metric[:, 1] - metric[:, 0]


def improve(points: Points, start: Codes, aim: Aim, *, clusters: int) -> Clustering:
    """Move points between clusters while that lowers the objective; it is never higher than at the start.

    Each round computes what every single move would change (for a metric that is a mean exactly, for others from
    jackknife pseudo-values), and tries the promising moves together, then the better half of them, a quarter, ... and
    at last the best one alone, each against the true objective; the lowest is kept. No cluster is emptied.
    """
    cells = 2 * start + points.group
    values = points.outcome.contributions(cells, points.weights)
    labels, state = start.copy(), _State.of(points, start, aim, clusters)
    noise = ROUNDING * (points.spread + aim.strength * float(points.weights.sum()))
    converged = False
    for _ in range(ROUNDS):
        target, change = _moves(points, labels, values, state, aim)
        ahead = np.flatnonzero(change < -noise)
        ahead = ahead[np.argsort(change[ahead], kind="stable")]
        best, best_labels = state, labels
        count = len(ahead)
        while count:
            moved = labels.copy()
            moved[ahead[:count]] = target[ahead[:count]]
            tried = state.after(points, labels, moved, ahead[:count], aim)
            if tried is not None and tried.value < best.value - noise:
                best, best_labels = tried, moved
            count //= 2
        if best is state:
            converged = True
            break
        state, labels = best, best_labels
    inertia, value = cost(points, labels, aim, clusters=clusters)
    start_inertia, start_value = cost(points, start, aim, clusters=clusters)
    better = (labels, inertia, value) if value <= start_value else (start, start_inertia, start_value)
    return Clustering(*better, converged)


@dataclass(frozen=True, eq=False)
class _State:
    """What is known of each cluster: rows ``(k,)``, sums of features ``(k, D)``, gaps ``(k,)``; and the objective."""

    sizes: Floats
    sums: Floats
    gaps: Floats
    value: float

    @classmethod
    def of(cls, points: Points, labels: Codes, aim: Aim, clusters: int) -> "_State":
        sizes, sums = _sums(points, labels, clusters)
        gaps = gaps_of(points, labels, clusters=clusters)
        return cls(sizes, sums, gaps, aim.value(_inertia(points, sizes, sums), sizes, gaps))

    def after(self, points: Points, labels: Codes, moved: Codes, rows: Codes, aim: Aim) -> "_State | None":
        """The state once ``rows`` have moved; None if that empties a cluster."""
        count = len(self.sizes)
        weights = points.weights[rows]
        change = _one_hot(moved[rows], count) - _one_hot(labels[rows], count)
        sizes = self.sizes + change @ weights
        if (sizes < 0.5).any():
            return None
        sums = self.sums + change @ (weights[:, None] * points.features[rows])
        gaps = gaps_of(points, moved, clusters=count)
        return _State(sizes, sums, gaps, aim.value(_inertia(points, sizes, sums), sizes, gaps))


def _moves(points: Points, labels: Codes, values: Floats, state: _State, aim: Aim) -> tuple[Codes, Floats]:
    """For every point the cluster that is best to move to, and what that would change the objective by."""
    count, everyone = len(state.sizes), np.arange(len(labels))
    weights, own = points.weights[:, None], labels[:, None]
    centres = state.sums / state.sizes[:, None]
    distances = points.features @ (-2 * centres.T)
    distances += points.squares[:, None]
    distances += (centres**2).sum(axis=1)  # in place: a table of all points by all clusters
    np.maximum(distances, 0, out=distances)
    # Hartigan & Wong 1979: what a point adds to a cluster that it joins, and takes from the one that it leaves.
    step = np.where(np.arange(count) == own, -weights, weights)
    rest = state.sizes + step
    alone = rest[everyone, labels] < 0.5
    rest[everyone[alone], labels[alone]] = 1.0
    total = distances * (step * state.sizes / rest)
    rest[everyone[alone], labels[alone]] = 0.0
    total -= aim.strength * _bias_change(points, labels, values, step, rest, state, aim)
    total += total[everyone, labels][:, None]
    total[everyone, labels] = total[alone] = np.inf
    target = total.argmin(axis=1)
    return target, total[everyone, target]


def _bias_change(
    points: Points, labels: Codes, values: Floats, step: Floats, rest: Floats, state: _State, aim: Aim
) -> Floats:
    """``(m, k)`` change of ``scale_j gap_j^2`` when cluster j gains (or loses) ``step`` rows of the point's kind.

    ``rest`` ``(m, k)``: the rows that the cluster then has.
    """
    count = len(state.sizes)
    weighed = points.weights * points.outcome.counted
    cells = 2 * labels + points.group
    rows = np.bincount(cells, weights=weighed, minlength=2 * count).reshape(-1, 2)
    sums = np.bincount(cells, weights=weighed * values, minlength=2 * count).reshape(-1, 2)
    means = np.divide(sums, rows, out=np.zeros_like(sums), where=rows > 0)
    both = (rows > 0).all(axis=1)
    before = np.where(both, (means[:, 1] - means[:, 0]) ** 2, 0.0)
    same, other = points.group, 1 - points.group
    change = step * points.outcome.counted[:, None]
    after = rows.T[same] + change
    defined = (after > 0.5) & (rows.T[other] > 0.5)
    gaps = (sums.T[same] + change * values[:, None]) / np.where(defined, after, 1.0) - means.T[other]
    squares = np.where(defined, gaps**2, 0.0)
    return rest * squares - state.sizes * before if aim.objective == "weighted" else squares - before


def _sums(points: Points, labels: Codes, clusters: int) -> tuple[Floats, Floats]:
    chosen = _one_hot(labels, clusters)
    return chosen @ points.weights, chosen @ (points.weights[:, None] * points.features)


def _inertia(points: Points, sizes: Floats, sums: Floats) -> float:
    return points.spread - float(((sums**2).sum(axis=1) / np.where(sizes > 0, sizes, 1)).sum())


def _one_hot(labels: Codes, clusters: int) -> Floats:
    return np.asarray(labels == np.arange(clusters)[:, None], dtype=np.float64)
