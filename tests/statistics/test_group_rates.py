import numpy as np
import pandas as pd
import pytest

from pipeline.statistics.amplification.counts import Resamples, interval
from pipeline.statistics.amplification.group_rates import group_rates
from pipeline.statistics.inference import Units

# 4 women (2 positive) and 5 men (2 positive)
ATTRIBUTES = pd.DataFrame({"women": [1] * 4 + [0] * 5, "men": [0] * 4 + [1] * 5})
LABELS = pd.DataFrame({"hired": [1, 1, 0, 0, 1, 1, 0, 0, 0]})
GUESSES = np.array([[1], [0], [1], [0], [1], [1], [0], [0], [1]])


def test_rates_by_hand():
    found = group_rates(ATTRIBUTES, LABELS, predictions=GUESSES, resamples=50)
    assert found.rates["tpr"].value.ravel().tolist() == [0.5, 1]
    assert found.rates["fpr"].value.ravel() == pytest.approx([0.5, 1 / 3])
    assert found.rates["accuracy"].value.ravel() == pytest.approx([0.5, 0.8])
    assert found.differences["fpr"].value.tolist() == pytest.approx([0.5 - 1 / 3])
    assert found.mean_group_accuracy.value.tolist() == pytest.approx([0.65])
    assert found.mean_subgroup_accuracy.value.tolist() == pytest.approx([(0.5 + 0.5 + 1 + 2 / 3) / 4])


def test_the_table_and_the_groups_compared():
    frame = group_rates(ATTRIBUTES, LABELS, predictions=GUESSES, between=("men", "women"), resamples=50).to_frame()
    difference = frame[frame["metric"] == "tpr difference"].iloc[0]
    assert (difference["attribute"], difference["task"], difference["value"]) == ("men - women", "hired", 0.5)
    assert difference["low"] <= 0.5 <= difference["high"]
    assert len(frame) == 3 * 2 + 3 + 2


def test_the_interval_of_a_difference_equals_a_plain_bootstrap():
    random = np.random.default_rng(0)
    attributes, labels = np.eye(2, dtype=np.int8)[random.integers(0, 2, 80)], random.integers(0, 2, size=(80, 1))
    guesses = random.integers(0, 2, size=(80, 1))
    found = group_rates(attributes, labels, predictions=guesses, resamples=100).differences["fpr"]
    values = []
    for weights in Resamples.of(Units.of(80), resamples=100, seed=0, level=0.95).weights.astype(int):
        rows = np.repeat(np.arange(80), weights)
        again = group_rates(attributes[rows], labels[rows], predictions=guesses[rows], resamples=0)
        values.append(again.differences["fpr"].value[0])
    expected = interval(np.array([values]), 0.95, units=attributes.sum(axis=0).min())
    assert [found.low[0], found.high[0]] == pytest.approx([end[0] for end in expected])


def test_a_group_without_negatives_has_no_false_positive_rate():
    found = group_rates(ATTRIBUTES, LABELS * 0 + 1, predictions=GUESSES, resamples=20)
    assert np.isnan(found.rates["fpr"].value).all()
    assert found.rates["tpr"].value.ravel() == pytest.approx([0.5, 0.6])


def test_an_unknown_group_is_refused():
    with pytest.raises(ValueError, match="between names 'others', which is not a group; there are 'women', 'men'"):
        group_rates(ATTRIBUTES, LABELS, predictions=GUESSES, between=("men", "others"))
