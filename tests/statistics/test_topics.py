"""Topics of clusters of texts_and_clusters by LDA."""

import numpy as np
import pytest

from pipeline.statistics.local.explanations import TOPIC_COLUMNS, cluster_topics


def texts_and_clusters():
    rng = np.random.default_rng(0)
    subjects = (["rain", "wind", "cloud", "storm"], ["goal", "match", "team", "score"])
    labels = rng.integers(0, 2, 120)
    return [" ".join(rng.choice(subjects[label], 6)) for label in labels], labels


def test_first_topic_of_a_cluster_has_the_words_of_its_texts():
    texts, labels = texts_and_clusters()
    table = cluster_topics(texts, labels, topics=2, words=4)
    assert list(table.columns) == list(TOPIC_COLUMNS)
    first = table[table["rank"] == 1].set_index("cluster")
    assert set(first.loc[0, "words"].split(", ")) == {"rain", "wind", "cloud", "storm"}
    assert set(first.loc[1, "words"].split(", ")) == {"goal", "match", "team", "score"}
    assert (first["difference"] > 0.5).all()
    assert table.groupby("cluster")["share_inside"].sum().to_numpy() == pytest.approx([1, 1])


def test_topics_are_reproducible_and_empty_without_words():
    texts, labels = texts_and_clusters()
    assert cluster_topics(texts, labels, topics=3).equals(cluster_topics(texts, labels, topics=3))
    assert cluster_topics(["a", "the"] * 3, [0, 1] * 3).empty
    with pytest.raises(ValueError, match="topics"):
        cluster_topics(texts, labels, topics=1)
