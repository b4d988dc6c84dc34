import dataclasses
import itertools

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from published_examples import MINORITY, WIDENED, figure_2, reference_amplification, two_columns

from pipeline.statistics.amplification import directional as module
from pipeline.statistics.amplification.counts import harmonic_mean
from pipeline.statistics.amplification.directional import attribute_to_task, task_to_attribute
from pipeline.statistics.amplification.signs import CODE, PAPER, SignRule, signs
from pipeline.statistics.inference import Units, interval

FUNCTIONS = {"A->T": attribute_to_task, "T->A": task_to_attribute}
QUICK = {"resamples": 0}


@st.composite
def cases(draw, *, train=True):
    """Labels with overlapping groups, missing attributes, empty groups and ties, and hard or soft predictions."""
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    rows, groups, tasks = draw(st.integers(1, 30)), draw(st.integers(1, 3)), draw(st.integers(1, 4))
    rate = draw(st.sampled_from([0.0, 0.15, 0.5, 0.9]))
    direction = draw(st.sampled_from(["A->T", "T->A"]))

    def table(count, columns):
        return (random.random((count, columns)) < rate).astype(np.int8)

    width = tasks if direction == "A->T" else groups
    predictions = random.random((rows, width)) if draw(st.booleans()) else table(rows, width)
    base = (table(count := draw(st.integers(1, 30)), groups), table(count, tasks)) if draw(st.booleans()) else None
    return direction, table(rows, groups), table(rows, tasks), predictions, base if train else None


def value(direction, attributes, tasks, predictions, **options):
    return FUNCTIONS[direction](attributes, tasks, predictions=predictions, **(QUICK | options)).value


# Published figures


@pytest.mark.parametrize(("example", "printed"), [(WIDENED, 0.17777777777777778), (MINORITY, 1 / 3)])
def test_printed_examples_are_reproduced(example, printed):
    attributes, tasks, predictions = example
    assert value("A->T", attributes, tasks, predictions) == pytest.approx(printed, abs=1e-15)
    two = value("A->T", attributes, two_columns(tasks), two_columns(predictions))
    assert two == pytest.approx(printed, abs=1e-15)
    assert value("T->A", attributes, tasks, attributes) == 0


def test_figure_2_is_reproduced():
    found = [value("A->T", *figure_2(women)) for women in range(41)]
    assert found[0] == pytest.approx(-0.375)
    assert found[30] == 0  # as many as really paint
    assert found[40] == pytest.approx(0.125)
    assert np.diff(found) == pytest.approx(np.full(40, 1 / 80))


# The definition, by the rules of the published code and of the paper


@given(cases())
@settings(max_examples=150)
def test_value_equals_the_reference_implementation(case):
    direction, attributes, tasks, predictions, train = case
    for rule, of_rule in ((CODE, {}), (PAPER, {"ties": "against", "rows": "all", "mean": "all"})):
        expected = reference_amplification(attributes, tasks, predictions, direction=direction, train=train, **of_rule)
        found = value(direction, attributes, tasks, predictions, train=train, rule=rule)
        assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


def test_ties_are_detected_in_exact_arithmetic():
    rounding_mismatches = 0
    for n_a, n_t in itertools.product(range(2, 14), repeat=2):
        n = n_a * n_t  # one joint row: exactly independent
        attributes, tasks = np.zeros((n, 1), dtype=np.int8), np.zeros((n, 1), dtype=np.int8)
        attributes[:n_a], tasks[0], tasks[n_a : n_a + n_t - 1] = 1, 1, 1
        rounding_mismatches += 1 / n != (n_a / n) * (n_t / n)
        assert signs(attributes, tasks, rule=SignRule(base_rows="all")).tolist() == [[0]]
    assert rounding_mismatches > 5


def test_balanced_data_give_zero_by_the_code_rule_only():
    attributes = np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    tasks, predictions = np.array([[1], [0], [1], [0]]), np.array([[1], [1], [1], [0]])
    assert value("A->T", attributes, tasks, predictions) == 0
    assert value("A->T", attributes, tasks, predictions, rule=PAPER) == pytest.approx(-0.25)
    assert attribute_to_task(attributes, tasks, predictions=predictions, **QUICK).reason.tolist() == [[module.TIE]] * 2


