"""Shares of perceived groups among photos, with intervals, raw and corrected for the classifier's errors.

The correction itself is in ``corrected_shares``.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.arrays import Floats, check_count, check_level, cluster_codes
from pipeline.statistics.corrected_shares import contradicted, corrected_interval, recall, true_shares
from pipeline.statistics.inference import RESAMPLES, share_interval
from pipeline.statistics.photo_slopes import stacked

ShareMethod = Literal["wilson", "exact"]
NOT_CARRIED_OVER = (
    "{group}: the classifier's own probabilities contradict the corrected shares of {names}. Its errors on held-out "
    "faces do not carry over to these photos, so read the uncorrected shares"
)
REPRESENTATION_COLUMNS = (
    *("group", "attribute", "category", "photos", "count", "share", "share_low", "share_high"),
    *("corrected", "corrected_low", "corrected_high"),
)


def represent(
    perceived: Sequence[str],
    categories: Sequence[str],
    *,
    group: str = "",
    attribute: str = "",
    confusion: ArrayLike | None = None,
    probabilities: ArrayLike | None = None,
    method: ShareMethod = "wilson",
    clusters: Sequence[Hashable] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
) -> pd.DataFrame:
    """Shares of the categories among photos, raw and corrected: a row per category.

    The columns are ``REPRESENTATION_COLUMNS`` and ``contradicted`` (see ``doubts``). The corrected shares are NaN
    without a confusion matrix; their intervals include its uncertainty.

    The interval of a raw share is Wilson's or Clopper and Pearson's, or with clusters a bootstrap interval. The
    corrected shares are those of ``true_shares`` with ``corrected_interval``; with clusters the interval uses the
    effective number of independent photos.

    Args:
        perceived: the category of each photo.
        categories: all categories, in the order of the result.
        group, attribute: names of the group of photos and of what is perceived.
        confusion: ``(C, C)`` counts of held-out faces, a row per true and a column per perceived category. The errors
            on the photos are assumed to be like those on the held-out faces.
        probabilities: ``(n, C)`` for each photo, used to check that assumption: see ``contradicted``.
        method: "wilson" or "exact".
        clusters: of each photo, where photos are not independent (several of one person).
        resamples, seed: of the bootstrap; the same seed gives the same bytes.
        level: of the intervals, 0-1.

    Raises:
        ValueError: no photo, an unknown category, or a matrix that does not fit.
    """
    if not len(perceived):
        raise ValueError(f"the group {group!r} has no photo with a perceived {attribute or 'category'}")
    check_level(level)
    check_count(resamples, "resamples", least=1)
    codes = pd.Index(categories).get_indexer(pd.Index(perceived))
    unknown = sorted({str(name) for name, code in zip(perceived, codes, strict=True) if code < 0})
    if unknown:
        raise ValueError(f"the column {attribute!r} holds {', '.join(unknown)}, but may hold {', '.join(categories)}")
    table = _by_cluster(codes, clusters, categories=len(categories))
    counts = table.sum(axis=0)
    corrected, *ends = np.full((3, len(categories)), np.nan)
    outside = np.zeros(len(categories), dtype=bool)
    if confusion is not None:
        matrix = np.asarray(confusion, dtype=np.float64)
        corrected = true_shares(counts, recall(matrix))
        independent = counts if clusters is None else effective_counts(table)
        ends = list(corrected_interval(independent, matrix, level=level))
        if probabilities is not None:
            outside = contradicted(probabilities, *ends, level=level)
    if clusters is None:
        low, high = share_interval(counts, counts.sum(), method=method, level=level)
    else:
        drawn = resampled_counts(table, resamples=resamples, seed=seed)
        shares = drawn / drawn.sum(axis=1, keepdims=True)
        low, high = np.quantile(shares, [(1 - level) / 2, (1 + level) / 2], axis=0)
    columns = {
        "group": group, "attribute": attribute, "category": list(categories), "photos": int(counts.sum()),
        "count": counts, "share": counts / counts.sum(), "share_low": low, "share_high": high,
        "corrected": corrected, "corrected_low": ends[0], "corrected_high": ends[1], "contradicted": outside,
    }  # fmt: skip
    return pd.DataFrame(columns)


def resampled_counts(table: NDArray[np.int64], *, resamples: int, seed: int) -> Floats:
    """Resample clusters, ``(G, C)`` photos by category, by the Bayesian bootstrap (Rubin 1981).

    Clusters get exponential weights. The photos of one average cluster, divided among the categories, are added, so
    that an unobserved category does not have zero variance.

    Returns:
        ``(R, C)`` weights of the categories in each resample.
    """
    random = np.random.default_rng([seed, 2])
    clusters, categories = table.shape
    weighted: Floats = random.standard_exponential((resamples, clusters)) @ table
    weighted += table.sum() / clusters * random.gamma(1 / categories, size=(resamples, categories))
    return weighted


def effective_counts(table: NDArray[np.int64]) -> Floats:
    """Effective counts ``(C,)``: those of independent photos with the same information as clusters ``(G, C)``.

    The counts are divided by the mean design effect (Rao & Scott 1981), at least 1. If all photos are of the same
    category, the effect is unknown and the mean size of a cluster is used instead.
    """
    counts = table.sum(axis=0)
    photos, shares = counts.sum(), counts / counts.sum()
    observed = (shares > 0) & (shares < 1)
    effect = photos / len(table)
    if observed.any() and len(table) > 1:
        deviations = table - shares * table.sum(axis=1, keepdims=True)
        variance = (deviations**2).sum(axis=0) * len(table) / (len(table) - 1) / photos**2
        effects = variance[observed] / (shares * (1 - shares) / photos)[observed]
        effect = ((1 - shares[observed]) * effects).sum() / (1 - shares[observed]).sum()
    return np.asarray(counts / max(effect, 1.0))


def _by_cluster(codes: NDArray[np.intp], clusters: Sequence[Hashable] | None, *, categories: int) -> NDArray[np.int64]:
    """Counts ``(G, C)`` of every cluster; a single row for independent photos."""
    units = np.zeros_like(codes) if clusters is None else cluster_codes(clusters, rows=len(codes))
    return np.bincount(units * categories + codes, minlength=(units.max() + 1) * categories).reshape(-1, categories)


def doubts(shares: pd.DataFrame) -> tuple[str, ...]:
    """Warn of each group whose corrected shares the classifier's own probabilities contradict (``contradicted``)."""
    rows = shares[shares["contradicted"].astype(bool)].groupby(["group", "attribute"], sort=False)["category"]
    return tuple(NOT_CARRIED_OVER.format(group=group, names=", ".join(names)) for (group, _), names in rows)


