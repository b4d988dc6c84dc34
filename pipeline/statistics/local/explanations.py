"""Descriptions of clusters by central rows and by words and topics of texts; and features centred by group."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.arrays import Categories, Floats, categories, check_count, check_rows, scores

WORD = r"(?u)\b[^\W\d_]{2,}\b"
WORD_COLUMNS = ("cluster", "rank", "word", "texts", "share_inside", "share_outside", "chi2")
TOPIC_COLUMNS = ("cluster", "rank", "words", "share_inside", "share_outside", "difference")
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
        The columns of ``WORD_COLUMNS``: ``texts`` is the number of texts of the cluster with the word, shares are of
        the texts inside and outside the cluster, ``chi2`` is of the 2 x 2 table (1 degree of freedom, no correction),
        largest first, then alphabetically.

    Raises:
        ValueError: the numbers of labels and texts differ, or an entry is not text.
    """
    cluster, counts, words = _word_counts(texts, labels, language=language, binary=True)
    contains = counts.tocsc()
    total = np.asarray(contains.sum(axis=0), dtype=np.float64).reshape(-1)
    rows = []
    for name, inside in _parts(cluster):
        size, n = int(inside.sum()), len(inside)
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
    return pd.DataFrame(rows, columns=list(WORD_COLUMNS))


def cluster_topics(
    texts: Sequence[str],
    labels: ArrayLike,
    *,
    topics: int = 10,
    words: int = 8,
    min_texts: int = 3,
    language: str | None = "english",
    seed: int = 0,
) -> pd.DataFrame:
    """Rank the topics of each cluster by the difference of their shares inside and outside it.

    The topics are those of scikit-learn's LDA (variational Bayes) on all texts; the share of a topic is its mean weight
    over texts. They depend on the number of topics and the seed. The description is not a test.

    Args:
        texts: ``n`` texts.
        labels: ``(n,)`` cluster of each.
        topics: number of topics.
        words: number of words to name for each topic, by descending weight.
        min_texts: number of texts that must contain a word for it to be used.
        language: of the stop words: "english", or None for no stop words.
        seed: of LDA.

    Returns:
        The columns of ``TOPIC_COLUMNS``, ``rank`` from 1; empty if no word is left.

    Raises:
        ValueError: the numbers of labels and texts differ, or an entry is not text.

    Source: Blei, Ng & Jordan 2003; Zhao & Chang 2020 describe clusters of texts in this way.
    """
    check_count(topics, "topics", least=2)
    cluster, counts, names = _word_counts(texts, labels, language=language, min_df=min_texts)
    if not len(names):
        return pd.DataFrame(columns=list(TOPIC_COLUMNS))
    from sklearn.decomposition import LatentDirichletAllocation

    model = LatentDirichletAllocation(topics, random_state=seed)
    weights = model.fit_transform(counts)
    heaviest = [", ".join(names[np.argsort(-row, kind="stable")[:words]]) for row in model.components_]
    rows = []
    for name, inside in _parts(cluster):
        shares = weights[inside].mean(axis=0), weights[~inside].mean(axis=0)
        order = np.argsort(shares[1] - shares[0], kind="stable")
        rows += [
            (name, rank, heaviest[topic], shares[0][topic], shares[1][topic], shares[0][topic] - shares[1][topic])
            for rank, topic in enumerate(order, start=1)
        ]
    return pd.DataFrame(rows, columns=list(TOPIC_COLUMNS))


def _word_counts(
    texts: Sequence[str], labels: ArrayLike, *, language: str | None, **counting: Any
) -> tuple[Categories, Any, NDArray[np.str_]]:
    """Cluster of each text, counts of words ``(n, W)`` as a sparse array, and the words; W may be 0."""
    (cluster,) = categories(labels=labels)
    check_rows({"labels": cluster, "texts": texts})
    for row, text in enumerate(texts):
        if not isinstance(text, str):
            raise ValueError(f"texts must hold text, but row {row} holds {text!r}")  # noqa: TRY004 - as all arguments
    from scipy.sparse import csr_array
    from sklearn.feature_extraction.text import CountVectorizer

    vectors = CountVectorizer(stop_words=language, token_pattern=WORD, **counting)
    try:
        counts = vectors.fit_transform(texts)
    except ValueError:  # no word is left
        return cluster, csr_array((len(texts), 0)), np.empty(0, dtype=str)
    return cluster, counts, vectors.get_feature_names_out()


def _parts(cluster: Categories) -> Iterator[tuple[str, NDArray[np.bool_]]]:
    """Name and rows of each cluster that holds some of the texts, but not all."""
    for number, name in enumerate(cluster.names[0]):
        inside = cluster.codes[:, 0] == number
        if inside.any() and not inside.all():
            yield name, inside


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
