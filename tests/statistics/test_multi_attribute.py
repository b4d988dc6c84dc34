from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics.amplification import multi_attribute as sets_module
from pipeline.statistics.amplification.directional import attribute_to_task
from pipeline.statistics.amplification.multi_attribute import (
    PAIR_COLUMNS,
    multi_amplification,
    multi_mals,
    present,
    task_sets,
)

TRAIN = np.array([[1, 0], [1, 0], [0, 1], [0, 0]]), np.array([[1, 1, 0], [1, 1, 0], [0, 0, 1], [1, 0, 1]])
TEST = np.array([[1, 0], [0, 1], [0, 1]]), np.array([[1, 1, 1], [0, 0, 1], [1, 0, 1]])


def random_labels(seed, *, rows=30, groups=2, tasks=4):
    random = np.random.default_rng(seed)

    def labels(count):
        return np.eye(groups, dtype=np.int8)[random.integers(0, groups, count)], (
            random.random((count, tasks)) < 0.5
        ).astype(np.int8)

    return labels(rows), labels(rows), labels(rows)  # train, test, predictions


# Sets of tasks


def test_code_rule_takes_full_label_sets_of_training_rows():
    assert task_sets(TRAIN, TEST) == ((2,), (0, 1), (0, 2))
    assert task_sets(TRAIN, TEST, smallest=2) == ((0, 1), (0, 2))
    assert task_sets(TRAIN, TEST, min_rows=2) == ()


def test_paper_rule_takes_all_subsets_that_occur_with_a_group():
    assert task_sets(TRAIN, TEST, rule="paper") == ((0,), (1,), (2,), (0, 1))
    assert task_sets(TRAIN, TEST, rule="paper", largest=1) == ((0,), (1,), (2,))


@given(st.integers(0, 2**32), st.integers(1, 3))
def test_paper_rule_equals_enumeration_of_subsets(seed, min_rows):
    train, test, _ = random_labels(seed, rows=8)
    train[0][0] = 0
    subsets = [subset for size in range(1, 5) for subset in combinations(range(4), size)]

    def rows(labels, tasks):
        return np.count_nonzero(labels[1][labels[0].any(axis=1)][:, tasks].all(axis=1))

    expected = tuple(s for s in subsets if rows(train, s) >= min_rows and rows(test, s) >= min_rows)
    assert task_sets(train, test, rule="paper", min_rows=min_rows) == expected


def test_too_many_sets_raise_with_advice(monkeypatch):
    monkeypatch.setattr(sets_module, "MAX_SETS", 100)
    everything = np.ones((2, 1)), np.ones((2, 10))
    with pytest.raises(ValueError, match=r"more than 100 sets .* lower largest"):
        task_sets(everything, everything, rule="paper")


def test_supersets_count_as_present():
    assert present(TEST[1].astype(np.int8), [(0, 2), (1,)]).tolist() == [[1, 1], [0, 0], [1, 0]]


# Amplification


@pytest.mark.parametrize("direction", ["A->T", "T->A"])
def test_value_equals_the_definition(direction):
    train, test, guessed = random_labels(0)
    sets = task_sets(train, test)
    predictions = guessed[1] if direction == "A->T" else guessed[0]
    found = multi_amplification(direction, *test, predictions=predictions, sets=sets, train=train, resamples=0)
    delta, sign = np.empty((2, len(sets))), np.empty((2, len(sets)))
    rows = train[0].any(axis=1) | train[1].any(axis=1)
    for column, tasks in enumerate(sets):
        in_train, in_test = (labels[:, tasks].all(axis=1) for labels in (train[1][rows], test[1]))
        in_guess = guessed[1][:, tasks].all(axis=1)
        for g in range(2):
            excess = rows.sum() * (in_train & (train[0][rows][:, g] == 1)).sum()
            sign[g, column] = np.sign(int(excess) - int(in_train.sum()) * int(train[0][rows][:, g].sum()))
            if direction == "A->T":
                members = test[0][:, g] == 1
                delta[g, column] = in_guess[members].mean() - in_test[members].mean()
            else:
                delta[g, column] = guessed[0][in_test, g].mean() - test[0][in_test, g].mean()
    assert found.value == pytest.approx(np.abs(delta).mean(), abs=1e-12)
    assert found.signed == pytest.approx((sign * delta).mean(), abs=1e-12)
    assert found.variance == pytest.approx(delta.var(), abs=1e-12)
    assert found.oriented_variance == pytest.approx((sign * delta).var(), abs=1e-12)
    assert (found.sign == sign).all()


