import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from pipeline.statistics.amplification.group_rates import group_rates

# 4 women (2 positive) and 5 men (2 positive)
ATTRIBUTES = pd.DataFrame({"women": [1] * 4 + [0] * 5, "men": [0] * 4 + [1] * 5})
LABELS = pd.DataFrame({"hired": [1, 1, 0, 0, 1, 1, 0, 0, 0]})
GUESSES = np.array([[1], [0], [1], [0], [1], [1], [0], [0], [1]])


def test_rates_by_hand():
    found = group_rates(ATTRIBUTES, LABELS, predictions=GUESSES)
    assert found.rates["tpr"].value.ravel().tolist() == [0.5, 1]
    assert found.rates["fpr"].value.ravel() == pytest.approx([0.5, 1 / 3])
    assert found.rates["accuracy"].value.ravel() == pytest.approx([0.5, 0.8])
    assert found.differences["fpr"].value.tolist() == pytest.approx([1 / 3 - 0.5])
    assert found.mean_group_accuracy.value.tolist() == pytest.approx([0.65])
    assert found.mean_subgroup_accuracy.value.tolist() == pytest.approx([(0.5 + 0.5 + 1 + 2 / 3) / 4])


def test_the_table_and_the_groups_compared():
    frame = group_rates(ATTRIBUTES, LABELS, predictions=GUESSES, between=("women", "men")).to_frame()
    difference = frame[frame["metric"] == "tpr difference"].iloc[0]
    assert (difference["attribute"], difference["task"], difference["value"]) == ("men - women", "hired", 0.5)
    assert difference["low"] <= 0.5 <= difference["high"]
    assert len(frame) == 3 * 2 + 3 + 2


def test_a_rate_has_wilson_s_interval_also_at_0_and_1():
    found = group_rates(ATTRIBUTES, LABELS, predictions=GUESSES).rates["tpr"]
    low, high = proportion_confint([1, 2], [2, 2], method="wilson")
    assert found.low.ravel() == pytest.approx(low)
    assert found.high.ravel() == pytest.approx(high)
    assert found.low[1, 0] < 0.5 < found.high[1, 0] == 1


def test_a_difference_has_newcombe_s_interval():
    # Newcombe 1998, table II: 56 of 70 less 48 of 80, method 10.
    groups = np.eye(2, dtype=int)[np.repeat([0, 1], [80, 70])]
    guesses = np.concatenate([np.arange(80) < 48, np.arange(70) < 56]).astype(int)[:, None]
    found = group_rates(groups, np.ones((150, 1), dtype=int), predictions=guesses).differences["tpr"]
    assert [found.value[0], found.low[0], found.high[0]] == pytest.approx([0.2, 0.0524, 0.3339], abs=5e-5)


@pytest.mark.parametrize("rates", [(0.9, 0.98), (0.5, 0.5), (0.97, 0.97)])
def test_intervals_of_differences_hold_the_truth_in_small_samples(rates):
    random = np.random.default_rng(0)
    groups, labels = np.eye(2, dtype=int)[np.repeat([0, 1], 30)], np.ones((60, 1000), dtype=int)
    guesses = (random.random((60, 1000)) < np.repeat(rates, 30)[:, None]).astype(int)
    found = group_rates(groups, labels, predictions=guesses).differences["tpr"]
    truth = rates[1] - rates[0]
    assert ((found.low <= truth) & (truth <= found.high)).mean() >= 0.93
    assert (found.high - found.low).min() > 0


def test_rows_of_one_cluster_count_together():
    random = np.random.default_rng(0)
    person, truth = np.repeat(np.arange(40), 5), np.ones((200, 400), dtype=int)
    groups = np.eye(2, dtype=int)[person % 2]
    level = random.random((40, 400))
    guesses = (random.random((200, 400)) < (0.2 + 0.6 * (level > 0.5))[person]).astype(int)
    apart, whole = (
        group_rates(groups, truth, predictions=guesses, clusters=names) for names in (None, person.tolist())
    )
    inside = [
        ((each.differences["tpr"].low <= 0) & (each.differences["tpr"].high >= 0)).mean() for each in (apart, whole)
    ]
    assert inside[0] < 0.85
    assert inside[1] >= 0.93


def test_probabilities_give_expected_rates_with_the_spread_seen():
    random = np.random.default_rng(1)
    groups, chances = np.eye(2, dtype=int)[np.repeat([0, 1], 50)], random.uniform(0.4, 0.6, size=(100, 1))
    found = group_rates(groups, np.ones((100, 1), dtype=int), predictions=chances).rates["tpr"]
    error = chances[:50].std(ddof=1) / np.sqrt(50)
    assert found.high[0, 0] - found.low[0, 0] == pytest.approx(2 * 2.01 * error, rel=0.02)


def test_a_group_without_negatives_has_no_false_positive_rate():
    found = group_rates(ATTRIBUTES, LABELS * 0 + 1, predictions=GUESSES)
    assert np.isnan(found.rates["fpr"].value).all()
    assert found.rates["tpr"].value.ravel() == pytest.approx([0.5, 0.6])


def test_an_unknown_group_is_refused():
    with pytest.raises(ValueError, match="between names 'others', which is not a group; there are 'women', 'men'"):
        group_rates(ATTRIBUTES, LABELS, predictions=GUESSES, between=("men", "others"))
