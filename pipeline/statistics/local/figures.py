"""Bias statistics of a clustering (Zhao & Chang 2020), such as gaps between groups and BCR; merging of clusters."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pipeline.statistics.arrays import Codes, Floats
from pipeline.statistics.local.outcomes import Outcome

# The gaps come first: most clusters are biased by chance, so BCR and BIR have almost no power.
STATISTICS = ("max_gap", "mean_gap", "mean_biased_gap", "bcr", "bir")


@dataclass(frozen=True)
class ClusterRules:
    """Rules for reporting and merging clusters and for calling them biased."""

    min_rows: int = 20  # counted rows of each group that a cluster needs to be reported
    fewest: int = 5  # clusters are merged until all have min_rows, or only this many are left
    min_gap: float = 0.05  # |gap| in 0-1 from which a cluster is called biased


@dataclass(frozen=True, eq=False)
class LocalFigures:
    """Bias statistics of ``k`` clusters."""

    rows: NDArray[Any]  # (k,) all rows
    # counted, metric: (k, 2) counted rows of each group, and their metric, NaN where not defined
    counted: NDArray[Any]
    metric: Floats
    # reported, biased: (k,) clusters with enough rows and a metric of both groups; and those of them with a large gap
    reported: NDArray[np.bool_]
    biased: NDArray[np.bool_]
    bcr: float  # share of biased clusters among the reported ones
    bir: float  # share of rows in biased clusters among those in reported ones
    mean_biased_gap: float  # mean |gap| of the biased clusters ("|Bias|"); 0 if there are none
    # max_gap, mean_gap: of |gap| over the reported clusters
    max_gap: float
    mean_gap: float

    @property
    def gaps(self) -> Floats:
        """Metric of group 1 less that of group 0, ``(k,)``."""
        return self.metric[:, 1] - self.metric[:, 0]

    @property
    def statistics(self) -> Floats:
        """Values in the order of ``STATISTICS``; NaN if no cluster is reported."""
        return np.array([getattr(self, name) for name in STATISTICS])


def figures_of(labels: Codes, group: Codes, outcome: Outcome, *, weights: Floats, rules: ClusterRules) -> LocalFigures:
    """Statistics of clusters 0 .. k-1 from the cluster, group (0 or 1), outcome and weight of ``n`` rows."""
    count = int(labels.max()) + 1
    cells = 2 * labels + group
    counted = np.bincount(cells, weights=weights * outcome.counted, minlength=2 * count).reshape(-1, 2)
    metric = outcome.by_cell(cells, weights, count=2 * count).reshape(-1, 2)
    return figures_of_cells(np.bincount(labels, weights=weights), counted, metric, rules=rules)


def figures_of_cells(rows: NDArray[Any], counted: NDArray[Any], metric: Floats, *, rules: ClusterRules) -> LocalFigures:
    """Statistics from rows, counted rows and metric of each cluster, see ``LocalFigures``."""
    gaps = np.abs(metric[:, 1] - metric[:, 0])
    reported = (counted >= rules.min_rows).all(axis=1) & np.isfinite(gaps)
    # 0.80 - 0.75 is slightly below 0.05 in floating point.
    biased = reported & (np.nan_to_num(gaps) >= rules.min_gap - 1e-12)
    figures = [float("nan")] * len(STATISTICS)
    if reported.any():
        bcr, bir = biased.sum() / reported.sum(), rows[biased].sum() / rows[reported].sum()
        mean_biased = gaps[biased].mean() if biased.any() else 0.0
        figures = [float(part) for part in (bcr, bir, mean_biased, gaps[reported].max(), gaps[reported].mean())]
    return LocalFigures(rows, counted, metric, reported, biased, *figures)


def merge_small(
    features: Floats, labels: Codes, group: Codes, counted: NDArray[np.bool_], *, weights: Floats, rules: ClusterRules
) -> Codes:
    """Merge small clusters, smallest first, into the cluster with the nearest mean, as the rules say.

    The smallest cluster has the fewest counted rows of its rarer group. (The authors' code merges into the cluster with
    the smallest dot product of the means, which is the most dissimilar one.) Returns ``(n,)`` labels by size; 0 is the
    largest.
    """
    count = int(labels.max()) + 1
    rare = np.bincount(2 * labels + group, weights=weights * counted, minlength=2 * count).reshape(-1, 2)
    sizes = np.bincount(labels, weights=weights, minlength=count)
    sums = (labels == np.arange(count)[:, None]).astype(np.float64) @ (weights[:, None] * features)
    merged = np.arange(count)
    alive = sizes > 0
    while alive.sum() > max(rules.fewest, 1):
        fewest = np.where(alive, rare.min(axis=1), np.inf)
        small = int(np.argmin(fewest))
        if fewest[small] >= rules.min_rows:
            break
        centres = sums / np.where(alive, sizes, 1.0)[:, None]
        distances = ((centres - centres[small]) ** 2).sum(axis=1)
        near = int(np.argmin(np.where(alive & (np.arange(count) != small), distances, np.inf)))
        for table in (rare, sizes, sums):
            table[near] += table[small]
        alive[small] = False
        merged[merged == small] = near
    order = np.lexsort((np.arange(count), -np.where(alive, sizes, -1.0)))
    number = np.empty(count, dtype=np.intp)
    number[order] = np.arange(count)
    return number[merged[labels]]
