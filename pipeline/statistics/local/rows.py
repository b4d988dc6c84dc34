"""The rows of a search for local bias, their permutations, and a single search.

Rows are sorted by their bytes, so that results do not depend on their original order.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.arrays import Codes, Floats, categories, check_rows, scores
from pipeline.statistics.local.clustering import Aim, Points, cost, improve
from pipeline.statistics.local.figures import ClusterRules, LocalFigures, figures_of, merge_small
from pipeline.statistics.local.outcomes import Outcome

MAX_INERTIA = 1.05  # of the clusters of a chosen strength, relative to k-means
SCALES = ("none", "variance")
TWO_GROUPS = "groups must hold two groups, but holds {count}: {names}"


@dataclass(frozen=True, eq=False)
class SortedRows:
    """All ``n`` rows in a fixed order."""

    order: Codes  # (n,) original position of each row
    # unique, times: (u, D) distinct features, centred on the mean of all rows; (u,) number of rows of each
    unique: Floats
    times: Floats
    # which, group: (n,) position of each row's features in unique, and its group, 0 or 1
    which: Codes
    group: Codes
    outcome: Outcome  # of the rows
    names: tuple[str, str]  # of the two groups

    @classmethod
    def of(cls, features: ArrayLike, groups: ArrayLike, outcome: Outcome, *, scale: str) -> "SortedRows":
        """Check and sort rows; see ``local_bias`` for the arguments."""
        if scale not in SCALES:
            raise ValueError(f"scale must be 'none' or 'variance', not {scale!r}")
        table = scores(features, "features")
        (group,) = categories(groups=groups)
        check_rows({"features": table, "groups": group, "prediction": outcome.codes})
        codes = group.joint()
        names = [" ".join(str(part) for part in pair) for pair in _different(groups, codes)]
        if len(names) != 2:
            shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
            raise ValueError(TWO_GROUPS.format(count=len(names), names=shown))
        # The bytes of a row, with -0 as 0, give an order that is independent of the original one.
        keyed = np.column_stack([table, codes, outcome.codes]) + 0.0
        order = np.argsort(np.ascontiguousarray(keyed).view(f"V{keyed.shape[1] * 8}").reshape(-1), kind="stable")
        table = table[order]
        new = np.concatenate([[True], (table[1:] != table[:-1]).any(axis=1)])
        unique, which = table[new], np.cumsum(new) - 1
        times = np.bincount(which).astype(np.float64)
        unique = unique - times @ unique / len(table)
        if scale == "variance":
            variance = float(times @ (unique**2).sum(axis=1)) / len(table)
            unique = unique / np.sqrt(variance) if variance > 0 else unique
        return cls(order, unique, times, which, codes[order], outcome.take(order), (names[0], names[1]))

    def points(self, outcome: Outcome) -> tuple[Points, Codes]:
        """The distinct rows under an outcome, and the position ``(n,)`` of each row in them."""
        codes = outcome.codes
        key = (self.which * 2 + self.group) * (int(codes.max()) + 1) + codes
        _, first, which, times = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
        features = self.unique[self.which[first]]
        points = Points(features, times.astype(np.float64), self.group[first], outcome.take(first))
        return points, which.reshape(-1)


@dataclass(frozen=True, eq=False)
class Found:
    """Clusters ``(n,)`` of all rows in the fixed order, before and after merging."""

    unmerged: Codes
    labels: Codes
    figures: LocalFigures
    converged: bool
    aim: Aim | None


@dataclass(frozen=True, eq=False)
class Search:
    """Search for merged clusters given an outcome: of k-means without an aim, else the most biased of several aims."""

    rows: SortedRows
    start: Codes
    aims: tuple[Aim, ...]
    rules: ClusterRules
    count: int

    def clusters(self, outcome: Outcome) -> Found:
        """Find clusters for an outcome."""
        labels = self.start[self.rows.which]
        if not self.aims:
            return self._merged(labels, outcome, None, True)
        points, which = self.rows.points(outcome)
        start = np.empty(len(points.weights), dtype=np.intp)
        start[which] = labels
        limit = MAX_INERTIA * cost(points, start, self.aims[0], clusters=self.count)[0]
        found: list[Found] = []
        for aim in self.aims:
            better = improve(points, start, aim, clusters=self.count)
            if not found or better.inertia <= limit:
                found.append(self._merged(better.labels[which], outcome, aim, better.converged))
        return max(found, key=_bias)

    def _merged(self, labels: Codes, outcome: Outcome, aim: Aim | None, converged: bool) -> Found:
        rows, each = self.rows, np.ones(len(labels))
        features = rows.unique[rows.which]
        merged = merge_small(features, labels, rows.group, outcome.counted, weights=each, rules=self.rules)
        return Found(labels, merged, self.figures(merged, outcome), converged, aim)

    def figures(self, labels: Codes, outcome: Outcome) -> LocalFigures:
        """Figures of given clusters for an outcome."""
        return figures_of(labels, self.rows.group, outcome, weights=np.ones(len(labels)), rules=self.rules)


def _bias(found: Found) -> tuple[float, float]:
    """Criterion for choosing an aim: the share of biased clusters, then their mean gap."""
    figures = found.figures
    return float(np.nan_to_num(figures.bcr)), float(np.nan_to_num(figures.mean_biased_gap))


def shuffled(strata: Codes, random: np.random.Generator) -> Codes:
    """Random permutation of the rows within each stratum."""
    order = np.empty(len(strata), dtype=np.intp)
    order[np.argsort(strata, kind="stable")] = np.lexsort((random.random(len(strata)), strata))
    return order


def _different(groups: ArrayLike, codes: Codes) -> list[tuple[Any, ...]]:
    """Values of the groups, in the order of their codes."""
    table: NDArray[Any] = np.asarray(groups).reshape(len(codes), -1)
    return [tuple(table[np.argmax(codes == code)]) for code in np.unique(codes)]
