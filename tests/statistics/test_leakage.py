"""Leakage of Wang et al. 2019, and the equalisation of label errors."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from published_examples import BALANCED_AMPLIFIED

from pipeline.statistics.arrays import categories
from pipeline.statistics.predictability.attackers import Network
from pipeline.statistics.predictability.label_noise import (
    changed,
    expected_macro_f1,
    expected_rows,
    labels_to_change,
    macro_f1,
)
from pipeline.statistics.predictability.leakage import leakage
from pipeline.statistics.predictability.qualities import QUALITIES

label_triples = st.lists(st.tuples(*[st.integers(0, 1)] * 3), min_size=1, max_size=80)


def majority_accuracy(table):
    return np.asarray(table).max(axis=1).sum() / np.sum(table)


@given(label_triples)
def test_binary_leakage_equals_the_formula(rows):
    a, t, p = np.array(rows).T
    n, wrong = len(rows), int((t != p).sum())
    table, predicted = np.zeros((2, 2)), np.zeros((2, 2))
    np.add.at(table, (t, a), 1)
    np.add.at(predicted, (p, a), 1)
    flipped = ((n - wrong) * table + wrong * table[::-1]) / n
    result = leakage(a, t, p)
    assert result.data == pytest.approx(majority_accuracy(flipped), abs=1e-12)
    assert result.model == pytest.approx(majority_accuracy(predicted), abs=1e-12)
    assert result.unchanged == pytest.approx(majority_accuracy(table), abs=1e-12)
    assert result.amplification == pytest.approx(majority_accuracy(predicted) - majority_accuracy(flipped), abs=1e-12)
    assert result.changed == (wrong,)
    assert result.flips == "expected" or wrong == 0


def test_amplifying_model_on_balanced_data():
    a, t, p = BALANCED_AMPLIFIED
    result = leakage(a, t, p)
    assert (result.unchanged, result.data, result.model) == (0.5, 0.5, 0.6)
    assert result.amplification == pytest.approx(0.1, abs=1e-12)
    assert len(result.repeats) == 1


def test_example_interval_has_the_width_of_the_sampling_error():
    a, t, p = BALANCED_AMPLIFIED
    result = leakage(a, t, p, resamples=300)
    frame = result.to_frame().set_index("quantity")
    assert frame.loc["model", "value"] == 0.6
    # The standard error of a share of 0.6 of 1,000 rows is 0.0155.
    low, high = frame.loc["model", ["examples_low", "examples_high"]]
    assert low == pytest.approx(0.6 - 1.96 * 0.0155, abs=0.008)
    assert high == pytest.approx(0.6 + 1.96 * 0.0155, abs=0.008)
    again = leakage(a, t, p, resamples=300)
    assert again.to_frame().equals(result.to_frame())
    assert leakage(a, t, p, resamples=0).to_frame()["examples_low"].isna().all()
    drawn = leakage(a, t, p, flips="drawn", repeats=2, resamples=10)
    assert drawn.to_frame()["examples_low"].isna().all()
    assert any("no interval over examples" in note for note in drawn.notes)


@pytest.mark.parametrize("options", [{}, {"equalise": "macro_f1"}, {"equalise": "none"}, {"balance": "weights"}])
def test_leakage_depends_on_the_shares_of_rows_only(options):
    random = np.random.default_rng(0)
    a, t, p = random.integers(0, 3, size=(3, 40))
    for quality in QUALITIES:
        found = leakage(a, t, p, resamples=20, seed=5, quality=quality, **options)
        # A hundred copies of each row: the same shares, and resamples that hardly differ.
        many = leakage(*(np.repeat(part, 100) for part in (a, t, p)), resamples=20, quality=quality, **options)
        assert many.model == pytest.approx(found.model)
        table = many.to_frame().set_index("quantity")
        # F1 depends on which of two tied classes is predicted, and expected labels have many ties.
        for name in ("model", "unchanged") if quality == "f1" else ("data", "model", "unchanged"):
            low, high = table.loc[name, ["examples_low", "examples_high"]]
            assert low == pytest.approx(table.at[name, "value"], abs=0.15 * abs(table.at[name, "value"]))
            assert high == pytest.approx(table.at[name, "value"], abs=0.15 * abs(table.at[name, "value"]))


def test_in_sample_attackers_have_no_interval():
    a, t, p = BALANCED_AMPLIFIED
    found = leakage(a, t, p, attacker="logistic", resamples=10)
    assert found.intervals.isna().all(axis=None)
    assert any("no interval over examples" in note for note in found.notes)


def test_many_tasks_are_attacked_with_cross_fitting():
    """A model that copies the group into a quarter of its answers; nearly every row of labels is unique."""
    random = np.random.default_rng(1)
    a, t = random.integers(0, 2, 600), random.integers(0, 2, (600, 40))
    p = np.where(random.random((600, 40)) < 0.25, a[:, None], t)
    found = leakage(a, t, p, repeats=2)
    assert found.attacker == "logistic"
    assert found.unchanged == pytest.approx(0.5, abs=0.06)
    assert found.amplification == pytest.approx(0.42, abs=0.06)
    low, high = found.intervals.loc["amplification"]
    assert 0.3 < low < found.amplification < high < 0.55
    assert any("600 distinct rows of labels among 600" in note and "cross-fitted" in note for note in found.notes)
    with pytest.raises(ValueError, match="'majority' would memorise them"):
        leakage(a, t, p, attacker="majority")
    in_sample = leakage(a, t, p, attacker="majority", held_out=0, repeats=1, resamples=0)
    assert in_sample.model == 1
    assert any("memorise counts as predictable" in note for note in in_sample.notes)


def test_whole_clusters_are_held_out():
    """Labels are unique to a person, so they identify the group unless all rows of a person are held out."""
    random = np.random.default_rng(0)
    person = np.repeat(np.arange(100), 4)
    a, t = np.repeat(random.integers(0, 2, 100), 4), np.repeat(random.integers(0, 2, (100, 12)), 4, axis=0)
    options = {"repeats": 1, "attacker": Network("memory", (64,), solver="lbfgs", iterations=500)}
    apart, whole = (leakage(a, t, t, clusters=names, **options).unchanged for names in (None, person.tolist()))
    assert apart > 0.9
    assert whole == pytest.approx(0.5, abs=0.12)


def test_series_are_aligned_by_index():
    a, t, p = (pd.Series(part) for part in BALANCED_AMPLIFIED)
    expected = leakage(a, t, p, resamples=0).amplification
    shuffled = p.sample(frac=1, random_state=0)
    assert leakage(a, t, shuffled, resamples=0).amplification == expected
    with pytest.raises(ValueError, match="the index of predictions does not match that of attributes"):
        leakage(a, t, shuffled.set_axis(range(1, 1001)))


def test_text_predictions_of_numeric_labels_raise():
    message = "predictions holds text, but tasks holds numbers: use the same labels in both"
    with pytest.raises(ValueError, match=message):
        leakage([0, 1, 1], [0, 1, 0], ["no", "yes", "no"])
    # Integers, floats and booleans are comparable.
    for predictions in ([0.0, 1.0, 0.0], [False, True, False]):
        assert leakage([0, 1, 1], [0, 1, 0], predictions).changed == (0,)


def test_whole_clusters_are_resampled():
    a, t, p = np.repeat(BALANCED_AMPLIFIED[:, ::4], 4, axis=1)
    person = np.repeat(np.arange(250), 4).tolist()
    apart, whole = (leakage(a, t, p, resamples=200, clusters=names).to_frame() for names in (None, person))
    widths = [table["examples_high"][1] - table["examples_low"][1] for table in (apart, whole)]
    assert 1.6 < widths[1] / widths[0] < 2.4
    with pytest.raises(ValueError, match="one cluster for each of 1000 rows"):
        leakage(a, t, p, resamples=1, clusters=[1])


def test_drawn_flips_exceed_expected_flips_near_a_tie():
    a, t, p = BALANCED_AMPLIFIED
    result = leakage(a, t, p, flips="drawn", repeats=200)
    assert result.flips == "drawn"
    # E[max] > max(E): 100 of 1,000 labels change, each moves the difference of two equal cells by +1 or -1.
    assert result.data == pytest.approx(0.5 + np.sqrt(2 / np.pi * 100 * 900 / 999) / 1000, abs=0.001)
    frame = result.to_frame().set_index("quantity")
    assert frame.at["data", "repeats"] == 200
    assert frame.at["data", "t_low"] < frame.at["data", "papers_low"] < result.data < frame.at["data", "t_high"]
    assert [frame.at["model", end] for end in ("t_low", "t_high")] == pytest.approx([0.6, 0.6])


@given(st.integers(1, 1000))
def test_number_of_wrong_predictions_is_exact(wrong):
    """Computed in float32, the share of correct predictions would be off by one label in half of the cases."""
    p = np.zeros(1000, dtype=int)
    p[:wrong] = 1
    truth, predicted = categories(tasks=np.zeros(1000, dtype=int), predictions=p)
    assert labels_to_change(truth, predicted).tolist() == [wrong]


@given(label_triples, st.integers(0, 5))
def test_requested_number_of_labels_is_changed(rows, seed):
    _, t, p = np.array(rows).T
    truth, predicted = categories(tasks=t, predictions=p)
    counts = labels_to_change(truth, predicted)
    drawn = changed(truth, counts, generator=np.random.default_rng(seed))
    assert (drawn.codes != truth.codes).sum() == (t != p).sum()


def test_changed_labels_are_uniform_over_the_other_categories():
    (truth,) = categories(tasks=np.repeat([0, 1, 2, 3], [6000, 1, 1, 1]))
    drawn = changed(truth, np.array([6003]), generator=np.random.default_rng(0))
    counts = np.bincount(drawn.codes[:6000, 0], minlength=4)
    assert counts[0] == 0
    assert (np.abs(counts[1:] - 2000) < 150).all()


def test_expected_rows_are_the_mean_of_drawn_rows():
    (truth,) = categories(tasks=[0, 0, 0, 1, 1, 2])
    rows, labels, weights = expected_rows(truth, np.array([2]))
    table = np.zeros((6, 3))
    np.add.at(table, (rows, labels.codes[:, 0]), weights / weights.sum() * 6)
    random = np.random.default_rng(0)
    drawn = np.zeros((6, 3))
    for _ in range(3000):
        drawn[np.arange(6), changed(truth, np.array([2]), generator=random).codes[:, 0]] += 1 / 3000
    np.testing.assert_allclose(table, drawn, atol=0.03)
    np.testing.assert_allclose(table.sum(axis=1), 1)


@given(label_triples)
def test_macro_f1_is_matched_in_expectation(rows):
    _, t, p = np.array(rows).T
    truth, predicted = categories(tasks=t, predictions=p)
    (count,) = labels_to_change(truth, predicted, rule="macro_f1")
    target = macro_f1(truth, predicted)
    reached = [expected_macro_f1(truth, (count + step) / len(rows)) for step in (-1, 1) if 0 <= count + step <= len(t)]
    assert all(abs(expected_macro_f1(truth, count / len(rows)) - target) <= abs(f1 - target) + 1e-9 for f1 in reached)


def test_macro_f1_with_several_columns_and_a_grid():
    random = np.random.default_rng(0)
    t = random.integers(2, size=(500, 3))
    p = np.where(random.random((500, 3)) < 0.2, 1 - t, t)
    truth, predicted = categories(tasks=t, predictions=p)
    assert labels_to_change(truth, predicted, rule="macro_f1") == pytest.approx([100] * 3, abs=12)
    assert labels_to_change(truth, predicted, rule="macro_f1", grid=[0, 0.1, 0.22, 0.5]).tolist() == [110] * 3
    by_column = (t != p).sum(axis=0)
    assert labels_to_change(truth, predicted).tolist() == by_column.tolist()


def test_without_equalisation_labels_are_unchanged():
    a, t, p = BALANCED_AMPLIFIED
    result = leakage(a, t, p, equalise="none", flips="drawn", repeats=7)
    assert result.data == result.unchanged
    assert len(result.repeats) == 1  # nothing is drawn


def test_perfect_model_has_zero_amplification():
    a, t, _ = BALANCED_AMPLIFIED
    assert leakage(a, t, t).amplification == 0


def test_tasks_are_attacked_jointly():
    a = np.array([0, 0, 1, 1] * 25)
    t = np.stack([np.array([0, 1] * 50), np.array([0, 1, 1, 0] * 25)], axis=1)  # only both columns together determine a
    result = leakage(a, t, t)
    assert result.unchanged == 1
    assert leakage(a, t[:, 0], t[:, 0]).unchanged == leakage(a, t[:, 1], t[:, 1]).unchanged == 0.5


def test_options_of_the_published_code():
    a, t, p = BALANCED_AMPLIFIED
    small = Network("small", (8,), iterations=8, rate=0.02, best_epoch=True)
    options = {
        "attacker": small, "held_out": 0.5, "balance": "redraw", "folded": True, "equalise": "macro_f1", "repeats": 3
    }  # fmt: skip
    result = leakage(a, t, p, outputs=p + 0.1 * t, **options)
    assert result.flips == "drawn"
    assert result.repeats["model"].between(0.5, 0.75).all()
    assert result.repeats["data"].between(0.5, 0.6).all()
    again = leakage(a, t, p, outputs=p + 0.1 * t, **options)
    assert again.repeats.equals(result.repeats)
    other = leakage(a, t, p, outputs=p + 0.1 * t, **options, seed=1)
    assert not other.repeats.equals(result.repeats)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"equalise": "recall"}, "equalise must be one of accuracy, macro_f1, none, not 'recall'"),
        ({"equalise": "macro_f1", "grid": []}, "grid must hold shares"),
        ({"flips": "some"}, "flips must be 'expected' or 'drawn'"),
        ({"flips": "expected", "attacker": "network"}, "'network' takes no weights"),
        ({"flips": "expected", "held_out": 0.5}, "flips='expected' needs all rows"),
        ({"repeats": 0, "flips": "drawn"}, "repeats must be a whole number of 1 or more"),
        ({"outputs": [0.1, 0.2, 0.3], "attacker": "majority"}, "'majority' counts labels and cannot use outputs"),
        ({"outputs": [0.1, np.inf, 0.3], "attacker": "logistic"}, "outputs"),
    ],
)
def test_invalid_options_raise(arguments, message):
    with pytest.raises(ValueError, match=message):
        leakage([0, 1, 1], [0, 1, 0], [0, 1, 1], **arguments)


def test_mismatched_columns_raise():
    with pytest.raises(ValueError, match="predictions has 2 columns, but tasks has 1"):
        leakage([0, 1], [0, 1], [[0, 1], [1, 0]])
    with pytest.raises(ValueError, match="flips='expected' takes one column, but tasks has 2"):
        leakage([0, 1], [[0, 1], [1, 0]], [[0, 1], [1, 1]], flips="expected")
