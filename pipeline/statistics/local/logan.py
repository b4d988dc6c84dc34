"""Local group bias (LOGAN, Zhao & Chang 2020): clusters in which two groups differ, with permutation tests."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Codes, Floats, check_choice, check_count
from pipeline.statistics.local.clustering import OBJECTIVES, Aim, cost, kmeans_labels
from pipeline.statistics.local.figures import STATISTICS, ClusterRules, LocalFigures
from pipeline.statistics.local.outcomes import Metric, outcome_of
from pipeline.statistics.local.rows import Found, Search, SortedRows, shuffled
from pipeline.statistics.predictability.attackers import one_blas_thread

Null = Literal["rerun", "fixed"]
NULLS = ("rerun", "fixed")
STRATA = ("group", "cluster")
TOO_FEW = "clusters = {clusters} needs as many distinct rows of features, but there are {different}"
NONE_REPORTED = "no cluster has {min_rows} rows of both groups (min_rows) and a metric: no permutation test was made"
NOT_CONVERGED = "the search for clusters stopped before it had converged"
SHARES_FIND_LITTLE = (
    "the tests of bcr and bir have almost no power (they find 0 to 1 % of simulated biases), because most clusters are "
    "biased by chance: use those of the gaps"
)
PARTS = ("p", "p_within_group", "p_within_cluster")
STRENGTHS = (1.0, 5.0, 10.0, 100.0)
FIXED = "p is too small, because the clusters were chosen to widen the gaps and then fixed: null='rerun' corrects this"


@dataclass(frozen=True, eq=False)
class Side:
    """Results of a clustering, by plain k-means or by the objective."""

    labels: Codes  # (n,) cluster of each row after merging; 0 is the largest
    figures: LocalFigures  # of these clusters
    # statistic -> permutation p, the larger of the two below; NaN without a statistic or permutations
    p: dict[str, float]
    # null: given the group, outcomes are independent of the position (the gap may be the same everywhere)
    p_within_group: dict[str, float]
    # null: given the k-means cluster, outcomes are independent of the group (clusters may differ in difficulty)
    p_within_cluster: dict[str, float]
    # (k,) p of each cluster's |gap| against the largest |gap| of all clusters under the same two nulls
    cluster_p: Floats
    inertia: float  # sum of squared distances to the cluster means before merging
    objective: float  # before merging


@dataclass(frozen=True, eq=False)
class LocalBias:
    """Local bias of a metric between two groups."""

    found: Side  # clusters of the objective
    kmeans: Side  # clusters of plain k-means, where the search started; found.objective <= kmeans.objective
    groups: tuple[str, str]  # names of group 0 and group 1; a gap is the metric of group 1 less that of group 0
    metric: str
    overall: tuple[float, float]  # the metric of each group over all rows
    permutations: int  # under each null
    null: Null  # "rerun": the search was repeated for every permutation; "fixed": it was not
    strength: float  # lambda
    notes: tuple[str, ...]  # on how to read the result

    @property
    def labels(self) -> Codes:
        """``(n,)`` cluster of each row."""
        return self.found.labels

    @property
    def inertia_ratio(self) -> float:
        """Inertia of the clusters found divided by that of k-means, both before merging."""
        return self.found.inertia / self.kmeans.inertia if self.kmeans.inertia > 0 else float("nan")

    def to_frame(self) -> pd.DataFrame:
        """A row per statistic: value, p and its two parts, value and p of k-means; then the inertia ratio."""
        found, names = self.found, list(STATISTICS)
        columns = {"statistic": names, "value": found.figures.statistics}
        columns |= {name: [getattr(found, name)[each] for each in names] for name in PARTS}
        columns |= {"kmeans": self.kmeans.figures.statistics, "kmeans_p": [self.kmeans.p[name] for name in names]}
        ratio = pd.DataFrame([{"statistic": "inertia_ratio", "value": self.inertia_ratio, "kmeans": 1.0}])
        rows = pd.concat([pd.DataFrame(columns), ratio], ignore_index=True)
        return rows.assign(metric=self.metric, null=self.null, permutations=self.permutations)

    def clusters_frame(self) -> pd.DataFrame:
        """A row per cluster: rows, rows and metric of each group, gap, whether it is reported and biased, p."""
        figures = self.found.figures
        columns: dict[str, Any] = {"cluster": np.arange(len(figures.rows)), "rows": figures.rows.astype(np.int64)}
        columns |= {f"rows {name}": rows for name, rows in zip(self.groups, figures.counted.T.astype(int), strict=True)}
        columns |= {f"{self.metric} {name}": part for name, part in zip(self.groups, figures.metric.T, strict=True)}
        columns |= {"gap": figures.gaps, "reported": figures.reported, "biased": figures.biased}
        return pd.DataFrame(columns | {"p": self.found.cluster_p})


def local_bias(
    features: ArrayLike,
    groups: ArrayLike,
    *,
    prediction: ArrayLike,
    truth: ArrayLike | None = None,
    metric: str | Metric = "accuracy",
    clusters: int = 10,
    strength: float | Sequence[float] = 5.0,
    objective: str = "literal",
    scale: str = "none",
    rules: ClusterRules = ClusterRules(),  # noqa: B008 - frozen
    permutations: int = 199,
    null: str = "rerun",
    starts: int = 10,
    seed: int = 0,
    advance: Callable[[int], None] = lambda _: None,
) -> LocalBias:
    """Find clusters in which the metric differs between groups, minimising ``inertia - strength * bias`` from k-means.

    p is the larger of two permutation tests, which shuffle outcomes within each group and within each k-means cluster.
    So neither a constant gap nor clusters that are harder for both groups count as local bias. The paper has no test;
    with a gap of 5 % and 20 to 100 rows, most of BCR and BIR is noise. ``docs/methods.md`` has the measured false
    positive rate and power. The result does not depend on the order of the rows or the number of cores.

    Args:
        features: ``(n, D)`` finite numbers, such as a network's embedding.
        groups: ``(n,)`` labels of exactly two groups.
        prediction, truth, metric: see ``outcome_of``.
        clusters: k before merging; 10 in the paper.
        strength: lambda; 0 gives k-means. Of several, such as the paper's ``STRENGTHS``, the one with the largest share
            of biased clusters is chosen (then the largest mean gap of these, then the smallest lambda) whose inertia is
            at most 1.05 times that of k-means; with ``null="rerun"``, in every permutation.
        objective: "literal": Eq. 2, a term per cluster, ``sum_j gap_j^2``; "weighted": ``sum_j n_j gap_j^2``.
        scale: "none"; "variance": divide the features by a constant so that their total variance is 1, which makes
            ``strength`` comparable between features and does not change k-means.
        rules: for merging, reporting, and calling clusters biased.
        permutations: under each of the two nulls; 0 for no tests.
        null: "rerun": repeat the search from the same k-means in every permutation, which is valid; "fixed": keep the
            clusters, which is valid for k-means only (whose own p are always of this kind).
        starts: number of starts of k-means.
        seed: of k-means and the permutations.
        advance: called with 1 after each of the ``2 * permutations`` permutations, which are skipped if no cluster is
            reported.

    Raises:
        ValueError: invalid arguments; the message names them.
    """
    strengths = tuple(strength) if isinstance(strength, Sequence) else (strength,)
    check_count(clusters, "clusters", least=2)
    check_count(permutations, "permutations")
    check_choice(objective, "objective", OBJECTIVES)
    check_choice(null, "null", NULLS)
    for each in strengths:
        if not 0 <= each < float("inf"):
            raise ValueError(f"strength must be 0 or more and finite, not {each}")
    rows = SortedRows.of(features, groups, outcome_of(prediction, truth, metric=metric), scale=scale)
    if clusters > len(rows.unique):
        raise ValueError(TOO_FEW.format(clusters=clusters, different=len(rows.unique)))
    aims = tuple(Aim(each, objective) for each in strengths)  # type: ignore[arg-type]
    with one_blas_thread():
        start = kmeans_labels(rows.unique, rows.times, clusters=clusters, seed=seed, starts=starts)
        plain = Search(rows, start, (), rules, clusters)
        searching = plain if strengths == (0,) else Search(rows, start, aims, rules, clusters)
        kmeans, found = plain.clusters(rows.outcome), searching.clusters(rows.outcome)
        if not (kmeans.figures.reported.any() or found.figures.reported.any()):
            advance(2 * permutations)  # nothing to test
            permutations = 0
        nulls: dict[str, Floats] = {}
        for number, (name, strata) in enumerate(zip(STRATA, (rows.group, kmeans.labels), strict=True)):
            nulls[name] = np.empty((permutations, 2, len(STATISTICS)))  # of k-means, and of the clusters found
            for repeat in range(permutations):
                outcome = rows.outcome.take(shuffled(strata, np.random.default_rng([seed, number, repeat])))
                figures = permuted = plain.figures(kmeans.labels, outcome)
                if searching is not plain and null == "rerun":
                    permuted = searching.clusters(outcome).figures
                elif searching is not plain:
                    permuted = plain.figures(found.labels, outcome)
                nulls[name][repeat] = figures.statistics, permuted.statistics
                advance(1)
        sides = []
        for place, side in enumerate((kmeans, found)):
            own = {name: table[:, place] for name, table in nulls.items()}
            sides.append(_side(rows, side, found.aim or aims[0], clusters=clusters, nulls=own))
    notes = {
        NONE_REPORTED.format(min_rows=rules.min_rows): not found.figures.reported.any(),
        NOT_CONVERGED: not found.converged,
        FIXED: null == "fixed" and searching is not plain and permutations,
        SHARES_FIND_LITTLE: permutations,
    }
    overall = rows.outcome.by_cell(rows.group, np.ones(len(rows.group)), count=2)
    return LocalBias(
        found=sides[1],
        kmeans=sides[0],
        groups=rows.names,
        metric=metric if isinstance(metric, str) else getattr(metric, "__name__", "metric"),
        overall=(float(overall[0]), float(overall[1])),
        permutations=permutations,
        null=null,  # type: ignore[arg-type]
        strength=(found.aim or aims[0]).strength,
        notes=tuple(note for note, holds in notes.items() if holds),
    )


def _side(rows: SortedRows, found: Found, aim: Aim, *, clusters: int, nulls: dict[str, Floats]) -> Side:
    """Results of a clustering, in the original order of the rows."""
    points, which = rows.points(rows.outcome)
    labels = np.empty(len(points.weights), dtype=np.intp)
    labels[which] = found.unmerged
    inertia, value = cost(points, labels, aim, clusters=clusters)
    restored = np.empty(len(found.labels), dtype=np.intp)
    restored[rows.order] = found.labels
    observed = found.figures.statistics
    largest = STATISTICS.index("max_gap")
    by_null = {name: dict(zip(STATISTICS, _p(observed, null), strict=True)) for name, null in nulls.items()}
    gaps = np.where(found.figures.reported, np.abs(found.figures.gaps), np.nan)
    cluster_p = np.max([_p(gaps, null[:, [largest]]) for null in nulls.values()], axis=0)
    return Side(
        labels=restored,
        figures=found.figures,
        p={name: float(np.max([part[name] for part in by_null.values()])) for name in STATISTICS},
        p_within_group=by_null["group"],
        p_within_cluster=by_null["cluster"],
        cluster_p=cluster_p,
        inertia=inertia,
        objective=value,
    )


def _p(observed: Floats, null: Floats) -> Floats:
    """``(1 + #{permuted >= observed}) / (1 + R)`` of ``(s,)`` statistics, given ``(R, s)`` or ``(R, 1)``."""
    if not len(null):
        return np.full(len(observed), np.nan)
    as_large = (np.nan_to_num(null) >= observed - 1e-12).sum(axis=0)
    return np.where(np.isnan(observed), np.nan, (1 + as_large) / (1 + len(null)))
