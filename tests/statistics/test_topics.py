"""Topics of clusters of texts by LDA."""

import numpy as np
import pytest

from pipeline.statistics.local.explanations import TOPIC_COLUMNS, cluster_topics


def texts():
    rng = np.random.default_rng(0)
    subjects = (["rain", "wind", "cloud", "storm"], ["goal", "match", "team", "score"])
    labels = rng.integers(0, 2, 120)
    return [" ".join(rng.choice(subjects[label], 6)) for label in labels], labels


def test_the_first_topic_of_a_cluster_is_what_its_texts_are_about():
    written, labels = texts()
    table = cluster_topics(written, labels, topics=2, words=4)
    assert list(table.columns) == list(TOPIC_COLUMNS)
    first = table[table["rank"] == 1].set_index("cluster")
    assert set(first.loc[0, "words"].split(", ")) == {"rain", "wind", "cloud", "storm"}
    assert set(first.loc[1, "words"].split(", ")) == {"goal", "match", "team", "score"}
    assert (first["difference"] > 0.5).all()
    assert table.groupby("cluster")["share_inside"].sum().to_numpy() == pytest.approx([1, 1])


def test_the_same_seed_gives_the_same_topics_and_no_word_gives_none():
    written, labels = texts()
    assert cluster_topics(written, labels, topics=3).equals(cluster_topics(written, labels, topics=3))
    assert cluster_topics(["a", "the"] * 3, [0, 1] * 3).empty
    with pytest.raises(ValueError, match="topics"):
        cluster_topics(written, labels, topics=1)
