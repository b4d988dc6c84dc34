"""Who is shown: shares of perceived groups, how sure they are, and what they are without the classifier's errors.

Which photos are counted and who perceives them is decided elsewhere; the correction itself is in ``corrected_shares``.
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
    "{group}: the classifier's own probabilities contradict the corrected shares of {names}: its errors on held-out "
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
    """Shares of the categories among photos, raw and corrected: one row a category.

    The columns are those of ``REPRESENTATION_COLUMNS`` and ``contradicted``, for which see ``doubts``. The corrected
    ones are NaN without a confusion matrix; their intervals count its own uncertainty.

    The raw share's interval is Wilson's or Clopper and Pearson's; with clusters it is the bootstrap's over them. The
    corrected shares are those of ``true_shares`` with ``corrected_interval``, which with clusters takes as many photos
    as would tell as much if they were independent.

    Args:
        perceived: the category of each photo.
        categories: all there are, in the order of the result.
        group, attribute: names of the group of photos and of what is perceived.
        confusion: ``(C, C)`` counts of held-out faces, one row a true category, one column a perceived one; the errors
            on the photos are taken to be like those on the held-out faces.
        probabilities: ``(n, C)`` of each photo, which tell where that cannot be: see ``contradicted``.
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
    place = {name: number for number, name in enumerate(categories)}
    unknown = sorted({str(name) for name in perceived if name not in place})
    if unknown:
        raise ValueError(f"the column {attribute!r} holds {', '.join(unknown)}, but may hold {', '.join(categories)}")
    codes = np.array([place[name] for name in perceived], dtype=np.intp)
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
    """``(R, C)`` weights of the categories in each resample of clusters, ``(G, C)`` photos perceived as each category.

    The Bayesian bootstrap (Rubin 1981): clusters get exponential weights. One cluster's worth, shared out among the
    categories, is added, so that the spread of a category that was not seen is not 0.
    """
    random = np.random.default_rng([seed, 2])
    clusters, categories = table.shape
    weighted: Floats = random.standard_exponential((resamples, clusters)) @ table
    weighted += table.sum() / clusters * random.gamma(1 / categories, size=(resamples, categories))
    return weighted


def effective_counts(table: NDArray[np.int64]) -> Floats:
    """``(C,)`` counts of as many independent photos as tell as much as the clustered ones, ``(G, C)``.

    The photos are divided by the mean design effect (Rao & Scott 1981), at least 1; where all photos are alike, so
    that it cannot be known, by the mean size of a cluster.
    """
    counts = table.sum(axis=0)
    photos, shares = counts.sum(), counts / counts.sum()
    seen = (shares > 0) & (shares < 1)
    effect = photos / len(table)
    if seen.any() and len(table) > 1:
        rest = table - shares * table.sum(axis=1, keepdims=True)
        variance = (rest**2).sum(axis=0) * len(table) / (len(table) - 1) / photos**2
        effects = variance[seen] / (shares * (1 - shares) / photos)[seen]
        effect = ((1 - shares[seen]) * effects).sum() / (1 - shares[seen]).sum()
    return np.asarray(counts / max(effect, 1.0))


def _by_cluster(codes: NDArray[np.intp], clusters: Sequence[Hashable] | None, *, categories: int) -> NDArray[np.int64]:
    """``(G, C)`` counts of every cluster; one row where photos are independent."""
    if clusters is None:
        return np.bincount(codes, minlength=categories)[None].astype(np.int64)
    units = cluster_codes(clusters, rows=len(codes))
    table = np.zeros((units.max() + 1, categories), dtype=np.int64)
    np.add.at(table, (units, codes), 1)
    return table


def doubts(shares: pd.DataFrame) -> tuple[str, ...]:
    """What one should know of each group before its corrected shares are read.

    A category is ``contradicted`` where the classifier's own probabilities expect another share than the corrected
    interval holds: the matrix does not carry over to these photos.
    """
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
        perceived, categories: attribute -> the category of each photo, and all that there are.
        groups: the group of each photo.
        confusion, probabilities: attribute -> counts on held-out faces, and ``(n, C)`` probabilities of each photo.
        clusters, **options: as for ``represent``.
    """
    names = np.array(groups, dtype=object)
    confusion, probabilities, parts = confusion or {}, probabilities or {}, []
    for group in sorted(set(groups)):
        rows = np.flatnonzero(names == group).tolist()
        own = {"group": group, "clusters": None if clusters is None else [clusters[row] for row in rows], **options}
        for attribute, seen in perceived.items():
            table = np.asarray(probabilities[attribute])[rows] if attribute in probabilities else None
            how = {"attribute": attribute, "confusion": confusion.get(attribute), "probabilities": table, **own}
            parts.append(represent([seen[row] for row in rows], categories[attribute], **how))
    return stacked(parts, [*REPRESENTATION_COLUMNS, "contradicted"])