def test_unlabelled_rows_can_change_a_sign():
    attributes = np.array([[1]] * 4 + [[0]] * 6)
    tasks = np.array([[1]] * 2 + [[0]] * 2 + [[1]] * 3 + [[0]] * 3)
    # labelled rows: 7 * 2 - 4 * 5 < 0; all rows: 10 * 2 - 4 * 5 = 0
    for base_rows, sign in (("labelled", -1), ("all", 0)):
        rule = dataclasses.replace(CODE, base_rows=base_rows)
        found = attribute_to_task(attributes, tasks, predictions=np.ones((10, 1)), rule=rule, **QUICK)
        assert found.sign.item() == sign


def test_empty_group_is_excluded_from_the_mean_with_a_reason():
    attributes = np.array([[1, 0], [1, 0], [1, 0]])
    tasks, predictions = np.array([[1, 0], [0, 0], [0, 0]]), np.array([[1, 0], [1, 0], [0, 0]])
    found = attribute_to_task(attributes, tasks, predictions=predictions, base=[[1, 1], [-1, -1]], resamples=50)
    assert found.value == pytest.approx(1 / 6)
    assert found.reason.tolist() == [["", ""], [module.NO_ROWS_OF_GROUP] * 2]
    assert np.isnan(found.delta[1]).all()
    assert np.isnan(found.delta_low[1]).all()
    no_task = task_to_attribute(attributes, tasks, predictions=attributes, base=[[1, 1], [-1, -1]], **QUICK)
    assert no_task.reason.tolist() == [["", module.NO_ROWS_OF_TASK]] * 2
    whole = attribute_to_task(attributes, tasks, predictions=predictions, base=[[1, 1], [-1, -1]], rule=PAPER, **QUICK)
    assert whole.value == pytest.approx(1 / 12)


def test_group_absent_from_training_counts_as_zero():
    attributes = np.array([[1, 0], [0, 1]])
    tasks, predictions = np.array([[0], [0]]), np.array([[1], [1]])
    train = np.array([[1, 0], [1, 0], [0, 0]]), np.array([[1], [1], [1]])
    found = attribute_to_task(attributes, tasks, predictions=predictions, train=train, **QUICK)
    assert found.sign.ravel().tolist() == [0, 0]
    options = {"predictions": predictions, "train": (train[0], np.array([[1], [1], [0]])), **QUICK}
    labelled_rows = attribute_to_task(attributes, tasks, **options)
    assert labelled_rows.sign.ravel().tolist() == [0, 0]  # the row without labels is not counted
    all_rows = attribute_to_task(attributes, tasks, rule=SignRule(base_rows="all"), **options)
    assert all_rows.sign.ravel().tolist() == [1, 0]
    assert all_rows.value == pytest.approx(0.5)


def test_unlabelled_training_set_gives_zero():
    attributes, tasks = np.array([[1], [1], [0]]), np.array([[1], [0], [0]])
    train = np.zeros((5, 1)), np.zeros((5, 1))
    found = attribute_to_task(attributes, tasks, predictions=1 - tasks, train=train, resamples=20)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_test_set_without_groups_gives_nan():
    empty = np.zeros((3, 2), dtype=np.int8)
    found = attribute_to_task(empty, empty, predictions=empty, resamples=20)
    assert np.isnan([found.value, found.low, found.high]).all()


# Properties


@given(cases(), st.randoms(use_true_random=False))
def test_value_is_invariant_to_row_order_and_duplication(case, random):
    direction, attributes, tasks, predictions, train = case
    expected = value(direction, attributes, tasks, predictions, train=train)
    order = list(range(len(attributes)))
    random.shuffle(order)
    shuffled = value(direction, attributes[order], tasks[order], predictions[order], train=train)
    twice = value(direction, *(np.repeat(part, 2, axis=0) for part in (attributes, tasks, predictions)), train=train)
    assert shuffled == pytest.approx(expected, abs=1e-12, nan_ok=True)
    assert twice == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(cases(train=False))
def test_value_is_invariant_to_column_order(case):
    direction, attributes, tasks, predictions, _ = case
    expected = value(direction, attributes, tasks, predictions)
    found = value(direction, attributes[:, ::-1], tasks[:, ::-1], predictions[:, ::-1])
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(cases(train=False))
def test_perfect_predictions_give_zero(case):
    direction, attributes, tasks, _, _ = case
    found = value(direction, attributes, tasks, tasks if direction == "A->T" else attributes)
    assert found == 0 or np.isnan(found)


