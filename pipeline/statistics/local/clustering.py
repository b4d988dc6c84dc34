"""Clustering by k-means and then by the objective of Zhao & Chang 2020 (LOGAN).

Points are in a fixed order and equal points move together, so the clusters do not depend on the order of the rows.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from pipeline.statistics.arrays import Codes, Floats
from pipeline.statistics.local.outcomes import Outcome
from pipeline.statistics.predictability.attackers import one_blas_thread

Objective = Literal["literal", "weighted"]
OBJECTIVES = ("literal", "weighted")
ROUNDS = 1000
ROUNDING = 1e-10  # of the objective's scale: a smaller gain is rounding noise


@dataclass(frozen=True, eq=False)
class Points:
    """``m`` distinct rows in a fixed order."""

    features: Floats  # (m, D), centred on the mean of all rows
    weights: Floats  # (m,) number of rows of each
    group: Codes  # (m,) 0 or 1
    outcome: Outcome  # of m rows

    @cached_property
    def squares(self) -> Floats:
        """Squared distance of each point to the mean of all rows, ``(m,)``."""
        return np.asarray(np.einsum("md,md->m", self.features, self.features))

    @cached_property
    def spread(self) -> float:
        """Inertia of all rows as one cluster."""
        return float(self.weights @ self.squares)


@dataclass(frozen=True)
class Aim:
    """The objective to minimise: ``inertia - strength * sum_j scale_j gap_j^2``.

    ``inertia`` is the sum of squared distances of the rows to their cluster's mean. ``gap_j`` is the metric of group 1
    less that of group 0 in cluster j, or 0 if it is not defined for both (in the authors' code an absent group has
    accuracy 0). ``scale_j`` is 1 for "literal", Eq. 2 as printed, and the number of rows n_j for "weighted", which is
    the objective of the authors' code, since that adds its penalty for every point.
    """

    strength: float
    objective: Objective = "weighted"

    def value(self, inertia: float, sizes: Floats, gaps: Floats) -> float:
        """The objective."""
        scale = sizes if self.objective == "weighted" else np.ones_like(sizes)
        return inertia - self.strength * float((scale * np.nan_to_num(gaps) ** 2).sum())


@dataclass(frozen=True, eq=False)
class Clustering:
    """Clusters ``labels`` ``(m,)`` of the points, their cost, and whether no single move would lower it further."""

    labels: Codes
    inertia: float
    value: float
    converged: bool


def kmeans_labels(features: Floats, weights: Floats, *, clusters: int, seed: int, starts: int = 10) -> Codes:
    """Cluster of each distinct point, ``(m,)``, by scikit-learn's k-means, best of several starts."""
    from sklearn.cluster import KMeans

    with one_blas_thread():
        model = KMeans(n_clusters=clusters, n_init=starts, random_state=seed, max_iter=1000, tol=0)
        labels: Codes = model.fit(features, sample_weight=weights).labels_.astype(np.intp)
    return labels


def cost(points: Points, labels: Codes, aim: Aim, *, clusters: int) -> tuple[float, float]:
    """Inertia and objective of a clustering."""
    sizes, sums = _sums(points, labels, clusters)
    inertia = _inertia(points, sizes, sums)
    return inertia, aim.value(inertia, sizes, gaps_of(points, labels, clusters=clusters))


def gaps_of(points: Points, labels: Codes, *, clusters: int) -> Floats:
    """Metric of group 1 less that of group 0 in each cluster, ``(k,)``; NaN where a group has none."""
    metric = points.outcome.by_cell(2 * labels + points.group, points.weights, count=2 * clusters).reshape(-1, 2)
    return metric[:, 1] - metric[:, 0]


def improve(points: Points, start: Codes, aim: Aim, *, clusters: int) -> Clustering:
    """Move points between clusters while that lowers the objective; it is never higher than at the start.

    Each round computes the change by every single move (exactly if the metric is a mean, else from jackknife
    pseudo-values). It evaluates the objective after all improving moves together, after the better half of them, a
    quarter, and so on down to the single best move, and keeps the best. No cluster is emptied.
    """
    cells = 2 * start + points.group
    values = points.outcome.contributions(cells, points.weights)
    labels, state = start.copy(), _State.of(points, start, aim, clusters)
    noise = ROUNDING * (points.spread + aim.strength * float(points.weights.sum()))
    converged = False
    for _ in range(ROUNDS):
        target, change = _moves(points, labels, values, state, aim)
        improving = np.flatnonzero(change < -noise)
        improving = improving[np.argsort(change[improving], kind="stable")]
        best, best_labels = state, labels
        count = len(improving)
        while count:
            rows = improving[:count]
            moved = labels.copy()
            moved[rows] = target[rows]
            tried = state.after(points, labels, moved, rows, aim)
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
    """Number of rows ``(k,)``, sums of features ``(k, D)`` and gaps ``(k,)`` of the clusters, and the objective."""

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
        """State after ``rows`` have moved; None if that empties a cluster."""
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
    """Best cluster to move each point to, and the change of the objective by that move."""
    count, everyone = len(state.sizes), np.arange(len(labels))
    weights, own = points.weights[:, None], labels[:, None]
    centres = state.sums / state.sizes[:, None]
    distances = points.features @ (-2 * centres.T)
    distances += points.squares[:, None]
    distances += (centres**2).sum(axis=1)  # in place: a table of all points by all clusters
    np.maximum(distances, 0, out=distances)
    # Hartigan & Wong 1979: change of the inertia of the cluster that a point joins, and of the one that it leaves.
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
    """Change ``(m, k)`` of ``scale_j gap_j^2`` if cluster j gains (or loses) ``step`` rows like the point.

    ``rest`` ``(m, k)``: number of rows of the cluster after the move.
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
