"""What makes a cluster: its nearest rows of each group and the words of its texts; and features without the groups.

Clusters themselves are found in ``clustering``.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Floats, categories, check_count, check_rows, scores

WORD = r"(?u)\b[^\W\d_]{2,}\b"
TOPIC_COLUMNS = ("cluster", "rank", "word", "texts", "share_inside", "share_outside", "chi2")
EXEMPLAR_COLUMNS = ("cluster", "group", "rank", "row", "distance")


def exemplars(features: ArrayLike, labels: ArrayLike, groups: ArrayLike, *, count: int = 3) -> pd.DataFrame:
    """The rows nearest their cluster's mean, of each group: the columns of ``EXEMPLAR_COLUMNS``.

    Args:
        features: ``(n, D)`` as given to ``local_bias``.
        labels, groups: ``(n,)`` cluster and group of each row.
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
    check_count(count, "count", least=1)
    codes, of_group = cluster.codes[:, 0], group.codes[:, 0]
    means = np.zeros((len(cluster.names[0]), table.shape[1]))
    for number in np.unique(codes):
        means[number] = table[codes == number].mean(axis=0)
    distances = np.linalg.norm(table - means[codes], axis=1)
    order = np.lexsort((distances, of_group, codes))
    columns = {"cluster": cluster.names[0][codes], "group": group.names[0][of_group], "row": np.arange(len(codes))}
    nearest = pd.DataFrame(columns | {"distance": distances}).iloc[order]
    nearest["rank"] = nearest.groupby(["cluster", "group"]).cumcount() + 1
    return nearest.loc[nearest["rank"] <= count, list(EXEMPLAR_COLUMNS)].reset_index(drop=True)


def topic_words(
    texts: Sequence[str], labels: ArrayLike, *, count: int = 10, min_texts: int = 3, language: str | None = "english"
) -> pd.DataFrame:
    """For each cluster the words most over-represented in it, by chi-squared: the columns of ``TOPIC_COLUMNS``.

    Words are counted once a text, in lower case, of two letters or more.

    Args:
        texts: ``n`` of them.
        labels: ``(n,)`` cluster of each.
        count: words a cluster; fewer where no more are over-represented.
        min_texts: texts that a word must stand in to be considered.
        language: of the commonest words that are left out: "english", or None for none.

    Returns:
        ``texts``: those of the cluster that have the word; shares 0-1 of the texts inside and outside the cluster;
        ``chi2`` of the two by two table (1 degree of freedom, no correction), largest first, then by the alphabet.

    Raises:
        ValueError: as many labels as texts are needed, and texts must be text.
    """
    (cluster,) = categories(labels=labels)
    check_rows({"labels": cluster, "texts": texts})
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts must hold text, but row {row} holds {text!r}")  # noqa: TRY004 - as all arguments
    from sklearn.feature_extraction.text import CountVectorizer

    vectors = CountVectorizer(binary=True, stop_words=language, token_pattern=WORD)
    try:
        there = vectors.fit_transform(texts).tocsc()
    except ValueError:  # no word is left
        return pd.DataFrame(columns=list(TOPIC_COLUMNS))
    words = vectors.get_feature_names_out()
    total = np.asarray(there.sum(axis=0), dtype=np.float64).reshape(-1)
    rows = []
    for number, name in enumerate(cluster.names[0]):
        inside = cluster.codes[:, 0] == number
        size, n = int(inside.sum()), len(inside)
        if not 0 < size < n:
            continue
        have = np.asarray(there[inside].sum(axis=0), dtype=np.float64).reshape(-1)
        share_in, share_out, pooled = have / size, (total - have) / (n - size), total / n
        variance = pooled * (1 - pooled) * (1 / size + 1 / (n - size))
        chi2 = np.divide((share_in - share_out) ** 2, variance, out=np.zeros_like(variance), where=variance > 0)
        chosen = np.flatnonzero((share_in > share_out) & (total >= min_texts))
        chosen = chosen[np.lexsort((words[chosen], -chi2[chosen]))][:count]
        rows += [
            (name, rank, words[word], int(have[word]), share_in[word], share_out[word], chi2[word])
            for rank, word in enumerate(chosen, start=1)
        ]
    return pd.DataFrame(rows, columns=list(TOPIC_COLUMNS))


def centred_by_group(features: ArrayLike, groups: ArrayLike) -> Floats:
    """``(n, D)`` features less the mean of their ``(n,)`` group.

    A network that was trained to tell the groups apart, as the judge was, puts them in places of their own; clusters of
    one group have no gap. With equal means, rows are alike by what else there is. Outcomes are not used, so the
    permutation tests of ``local_bias`` stay valid.

    Raises:
        ValueError: arrays that cannot be, named.
    """
    table = scores(features, "features")
    (group,) = categories(groups=groups)
    check_rows({"features": table, "groups": group})
    codes = group.joint()
    chosen = (codes == np.arange(codes.max() + 1)[:, None]).astype(np.float64)
    means = chosen @ table / chosen.sum(axis=1, keepdims=True)
    return np.asarray(table - means[codes])