def shares_by_group(
    perceived: Mapping[str, Sequence[str]],
    categories: Mapping[str, Sequence[str]],
    groups: Sequence[str],
    *,
    confusion: Mapping[str, ArrayLike] | None = None,
    probabilities: Mapping[str, ArrayLike] | None = None,
    clusters: Sequence[Hashable] | None = None,
    **options: Any,
) -> pd.DataFrame:
    """``represent`` for every group of photos and every attribute in one frame, groups sorted.

    Args:
        perceived, categories: attribute -> the category of each photo, and all its categories.
        groups: the group of each photo.
        confusion, probabilities: attribute -> counts on held-out faces, and ``(n, C)`` probabilities.
        clusters, **options: as for ``represent``.
    """
    confusion, probabilities, parts = confusion or {}, probabilities or {}, []
    for group in sorted(set(groups)):
        rows = [row for row, name in enumerate(groups) if name == group]
        own = {"group": group, "clusters": None if clusters is None else [clusters[row] for row in rows], **options}
        for attribute, names in perceived.items():
            table = np.asarray(probabilities[attribute])[rows] if attribute in probabilities else None
            own |= {"attribute": attribute, "confusion": confusion.get(attribute), "probabilities": table}
            parts.append(represent([names[row] for row in rows], categories[attribute], **own))
    return stacked(parts, [*REPRESENTATION_COLUMNS, "contradicted"])
