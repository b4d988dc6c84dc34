"""Descriptions of clusters by central rows and by words of texts; and features centred by group."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.arrays import Floats, categories, check_count, check_rows, scores

WORD = r"(?u)\b[^\W\d_]{2,}\b"
TOPIC_COLUMNS = ("cluster", "rank", "word", "texts", "share_inside", "share_outside", "chi2")
EXEMPLAR_COLUMNS = ("cluster", "group", "rank", "row", "distance")


def exemplars(features: ArrayLike, labels: ArrayLike, groups: ArrayLike, *, count: int = 3) -> pd.DataFrame:
    """Rows of each group nearest to their cluster's mean.

    Args:
        features: ``(n, D)``, as for ``local_bias``.
        labels, groups: ``(n,)`` cluster and group of each row.
        count: largest number of rows of each group and cluster.

    Returns:
        The columns of ``EXEMPLAR_COLUMNS``: ``row`` counts from 0, ``rank`` from 1, nearest first (of equally near
        rows the earlier); ``distance`` is Euclidean, in units of the features.

    Raises:
        ValueError: invalid arrays; the message names them.
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
    """Words most over-represented in each cluster, by chi-squared.

    Words have two letters or more and are counted once per text, in lower case.

    Args:
        texts: ``n`` texts.
        labels: ``(n,)`` cluster of each.
        count: largest number of words of each cluster.
        min_texts: number of texts that must contain a word for it to be used.
        language: of the stop words: "english", or None for no stop words.

    Returns:
        The columns of ``TOPIC_COLUMNS``: ``texts`` is the number of texts of the cluster with the word, shares are of
        the texts inside and outside the cluster, ``chi2`` is of the 2 x 2 table (1 degree of freedom, no correction),
        largest first, then alphabetically.

    Raises:
        ValueError: the numbers of labels and texts differ, or an entry is not text.
    """
    (cluster,) = categories(labels=labels)
    check_rows({"labels": cluster, "texts": texts})
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts must hold text, but row {row} holds {text!r}")  # noqa: TRY004 - as all arguments
    from sklearn.feature_extraction.text import CountVectorizer

    vectors = CountVectorizer(binary=True, stop_words=language, token_pattern=WORD)
    try:
        contains = vectors.fit_transform(texts).tocsc()
    except ValueError:  # no word is left
        return pd.DataFrame(columns=list(TOPIC_COLUMNS))
    words = vectors.get_feature_names_out()
    total = np.asarray(contains.sum(axis=0), dtype=np.float64).reshape(-1)
    rows = []
    for number, name in enumerate(cluster.names[0]):
        inside = cluster.codes[:, 0] == number
        size, n = int(inside.sum()), len(inside)
        if not 0 < size < n:
            continue
        within = np.asarray(contains[inside].sum(axis=0), dtype=np.float64).reshape(-1)
        share_in, share_out, pooled = within / size, (total - within) / (n - size), total / n
        variance = pooled * (1 - pooled) * (1 / size + 1 / (n - size))
        chi2 = np.divide((share_in - share_out) ** 2, variance, out=np.zeros_like(variance), where=variance > 0)
        chosen = np.flatnonzero((share_in > share_out) & (total >= min_texts))
        chosen = chosen[np.lexsort((words[chosen], -chi2[chosen]))][:count]
        rows += [
            (name, rank, words[word], int(within[word]), share_in[word], share_out[word], chi2[word])
            for rank, word in enumerate(chosen, start=1)
        ]
    return pd.DataFrame(rows, columns=list(TOPIC_COLUMNS))


def centred_by_group(features: ArrayLike, groups: ArrayLike) -> Floats:
    """Features ``(n, D)`` less the mean of their group.

    A network that was trained to separate the groups, as the judge was, embeds them apart, and clusters of a single
    group have no gap. With equal means, clusters depend on other features. Outcomes are not used, so the permutation
    tests of ``local_bias`` remain valid.

    Raises:
        ValueError: invalid arrays; the message names them.
    """
    table = scores(features, "features")
    (group,) = categories(groups=groups)
    check_rows({"features": table, "groups": group})
    codes = group.joint()
    chosen = (codes == np.arange(codes.max() + 1)[:, None]).astype(np.float64)
    means = chosen @ table / chosen.sum(axis=1, keepdims=True)
    return np.asarray(table - means[codes])
