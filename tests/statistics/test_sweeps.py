import re

import numpy as np
import pandas as pd
import pytest
from simulated_sweeps import dense

from pipeline.run.tables import ANSWERS, LABELS
from pipeline.statistics import sweep_tables as module
from pipeline.statistics.sweep_tables import sweeps_of
from pipeline.statistics.sweeps import Sweeps

VALUES = (-1.0, 0.0, 1.0)


def run_tables(scores, *, adapter="fake", attribute="gender", arm="edit", values=VALUES):
    """The two tables of a run; ``scores[photo][label]`` is a list of K scores, None where not returned."""
    answers, labels = [], []
    for photo, by_label in scores.items():
        for step, value in enumerate(values, start=1):
            asked = {"adapter": adapter, "attribute": attribute, "arm": arm}
            asked |= {"photo": photo, "step": step, "value": value}
            answers.append(asked | {"sha256": "", "status": "ok", "reason": None})
            for label, line in by_label.items():
                score = line[step - 1]
                labels.append(asked | {"label": label, "score": score, "returned": score is not None})
    labels = pd.DataFrame(labels, columns=list(LABELS))
    labels["score"] = labels["score"].astype(float)
    return labels, pd.DataFrame(answers, columns=list(ANSWERS))


@pytest.fixture
def tables():
    return run_tables(
        {
            "b.png": {"smile": [0.2, 0.5, 0.9], "beard": [None, None, 0.8]},
            "a.png": {"smile": [0.6, 0.6, 0.6], "hat": [0.1, None, None]},
        }
    )


def test_a_label_is_present_where_returned_with_the_threshold_or_more(tables):
    (sweeps,) = sweeps_of(*tables, presence=0.5)
    assert sweeps.photos == ("a.png", "b.png")
    assert sweeps.labels == ("beard", "hat", "smile")
    assert sweeps.values.tolist() == list(VALUES)
    array = dense(sweeps)
    assert array[:, :, 0].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert array[:, :, 1].tolist() == [[0, 0, 0], [0, 0, 0]], "returned once, never with 0.5: absent, not forgotten"
    assert array[:, :, 2].tolist() == [[1, 1, 1], [0, 1, 1]]
    np.testing.assert_allclose(sweeps.rates()[2], [0.5, 1, 1])


def test_confidence_takes_the_scores_and_0_where_not_returned(tables):
    (sweeps,) = sweeps_of(*tables, confidence=True)
    assert dense(sweeps)[1].tolist() == [[0, 0, 0.2], [0, 0, 0.5], [0.8, 0, 0.9]]
    np.testing.assert_allclose(sweeps.rates()[2], [0.4, 0.55, 0.75])


def test_each_adapter_may_have_its_own_threshold():
    one = run_tables({"a": {"smile": [0.3, 0.3, 0.3]}}, adapter="one")
    two = run_tables({"a": {"smile": [0.3, 0.3, 0.3]}}, adapter="two")
    labels, answers = (pd.concat(pair, ignore_index=True) for pair in zip(two, one, strict=True))
    first, second = sweeps_of(labels, answers, presence={"one": 0.2, "two": 0.5})
    assert (first.adapter, second.adapter) == ("one", "two")
    assert dense(first).all()
    assert not dense(second).any()
    with pytest.raises(ValueError, match=re.escape(module.NO_THRESHOLD.format(adapter="two"))):
        sweeps_of(labels, answers, presence={"one": 0.2})


def test_a_photo_with_a_failed_step_is_left_out_and_named(tables):
    labels, answers = tables
    answers.loc[(answers["photo"] == "a.png") & (answers["step"] == 2), "status"] = "failed"
    (sweeps,) = sweeps_of(labels, answers)
    assert sweeps.photos == ("b.png",)
    assert sweeps.incomplete == ("a.png",)
    assert sweeps.labels == ("beard", "hat", "smile")


def test_a_step_never_asked_leaves_the_photo_out(tables):
    labels, answers = tables
    gone = (answers["photo"] == "a.png") & (answers["step"] == 1)
    (sweeps,) = sweeps_of(labels, answers[~gone])
    assert sweeps.incomplete == ("a.png",)


def test_the_order_of_rows_does_not_matter(tables):
    (as_given,) = sweeps_of(*tables)
    (shuffled,) = sweeps_of(*(table.sample(frac=1, random_state=1) for table in tables))
    assert shuffled.photos == as_given.photos
    assert shuffled.labels == as_given.labels
    np.testing.assert_array_equal(dense(shuffled), dense(as_given))


def test_photos_without_any_label_count():
    labels, answers = run_tables({"a": {}, "b": {"smile": [0.9, 0.9, 0.9]}})
    (sweeps,) = sweeps_of(labels, answers)
    assert sweeps.photos == ("a", "b")
    np.testing.assert_allclose(sweeps.rates(), [[0.5, 0.5, 0.5]])


