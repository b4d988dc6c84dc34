import numpy as np
import pandas as pd
import pytest
from statsmodels.stats.proportion import proportion_confint

from pipeline.statistics.amplification.group_rates import group_rates

# 4 women (2 positive) and 5 men (2 positive)
ATTRIBUTES = pd.DataFrame({"women": [1] * 4 + [0] * 5, "men": [0] * 4 + [1] * 5})
LABELS = pd.DataFrame({"hired": [1, 1, 0, 0, 1, 1, 0, 0, 0]})
GUESSES = np.array([[1], [0], [1], [0], [1], [1], [0], [0], [1]])


def rates_of(metric, *arguments, **options):
    """The rows of one metric, by group and then by task."""
    frame = group_rates(*arguments, **options)
    return frame[frame["metric"] == metric]


@pytest.mark.parametrize(
    ("metric", "values"),
    [
        ("tpr", [0.5, 1]),
        ("fpr", [0.5, 1 / 3]),
        ("accuracy", [0.5, 0.8]),
        ("fpr difference", [1 / 3 - 0.5]),
        ("mean group accuracy", [0.65]),
        ("mean subgroup accuracy", [(0.5 + 0.5 + 1 + 2 / 3) / 4]),
    ],
)
def test_hand_computed_rates(metric, values):
    assert rates_of(metric, ATTRIBUTES, LABELS, predictions=GUESSES)["value"].tolist() == pytest.approx(values)


def test_table_has_the_requested_comparison():
    frame = group_rates(ATTRIBUTES, LABELS, predictions=GUESSES, between=("women", "men"))
    difference = frame[frame["metric"] == "tpr difference"].iloc[0]
    assert (difference["attribute"], difference["task"], difference["value"]) == ("men - women", "hired", 0.5)
    assert difference["low"] <= 0.5 <= difference["high"]
    assert len(frame) == 3 * 2 + 3 + 2


def test_rates_have_wilson_intervals_even_at_one():
    found = rates_of("tpr", ATTRIBUTES, LABELS, predictions=GUESSES)
    low, high = proportion_confint([1, 2], [2, 2], method="wilson")
    assert found["low"].to_numpy() == pytest.approx(low)
    assert found["high"].to_numpy() == pytest.approx(high)
    assert found["low"].iloc[1] < 0.5 < found["high"].iloc[1] == 1


def test_differences_have_newcombe_intervals():
    # Newcombe 1998, table II: 56 of 70 less 48 of 80, method 10.
    groups = np.eye(2, dtype=int)[np.repeat([0, 1], [80, 70])]
    guesses = np.concatenate([np.arange(80) < 48, np.arange(70) < 56]).astype(int)[:, None]
    found = rates_of("tpr difference", groups, np.ones((150, 1), dtype=int), predictions=guesses)
    assert found[["value", "low", "high"]].iloc[0].tolist() == pytest.approx([0.2, 0.0524, 0.3339], abs=5e-5)


@pytest.mark.parametrize("rates", [(0.9, 0.98), (0.5, 0.5), (0.97, 0.97)])
def test_coverage_of_differences_in_small_samples(rates):
    random = np.random.default_rng(0)
    groups, labels = np.eye(2, dtype=int)[np.repeat([0, 1], 30)], np.ones((60, 1000), dtype=int)
    guesses = (random.random((60, 1000)) < np.repeat(rates, 30)[:, None]).astype(int)
    found = rates_of("tpr difference", groups, labels, predictions=guesses)
    truth = rates[1] - rates[0]
    assert ((found.low <= truth) & (truth <= found.high)).mean() >= 0.93
    assert (found.high - found.low).min() > 0


def test_clusters_restore_the_coverage_of_correlated_rows():
    random = np.random.default_rng(0)
    person, truth = np.repeat(np.arange(40), 5), np.ones((200, 400), dtype=int)
    groups = np.eye(2, dtype=int)[person % 2]
    level = random.random((40, 400))
    guesses = (random.random((200, 400)) < (0.2 + 0.6 * (level > 0.5))[person]).astype(int)
    apart, whole = (
        rates_of("tpr difference", groups, truth, predictions=guesses, clusters=names)
        for names in (None, person.tolist())
    )
    inside = [((rates["low"] <= 0) & (rates["high"] >= 0)).mean() for rates in (apart, whole)]
    assert inside[0] < 0.85
    assert inside[1] >= 0.93


def test_interval_of_probabilities_follows_their_spread():
    random = np.random.default_rng(1)
    groups, chances = np.eye(2, dtype=int)[np.repeat([0, 1], 50)], random.uniform(0.4, 0.6, size=(100, 1))
    found = rates_of("tpr", groups, np.ones((100, 1), dtype=int), predictions=chances).iloc[0]
    error = chances[:50].std(ddof=1) / np.sqrt(50)
    assert found["high"] - found["low"] == pytest.approx(2 * 2.01 * error, rel=0.02)


def test_group_without_negatives_has_no_false_positive_rate():
    fpr, tpr = (rates_of(name, ATTRIBUTES, LABELS * 0 + 1, predictions=GUESSES)["value"] for name in ("fpr", "tpr"))
    assert np.isnan(fpr).all()
    assert tpr.tolist() == pytest.approx([0.5, 0.6])


def test_unknown_group_raises():
    with pytest.raises(ValueError, match="between must name two of the groups 'women', 'men', not 'others'"):
        group_rates(ATTRIBUTES, LABELS, predictions=GUESSES, between=("men", "others"))
