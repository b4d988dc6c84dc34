"""Topics of texts by latent Dirichlet allocation, and how much more of each a cluster holds than the other rows.

Single words of clusters are in ``explanations``.
"""

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
    """For each cluster the topics, the one first of which it holds most beyond the rows outside it.

    The topics are scikit-learn's LDA (variational Bayes) of the words of all texts; the share of a topic is the mean of
    its weight over texts. They depend on the number of topics and the seed, and describe clusters; nothing is tested.

    Args:
        texts: ``n`` of them.
        labels: ``(n,)`` cluster of each.
        topics: how many.
        words: named of each topic, the heaviest first.
        min_texts: texts that a word must stand in to be considered.
        language: of the commonest words that are left out: "english", or None for none.
        seed: of LDA.

    Returns:
        The columns of ``CLUSTER_TOPIC_COLUMNS``, ``rank`` from 1; empty where no word is left.

    Raises:
        ValueError: as many labels as texts are needed.

    Source: Blei, Ng & Jordan 2003; Zhao & Chang 2020 describe their clusters of texts so.
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