@given(st.integers(0, 2**32))
def test_swapping_the_groups_of_the_base_flips_the_sign(seed):
    random = np.random.default_rng(seed)
    group = random.integers(0, 2, size=20)
    assume(0 < group.sum() < 20)
    attributes, tasks = np.eye(2, dtype=np.int8)[group], random.integers(0, 2, size=(20, 3))
    predictions = random.random((20, 3))
    train = np.eye(2, dtype=np.int8)[random.integers(0, 2, size=15)], random.integers(0, 2, size=(15, 3))
    one = value("A->T", attributes, tasks, predictions, train=train)
    other = value("A->T", attributes, tasks, predictions, train=(train[0][:, ::-1], train[1]))
    assert one == pytest.approx(-other, abs=1e-12)


# Intervals


def sample(rows=60, tasks=3, seed=0):
    random = np.random.default_rng(seed)
    group = random.integers(0, 2, size=rows)
    labels = (random.random((rows, tasks)) < np.array([[0.2], [0.6]])[group]).astype(np.int8)
    guesses = np.where(random.random((rows, tasks)) < 0.2, 1 - labels, labels)
    return np.eye(2, dtype=np.int8)[group], labels, guesses


@pytest.mark.parametrize("direction", ["A->T", "T->A"])
@pytest.mark.parametrize("given_base", [True, False])
@pytest.mark.parametrize("soft", [True, False])
def test_interval_equals_an_explicit_bootstrap(direction, given_base, soft):
    attributes, tasks, guesses = sample()
    predictions = guesses if direction == "A->T" else attributes[::-1]
    predictions = predictions * 0.75 if soft else predictions
    base = [[1, -1, 0], [-1, 1, 1]] if given_base else None
    found = FUNCTIONS[direction](attributes, tasks, predictions=predictions, base=base, resamples=100, level=0.9)
    resample_weights = module.Resamples.of(Units.of(60), resamples=100, seed=0, level=0.9).weights.astype(int)
    values = []
    for weights in resample_weights:
        rows = np.repeat(np.arange(60), weights)
        values.append(value(direction, attributes[rows], tasks[rows], predictions[rows], base=base))
    expected = interval(np.array([values]), 0.9, units=harmonic_mean(found.differences.units))
    assert [found.low, found.high] == pytest.approx([end[0] for end in expected], abs=1e-10)


def test_same_seed_gives_identical_results():
    first, again, other = (attribute_to_task(*sample()[:2], predictions=sample()[2], seed=seed) for seed in (1, 1, 2))
    assert first.to_frame().equals(again.to_frame())
    assert (first.low, first.high) == (again.low, again.high)
    assert first.low != other.low


def test_uncertain_signs_are_flagged_and_widen_the_interval():
    random = np.random.default_rng(4)
    attributes = np.eye(2, dtype=np.int8)[random.integers(0, 2, size=200)]
    tasks = random.integers(0, 2, size=(200, 20))  # independent of the groups
    guesses = np.where(random.random((200, 20)) < 0.2, 1 - tasks, tasks)
    found = attribute_to_task(attributes, tasks, predictions=guesses)
    assert found.unsure.mean() > 0.7
    assert found.either_low < found.low
    assert found.high < found.either_high
    assert found.either_low < 0 < found.either_high
    sure = attribute_to_task(attributes, tasks, predictions=guesses, base=found.sign)
    assert (sure.sign_support == 1).all()
    assert not sure.unsure.any()
    assert (sure.either_low, sure.either_high) == (sure.low, sure.high)
    clear = attribute_to_task(*sample(rows=400)[:2], predictions=sample(rows=400)[2])
    assert not clear.unsure.any()
    assert (clear.either_low, clear.either_high) == (clear.low, clear.high)


def test_whole_clusters_are_resampled():
    attributes, tasks, guesses = (np.repeat(part, 4, axis=0) for part in sample())
    person = np.repeat(np.arange(60), 4).tolist()
    clustered = attribute_to_task(attributes, tasks, predictions=guesses, clusters=person)
    naive = attribute_to_task(attributes, tasks, predictions=guesses)
    once = attribute_to_task(*sample()[:2], predictions=sample()[2])
    assert (clustered.low, clustered.high) == pytest.approx((once.low, once.high))
    assert clustered.high - clustered.low > 1.5 * (naive.high - naive.low)


# Input and output