def test_a_run_in_which_nothing_was_returned():
    labels, answers = run_tables({"a": {}})
    (sweeps,) = sweeps_of(labels, answers)
    assert sweeps.labels == ()
    assert sweeps.rates().shape == (0, 3)
    assert sweeps_of(labels, answers.iloc[:0]) == []


def test_from_array_and_back():
    random = np.random.default_rng(0)
    y = random.integers(0, 2, size=(5, 3, 4))
    np.testing.assert_array_equal(dense(Sweeps.from_array(y, VALUES)), y)
    scores = random.uniform(size=(5, 3, 4))
    np.testing.assert_array_equal(dense(Sweeps.from_array(scores, VALUES, confidence=True)), scores)
    np.testing.assert_array_equal(dense(Sweeps.from_array(y, VALUES[::-1])), y[:, ::-1])


@pytest.mark.parametrize(
    ("y", "options", "message"),
    [
        (np.zeros((2, 3)), {}, "shape"),
        (np.zeros((2, 5, 1)), {}, "K = 3"),
        (np.full((2, 3, 1), 0.5), {}, "confidence=True"),
        (np.full((2, 3, 1), np.nan), {"confidence": True}, "scores in 0-1"),
        (np.zeros((2, 3, 2)), {"labels": ["x", "x"]}, "labels must be 2 different names"),
        (np.zeros((2, 3, 2)), {"photos": ["x"]}, "photos must be 2 different names"),
    ],
)
def test_arrays_that_cannot_be_are_refused(y, options, message):
    with pytest.raises(ValueError, match=message):
        Sweeps.from_array(y, VALUES, **options)


@pytest.mark.parametrize("values", [(-1, 0, 2), (0, 1, 2), (-1, 1), (0, 0, 0), (-1, 0, np.nan), (0,)])
def test_values_must_be_odd_in_number_and_even_around_0(values):
    with pytest.raises(ValueError, match="column 'value' must hold an odd number"):
        Sweeps.from_array(np.zeros((2, len(values), 1)), values)


def drop(table, column):
    return lambda labels, answers: (
        (labels.drop(columns=column), answers) if table == "labels" else (labels, answers.drop(columns=column))
    )


def change(table, column, entry):
    def apply(labels, answers):
        frame = labels if table == "labels" else answers
        frame[column] = frame[column].astype(object)
        frame.loc[frame.index[0], column] = entry
        return labels, answers

    return apply


def again(table):
    return lambda labels, answers: (
        (pd.concat([labels, labels.iloc[:1]]), answers)
        if table == "labels"
        else (labels, pd.concat([answers, answers.iloc[:1]]))
    )


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        *[(drop("labels", column), f"labels lacks the column '{column}'") for column in module.LABEL_COLUMNS],
        *[(drop("answers", column), f"answers lacks the column '{column}'") for column in module.ANSWER_COLUMNS],
        (change("answers", "value", np.nan), "column 'value' of the table answers has 1 missing values"),
        (change("labels", "score", np.nan), "column 'score' of the table labels has 1 missing values"),
        (change("labels", "label", None), "column 'label' of the table labels has 1 missing values"),
        (change("labels", "returned", None), "column 'returned' of the table labels has 1 missing values"),
        (change("labels", "score", 1.5), "column 'score' of the table labels must lie in 0-1"),
        (change("labels", "photo", "z.png"), "table labels has rows for the photo 'z.png'"),
        (change("labels", "step", 9), "table labels has rows for the step 9"),
        (change("labels", "adapter", "other"), "labels has rows for adapter 'other'"),
        (change("answers", "value", -0.9), "column 'value' of the table answers has more than one value for step 1"),
        (again("labels"), "labels has more than one row for .* photo 'b.png', step 1, label 'smile'"),
        (again("answers"), "answers has more than one row for .* photo 'b.png', step 1"),
    ],
)
def test_impossible_tables_are_refused_by_column(tables, damage, message):
    labels, answers = tables
    with pytest.raises(ValueError, match=message):
        sweeps_of(*damage(labels, answers))


def test_a_table_in_pieces_gives_the_same_sweeps_as_in_one(tables):
    labels, answers = tables
    whole = sweeps_of(labels, answers, presence=0.5)
    pieces = sweeps_of((labels[start : start + 2] for start in range(0, len(labels), 2)), answers, presence=0.5)
    for one, other in zip(whole, pieces, strict=True):
        assert (one.photos, one.labels, one.incomplete) == (other.photos, other.labels, other.incomplete)
        assert (dense(one) == dense(other)).all()


def test_a_label_that_comes_twice_in_different_pieces_is_refused(tables):
    labels, answers = tables
    with pytest.raises(ValueError, match="more than one row"):
        sweeps_of([labels, labels[labels["returned"].astype(bool)][:1]], answers, presence=0.5)
