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
    """The tables labels and answers of a run; ``scores[photo][label]`` has K scores, None if not returned."""
    answers, labels = [], []
    for photo, by_label in scores.items():
        for step, value in enumerate(values, start=1):
            key = {"adapter": adapter, "attribute": attribute, "arm": arm}
            key |= {"photo": photo, "step": step, "value": value}
            answers.append(key | {"sha256": "", "status": "ok", "reason": None})
            for label, line in by_label.items():
                score = line[step - 1]
                labels.append(key | {"label": label, "score": score, "returned": score is not None})
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


def test_presence_is_a_returned_score_of_at_least_the_threshold(tables):
    (sweeps,) = sweeps_of(*tables, presence=0.5)
    assert sweeps.photos == ("a.png", "b.png")
    assert sweeps.labels == ("beard", "hat", "smile")
    assert sweeps.values.tolist() == list(VALUES)
    array = dense(sweeps)
    assert array[:, :, 0].tolist() == [[0, 0, 0], [0, 0, 1]]
    assert array[:, :, 1].tolist() == [[0, 0, 0], [0, 0, 0]], "never reaches 0.5, but is listed"
    assert array[:, :, 2].tolist() == [[1, 1, 1], [0, 1, 1]]
    np.testing.assert_allclose(sweeps.rates()[2], [0.5, 1, 1])


def test_confidence_is_the_score_or_0_if_not_returned(tables):
    (sweeps,) = sweeps_of(*tables, confidence=True)
    assert dense(sweeps)[1].tolist() == [[0, 0, 0.2], [0, 0, 0.5], [0.8, 0, 0.9]]
    np.testing.assert_allclose(sweeps.rates()[2], [0.4, 0.55, 0.75])


def test_thresholds_may_differ_by_adapter():
    one = run_tables({"a": {"smile": [0.3, 0.3, 0.3]}}, adapter="one")
    two = run_tables({"a": {"smile": [0.3, 0.3, 0.3]}}, adapter="two")
    labels, answers = (pd.concat(pair, ignore_index=True) for pair in zip(two, one, strict=True))
    first, second = sweeps_of(labels, answers, presence={"one": 0.2, "two": 0.5})
    assert (first.adapter, second.adapter) == ("one", "two")
    assert dense(first).all()
    assert not dense(second).any()
    with pytest.raises(ValueError, match=re.escape(module.NO_THRESHOLD.format(adapter="two"))):
        sweeps_of(labels, answers, presence={"one": 0.2})


@pytest.mark.parametrize("failed", [True, False], ids=["failed", "missing"])
def test_photo_with_a_failed_or_missing_step_is_incomplete(tables, failed):
    labels, answers = tables
    step = (answers["photo"] == "a.png") & (answers["step"] == 2)
    answers = answers.assign(status=answers["status"].mask(step, "failed")) if failed else answers[~step]
    (sweeps,) = sweeps_of(labels, answers)
    assert (sweeps.photos, sweeps.incomplete) == (("b.png",), ("a.png",))
    assert sweeps.labels == ("beard", "hat", "smile")


def test_sweeps_are_invariant_to_row_order(tables):
    (as_given,) = sweeps_of(*tables)
    (shuffled,) = sweeps_of(*(table.sample(frac=1, random_state=1) for table in tables))
    assert shuffled.photos == as_given.photos
    assert shuffled.labels == as_given.labels
    np.testing.assert_array_equal(dense(shuffled), dense(as_given))


def test_photos_without_labels_are_counted():
    labels, answers = run_tables({"a": {}, "b": {"smile": [0.9, 0.9, 0.9]}})
    (sweeps,) = sweeps_of(labels, answers)
    assert sweeps.photos == ("a", "b")
    np.testing.assert_allclose(sweeps.rates(), [[0.5, 0.5, 0.5]])


def test_run_without_labels_has_empty_sweeps():
    labels, answers = run_tables({"a": {}})
    (sweeps,) = sweeps_of(labels, answers)
    assert sweeps.labels == ()
    assert sweeps.rates().shape == (0, 3)
    assert sweeps_of(labels, answers.iloc[:0]) == []


def test_from_array_round_trip():
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
def test_invalid_arrays_raise(y, options, message):
    with pytest.raises(ValueError, match=message):
        Sweeps.from_array(y, VALUES, **options)


@pytest.mark.parametrize("values", [(-1, 0, 2), (0, 1, 2), (-1, 1), (0, 0, 0), (-1, 0, np.nan), (0,)])
def test_asymmetric_values_raise(values):
    with pytest.raises(ValueError, match="column 'value' must hold an odd number"):
        Sweeps.from_array(np.zeros((2, len(values), 1)), values)


def drop(column):
    return lambda frame: frame.drop(columns=column)


def change(column, entry):
    def with_entry(frame):
        frame[column] = frame[column].astype(object)
        frame.loc[frame.index[0], column] = entry
        return frame

    return with_entry


def duplicate(frame):
    return pd.concat([frame, frame.iloc[:1]])


@pytest.mark.parametrize(
    ("table", "damage", "message"),
    [
        *[("labels", drop(column), f"labels lacks the column '{column}'") for column in module.LABEL_COLUMNS],
        *[("answers", drop(column), f"answers lacks the column '{column}'") for column in module.ANSWER_COLUMNS],
        ("answers", change("value", np.nan), "column 'value' of the table answers has 1 missing values"),
        ("labels", change("score", np.nan), "column 'score' of the table labels has 1 missing values"),
        ("labels", change("label", None), "column 'label' of the table labels has 1 missing values"),
        ("labels", change("returned", None), "column 'returned' of the table labels has 1 missing values"),
        ("labels", change("score", 1.5), "column 'score' of the table labels must lie in 0-1"),
        ("labels", change("photo", "z.png"), "table labels has rows for the photo 'z.png'"),
        ("labels", change("step", 9), "table labels has rows for the step 9"),
        ("labels", change("adapter", "other"), "labels has rows for adapter 'other'"),
        ("answers", change("value", -0.9), "column 'value' of the table answers has more than one value for step 1"),
        ("labels", duplicate, "labels has more than one row for .* photo 'b.png', step 1, label 'smile'"),
        ("answers", duplicate, "answers has more than one row for .* photo 'b.png', step 1"),
    ],
)
def test_invalid_tables_raise(tables, table, damage, message):
    frames = dict(zip(("labels", "answers"), tables, strict=True))
    frames[table] = damage(frames[table])
    with pytest.raises(ValueError, match=message):
        sweeps_of(**frames)


def test_chunked_labels_give_the_same_sweeps(tables):
    labels, answers = tables
    whole = sweeps_of(labels, answers, presence=0.5)
    pieces = sweeps_of((labels[start : start + 2] for start in range(0, len(labels), 2)), answers, presence=0.5)
    for in_one_piece, other in zip(whole, pieces, strict=True):
        assert (in_one_piece.photos, in_one_piece.labels, in_one_piece.incomplete) == (
            other.photos,
            other.labels,
            other.incomplete,
        )
        assert (dense(in_one_piece) == dense(other)).all()


def test_duplicate_across_chunks_raises(tables):
    labels, answers = tables
    with pytest.raises(ValueError, match="more than one row"):
        sweeps_of([labels, labels[labels["returned"].astype(bool)][:1]], answers, presence=0.5)
