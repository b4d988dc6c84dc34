"""What makes a cluster: the rows nearest its centre, of each group. Words of texts are in ``topic_words``."""

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.categories import categories, check_rows, scores

EXEMPLAR_COLUMNS = ("cluster", "group", "rank", "row", "distance")


def exemplars(features: ArrayLike, labels: ArrayLike, groups: ArrayLike, *, count: int = 3) -> pd.DataFrame:
    """The rows nearest their cluster's mean, of each group: the columns of ``EXEMPLAR_COLUMNS``.

    Args:
        features: ``(n, D)`` as given to ``local_bias``.
        labels: ``(n,)`` cluster of each row.
        groups: ``(n,)``.
        count: how many of each group and cluster; fewer where there are not as many.

    Returns:
        ``row`` counts from 0, ``rank`` from 1, nearest first (of equally near the earlier row); ``distance`` is
        Euclidean, in the features' unit.

    Raises:
        ValueError: arrays that cannot be, named.
    """
    table = scores(features, "features")
    (cluster,), (group,) = categories(labels=labels), categories(groups=groups)
    check_rows({"features": table, "labels": cluster, "groups": group})
    if count < 1:
        raise ValueError(f"count must be 1 or more, not {count}")
    rows = []
    for number, name in enumerate(cluster.names[0]):
        inside = np.flatnonzero(cluster.codes[:, 0] == number)
        if not len(inside):
            continue
        distances = np.linalg.norm(table[inside] - table[inside].mean(axis=0), axis=1)
        nearest = inside[np.argsort(distances, kind="stable")]
        ordered = np.sort(distances)
        for code, group_name in enumerate(group.names[0]):
            own = group.codes[nearest, 0] == code
            for rank, (row, distance) in enumerate(zip(nearest[own][:count], ordered[own][:count], strict=True), 1):
                rows.append((name, group_name, rank, int(row), float(distance)))
    return pd.DataFrame(rows, columns=list(EXEMPLAR_COLUMNS))