def test_sets_of_one_task_equal_directional_amplification():
    train, test, guessed = random_labels(1)
    single = [(task,) for task in range(4)]
    options = {"predictions": guessed[1], "train": train, "resamples": 40}
    multi, plain = multi_amplification("A->T", *test, sets=single, **options), attribute_to_task(*test, **options)
    assert multi.signed == plain.value
    assert (multi.signed_low, multi.signed_high) == (plain.low, plain.high)
    assert multi.value >= abs(plain.value)


def test_rows_without_a_set_count_as_labelled():
    train = np.array([[1], [1], [0], [0]]), np.array([[1, 1], [1, 0], [0, 1], [0, 1]])
    test = np.array([[1], [0]]), np.array([[1, 1], [0, 1]])
    found = multi_amplification("A->T", *test, predictions=test[1], sets=[(0, 1)], train=train, resamples=0)
    assert found.sign.tolist() == [[1]]  # 4 * 1 > 1 * 2; a tie if only rows with the group or the set counted


def test_noise_estimate_equals_the_value_of_random_predictions():
    train, test, guessed = random_labels(2, rows=400, tasks=3)
    single = [(0,), (1,), (2,)]
    found = multi_amplification("A->T", *test, predictions=guessed[1], sets=single, train=train, resamples=300)
    assert found.noise == pytest.approx(found.value, abs=0.02)
    assert tuple(found.to_frame().columns) == PAIR_COLUMNS


@given(st.integers(0, 2**32), st.integers(2, 3))
def test_multi_mals_equals_the_formula(seed, groups):
    train, _, guessed = random_labels(seed, groups=groups, rows=12)
    sets = task_sets(train, guessed)
    if not sets:
        return
    found = multi_mals(*train, predicted_attributes=guessed[0], predictions=guessed[1], sets=sets)
    delta = np.zeros((groups, len(sets)))
    for column, tasks in enumerate(sets):
        counts = [labels[0][labels[1][:, tasks].all(axis=1)].sum(axis=0) for labels in (train, guessed)]
        for g in range(groups):
            if counts[0][g] / counts[0].sum() > 1 / groups:
                delta[g, column] = counts[1][g] / counts[1].sum() - counts[0][g] / counts[0].sum()
    assert found.value == pytest.approx(np.abs(delta).sum() / len(sets), abs=1e-12)
    assert found.signed == pytest.approx(delta.sum() / len(sets), abs=1e-12)
    assert found.variance == pytest.approx(delta.var(), abs=1e-12)


def test_rows_without_group_are_excluded_or_assigned_to_the_first_group():
    train = np.array([[1, 0], [1, 0], [0, 1]]), np.ones((3, 1))
    guessed = np.array([[0, 1], [0, 0], [0, 0]]), np.ones((3, 1))
    options = {"predicted_attributes": guessed[0], "predictions": guessed[1], "sets": [(0,)]}
    assert multi_mals(*train, **options).signed == pytest.approx(-2 / 3)
    assert multi_mals(*train, **options, rows_without_group="first group").signed == pytest.approx(0)


@pytest.mark.parametrize(
    ("sets", "message"), [([], "no set of tasks"), ([(4,)], "from 0 to 3"), ([(1, 1)], "distinct")]
)
def test_invalid_sets_raise(sets, message):
    _, test, guessed = random_labels(0)
    with pytest.raises(ValueError, match=message):
        multi_amplification("A->T", *test, predictions=guessed[1], sets=sets)


def test_probabilities_raise():
    _, test, guessed = random_labels(0)
    with pytest.raises(ValueError, match=r"column 0 of predictions must hold 0 and 1"):
        multi_amplification("A->T", *test, predictions=guessed[1] * 0.5 + 0.1, sets=[(0,)])


@pytest.mark.parametrize("direction", ["A→T", "a->t", "both", ""])
def test_unknown_direction_raises(direction):
    with pytest.raises(ValueError, match="must be one of A->T, T->A"):
        multi_amplification(direction, [[1, 0]], [[1]], predictions=[[1]], sets=[(0,)])


def test_unknown_rules_raise():
    with pytest.raises(ValueError, match="rule must be one of code, paper"):
        task_sets(([[1, 0]], [[1]]), ([[1, 0]], [[1]]), rule="foo")
    with pytest.raises(ValueError, match="rows_without_group must be one of"):
        multi_mals(
            [[1, 0]], [[1]], predicted_attributes=[[1, 0]], predictions=[[1]], sets=[(0,)],
            rows_without_group="last group",
        )  # fmt: skip
