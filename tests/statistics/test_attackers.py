"""Attackers, which predict one variable from another, and the qualities that measure their predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics.arrays import categories
from pipeline.statistics.predictability.attackers import ATTACKERS, Logistic, Network, attacker_of
from pipeline.statistics.predictability.leakage import leakage
from pipeline.statistics.predictability.measurement import Method, measure
from pipeline.statistics.predictability.qualities import QUALITIES

labels = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=60)
SMALL = Network("small", (4,), iterations=30, best_epoch=True, batch=16)


def predictability(inputs, target, **options):
    """The quality with which the target is predicted from the inputs; groups are balanced by the target."""
    method, _ = Method.of(**({"attacker": "majority"} | options))
    (given,), (predicted,) = categories(inputs=inputs), categories(target=target)
    return measure(method, given.features(), predicted, groups=predicted.joint())


def attack(name, features, target, *, classes=2, seed=0):
    features = np.asarray(features, dtype=float).reshape(len(target), -1)
    target = np.asarray(target)
    return attacker_of(name).attack(features, target, np.ones(len(target)), features, classes=classes, seed=seed)


@given(labels)
def test_majority_accuracy_equals_the_sum_of_row_maxima(rows):
    x, y = np.array(rows).T
    table = np.zeros((4, 3), dtype=int)
    np.add.at(table, (x, y), 1)
    assert predictability(x, y).value == pytest.approx(table.max(axis=1).sum() / len(rows), abs=1e-12)


@given(labels)
def test_balancing_by_weights_averages_over_groups(rows):
    x, y = np.array(rows).T
    groups = np.unique(y)
    shares = np.array([[np.mean(x[y == group] == value) for group in groups] for value in range(4)])
    expected = shares.max(axis=1).sum() / len(groups)
    assert predictability(x, y, balance="weights").value == pytest.approx(expected, abs=1e-12)


def test_majority_predicts_marginal_frequencies_for_unseen_rows():
    guess = ATTACKERS["majority"].attack(
        np.array([[0.0], [0.0], [1.0]]), np.array([0, 1, 1]), np.ones(3), np.array([[7.0], [1.0]]), classes=2, seed=0
    )
    np.testing.assert_allclose(guess.chances, [[1 / 3, 2 / 3], [0, 1]])


@pytest.mark.parametrize("name", ["logistic", "network"])
def test_trained_attackers_agree_with_the_majority_rule(name):
    x, y = np.repeat([0, 0, 1, 1], [30, 10, 15, 25]), np.repeat([0, 1, 0, 1], [30, 10, 15, 25])
    guess = attack(name, x, y)
    assert guess.note is None
    assert (guess.chances.argmax(axis=1) == x).all()


def test_network_learns_a_nonlinear_function():
    x = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 40)
    y = x[:, 0] ^ x[:, 1]
    assert (attack("network", x, y, seed=3).chances.argmax(axis=1) == y).mean() > 0.95


@pytest.mark.parametrize("attacker", ["network", SMALL], ids=["network", "small"])
def test_same_seed_gives_identical_results(attacker):
    random = np.random.default_rng(0)
    x, y = random.normal(size=(80, 3)), random.integers(2, size=80)
    once, again = (attack(attacker, x, y, seed=5).chances.tobytes() for _ in range(2))
    assert once == again


def test_missing_convergence_is_noted():
    random = np.random.default_rng(0)
    x, y = random.normal(size=(60, 5)), random.integers(2, size=60)
    assert "not converged after 1 iterations" in attack(Logistic(iterations=1), x, y).note


@pytest.mark.parametrize("name", ["majority", "logistic", "network", SMALL])
def test_single_category_is_always_predicted(name):
    guess = attack(name, [[1.0], [2.0], [3.0]], [1, 1, 1])
    assert (guess.chances == [0, 1]).all()


def test_too_few_rows_for_validation_are_noted():
    guess = attack(SMALL, np.arange(12.0), [0] * 11 + [1])
    assert "too few rows" in guess.note


def test_constant_feature_gives_finite_probabilities():
    assert np.isfinite(attack("logistic", np.ones(8), [0, 1] * 4).chances).all()


@pytest.mark.parametrize("name", ["majority", "logistic"])
def test_weights_equal_repeated_rows(name):
    x, y, weights = np.array([[0.0], [0.0], [1.0], [1.0]]), np.array([0, 1, 0, 1]), np.array([3.0, 1.0, 1.0, 2.0])
    x, y, weights = np.tile(x, (300, 1)), np.tile(y, 300), np.tile(weights, 300)
    repeated = np.repeat(np.arange(1200), weights.astype(int))
    once = ATTACKERS[name].attack(x, y, weights, x, classes=2, seed=0).chances
    again = ATTACKERS[name].attack(x[repeated], y[repeated], np.ones(2100), x, classes=2, seed=0).chances
    np.testing.assert_allclose(once, again, atol=1e-3 if name == "logistic" else 1e-15)  # the penalty differs slightly


def test_qualities_equal_scikit_learn():
    from sklearn import metrics

    random = np.random.default_rng(1)
    truth, chances = random.integers(3, size=50), random.dirichlet(np.ones(3), size=50)
    weights, guesses = np.ones(50), chances.argmax(axis=1)
    assert QUALITIES["accuracy"].measure(truth, chances, weights) == metrics.accuracy_score(truth, guesses)
    assert QUALITIES["f1"].measure(truth, chances, weights) == pytest.approx(
        metrics.f1_score(truth, guesses, average="macro")
    )
    two = truth.clip(0, 1)
    p = np.stack([1 - chances[:, 0], chances[:, 0]], axis=1)
    assert QUALITIES["f1"].measure(two, p, weights) == pytest.approx(metrics.f1_score(two, p.argmax(axis=1)))
    assert QUALITIES["inverse_mse"].measure(two, p, weights) == pytest.approx(np.mean((p[:, 1] - two) ** 2))
    assert QUALITIES["inverse_bce"].measure(two, p, weights) == pytest.approx(metrics.log_loss(two, p[:, 1]))


def test_inverse_qualities_are_infinite_without_errors():
    assert predictability([0, 1], [0, 1], quality="inverse_mse").value == np.inf
    assert predictability([0, 1], [0, 1], quality="inverse_bce").value == np.inf


def test_quality_is_averaged_over_columns():
    x, y = np.array([0, 0, 1, 1]), np.array([[0, 1], [0, 0], [1, 1], [1, 0]])
    assert predictability(x, y).value == (1 + 0.5) / 2
    assert predictability(x, y, quality="inverse_mse").value == 1 / ((0 + 0.25) / 2)


def test_memorised_rows_do_not_help_on_held_out_rows():
    x = np.arange(400)  # every row is unique, so memorising does not generalise
    y = np.arange(400) % 2
    assert predictability(x, y).value == 1
    assert predictability(x, y, held_out=0.5).value == pytest.approx(0.5, abs=0.1)


def test_redrawn_groups_have_the_size_of_the_smallest():
    y = np.repeat([0, 1], [90, 10])
    assert predictability(np.zeros(100), y).value == 0.9
    assert predictability(np.zeros(100), y, balance="redraw").value == 0.5


def test_folded_accuracy_is_at_least_one_half():
    y = np.repeat([0, 1], 50)
    plain = [predictability(y, y, held_out=0.5, balance="redraw", folded=True, seed=seed).value for seed in range(3)]
    assert plain == [1, 1, 1]
    noise = np.arange(100)
    assert predictability(noise, y, held_out=0.5, folded=True).value >= 0.5


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"attacker": "oracle"}, "attacker must be one of majority"),
        ({"quality": "auc"}, "quality must be one of accuracy"),
        ({"balance": "even"}, "balance must be one of none"),
        ({"held_out": 1.0}, "held_out must lie in 0-1"),
        ({"held_out": 0.01}, "leaves no rows to train on or to test on"),
        ({"attacker": "network", "balance": "weights"}, "'network' takes no weights"),
        ({"quality": "f1", "folded": True}, "folded is for the accuracy"),
    ],
)
def test_invalid_options_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        predictability([0, 1, 1], [0, 1, 0], **arguments)


@pytest.mark.parametrize(
    ("inputs", "target", "message"),
    [
        ([0, 1], [0, 1, 1], "tasks has 3 rows, but attributes has 2"),
        ([0, np.nan], [0, 1], "attributes has a missing value in row 1"),
        (["a", None], [0, 1], "attributes has a missing value in row 1"),
        ([0, 1], [0.2, 1], "tasks holds 0.2 in row 0 .*, which is not a category"),
        ([], [], "attributes is empty"),
        (np.zeros((2, 2, 2)), [0, 1], r"attributes must have the shape \(n,\) or \(n, C\)"),
    ],
)
def test_invalid_arrays_raise(inputs, target, message):
    with pytest.raises(ValueError, match=message):
        leakage(inputs, target, target)


def test_labels_may_be_text_numbers_or_booleans():
    text, numbers = np.array(["no", "yes", "yes", "no"], dtype=object), [0.0, 1.0, 1.0, 0.0]
    assert predictability(text, numbers).value == predictability(np.array(numbers) > 0, text).value == 1