def test_table_takes_names_from_data_frame_columns():
    attributes, tasks, guesses = sample()
    frame = attribute_to_task(
        pd.DataFrame(attributes, columns=["women", "men"]),
        pd.DataFrame(tasks, columns=["cook", "drive", "read"]),
        predictions=guesses,
        resamples=20,
    ).to_frame()
    assert tuple(frame.columns) == module.PAIR_COLUMNS
    assert frame["attribute"].tolist() == ["women"] * 3 + ["men"] * 3
    assert frame["task"].tolist() == ["cook", "drive", "read"] * 2
    assert (frame["amplification"] == frame["sign"] * frame["delta"]).all()
    assert (frame["delta_low"] <= frame["delta"]).all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"attributes": np.ones(60)}, r"attributes must have the shape \(rows, columns\)"),
        ({"tasks": np.ones((59, 3))}, "tasks must have 60 rows, as the labels have, not 59"),
        ({"predictions": np.ones((60, 2))}, "predictions must have 3 columns, not 2"),
        ({"predictions": np.full((60, 3), 1.5)}, r"column 0 of predictions must lie in 0-1, but has 1\.5 in row 0"),
        ({"tasks": np.full((60, 3), 2)}, "column 0 of tasks must hold 0 and 1, but has 2 in row 0"),
        ({"tasks": np.full((60, 3), np.nan)}, "column 0 of tasks has no value in row 0"),
        ({"attributes": np.ones((60, 0))}, "attributes is empty"),
        ({"tasks": np.full((60, 3), "yes")}, "tasks must hold numbers"),
        ({"tasks": pd.DataFrame({"cook": ["a"] * 60})}, "tasks must hold numbers"),
        ({"predictions": pd.DataFrame({c: [0] * 59 + [-1] for c in "xyz"})}, "column 'x' of predictions .* in row 59"),
        ({"base": [[1, 1, 1]]}, r"signs must hold -1, 0 and 1 in the shape .* = \(2, 3\)"),
        ({"base": [[1, 1, 2]] * 2}, "signs must hold"),
        ({"train": (np.ones((4, 3)), np.ones((4, 3)))}, "train attributes must have 2 columns"),
        ({"train": (np.ones((4, 2)), np.ones((5, 3)))}, "train tasks must have 4 rows"),
        ({"train": (np.ones((4, 2)), np.ones((4, 3))), "base": np.ones((2, 3))}, "give train or base, not both"),
        ({"clusters": ["a"]}, "clusters must name one cluster"),
        ({"attribute_names": ["a", "a"]}, "names of attributes must be 2 distinct names"),
        ({"level": 95}, "level must lie between 0 and 1, not 95"),
        ({"resamples": 2.5}, "resamples must be a whole number of 0 or more, not 2.5"),
        ({"clusters": ["a", None] * 30}, "clusters has no cluster for row 1"),
        ({"clusters": [1.0, float("nan")] * 30}, "clusters has no cluster for row 1"),
    ],
)
def test_invalid_arguments_raise(change, message):
    attributes, tasks, guesses = sample()
    arguments = {"attributes": attributes, "tasks": tasks, "predictions": guesses} | change
    with pytest.raises(ValueError, match=message):
        attribute_to_task(arguments.pop("attributes"), arguments.pop("tasks"), **arguments)


def frames():
    attributes, tasks, guesses = sample()
    index = [f"photo {row}" for row in range(60)]
    labels = [pd.DataFrame(part, index, list(names)) for part, names in ((attributes, "ab"), (tasks, "xyz"))]
    return *labels, pd.DataFrame(guesses, index, list("xyz"))


def test_data_frames_are_aligned_by_index_and_columns():
    attributes, tasks, guesses = frames()
    expected = attribute_to_task(attributes, tasks, predictions=guesses, **QUICK)
    shuffled = guesses.sample(frac=1, random_state=1)[["z", "x", "y"]]
    found = attribute_to_task(attributes, tasks.sample(frac=1, random_state=2), predictions=shuffled, **QUICK)
    pd.testing.assert_frame_equal(found.to_frame(), expected.to_frame())
    train = attributes[["b", "a"]], tasks[["y", "z", "x"]].sample(frac=1, random_state=3)
    found = attribute_to_task(attributes, tasks, predictions=guesses, train=train, **QUICK)
    assert found.sign.tolist() == expected.sign.tolist()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda guesses: guesses.set_axis(range(60)), "the index of predictions does not match that of tasks"),
        (
            lambda guesses: guesses.set_axis(list("xyw"), axis=1),
            "the columns of predictions are x, y, w, but those of tasks",
        ),
    ],
)
def test_data_frames_with_other_names_raise(change, message):
    attributes, tasks, guesses = frames()
    with pytest.raises(ValueError, match=message):
        attribute_to_task(attributes, tasks, predictions=change(guesses), **QUICK)
    # Where no name matches, columns are matched by position.
    other = guesses.set_axis(["first", "second", "third"], axis=1)
    assert attribute_to_task(attributes, tasks, predictions=other, **QUICK).attributes == ("a", "b")
