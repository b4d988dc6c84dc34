"""Topics of texts by latent Dirichlet allocation, and their shares inside and outside each cluster."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from pipeline.statistics.arrays import categories, check_count, check_rows
from pipeline.statistics.local.explanations import WORD

CLUSTER_TOPIC_COLUMNS = ("cluster", "rank", "words", "share_inside", "share_outside", "difference")


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
        The columns of ``CLUSTER_TOPIC_COLUMNS``, ``rank`` from 1; empty if no word is left.

    Raises:
        ValueError: the numbers of labels and texts differ.

    Source: Blei, Ng & Jordan 2003; Zhao & Chang 2020 describe clusters of texts in this way.
    """
    (cluster,) = categories(labels=labels)
    check_rows({"labels": cluster, "texts": texts})
    check_count(topics, "topics", least=2)
    from sklearn.decomposition import LatentDirichletAllocation
    from sklearn.feature_extraction.text import CountVectorizer

    vectors = CountVectorizer(stop_words=language, token_pattern=WORD, min_df=min_texts)
    try:
        counted = vectors.fit_transform(texts)
    except ValueError:  # no word is left
        return pd.DataFrame(columns=list(CLUSTER_TOPIC_COLUMNS))
    model = LatentDirichletAllocation(topics, random_state=seed)
    weights = model.fit_transform(counted)
    names = vectors.get_feature_names_out()
    heaviest = [", ".join(names[np.argsort(-row, kind="stable")[:words]]) for row in model.components_]
    rows = []
    for number, name in enumerate(cluster.names[0]):
        inside = cluster.codes[:, 0] == number
        if inside.all() or not inside.any():
            continue
        shares = weights[inside].mean(axis=0), weights[~inside].mean(axis=0)
        order = np.argsort(shares[1] - shares[0], kind="stable")
        rows += [
            (name, rank, heaviest[topic], shares[0][topic], shares[1][topic], shares[0][topic] - shares[1][topic])
            for rank, topic in enumerate(order, start=1)
        ]
    return pd.DataFrame(rows, columns=list(CLUSTER_TOPIC_COLUMNS))
