import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.statistics.amplification.directional import attribute_to_task, task_to_attribute
from pipeline.statistics.amplification.thresholds import (
    at_thresholds,
    calibrated_as_in_code,
    calibrated_as_in_paper,
    threshold_free,
)

SCORES = np.array([[0.1], [0.2], [0.3], [0.4], [0.5], [0.6], [0.7], [0.8]])


def labels(positives, rows=8):
    return np.array([[1]] * positives + [[0]] * (rows - positives))


@pytest.mark.parametrize("positives", range(9))
def test_paper_calibration_matches_the_training_share(positives):
    thresholds = calibrated_as_in_paper(SCORES, labels(positives))
    assert at_thresholds(SCORES, thresholds).sum() == positives


def test_paper_calibration_scales_with_the_size_of_the_training_set():
    assert at_thresholds(SCORES, calibrated_as_in_paper(SCORES, labels(1, rows=4))).sum() == 2
    assert at_thresholds(SCORES, calibrated_as_in_paper(SCORES, labels(5, rows=16))).sum() == 3  # 2.5, half up


def test_paper_calibration_with_ties_takes_the_nearest_count():
    scores = np.array([[0.1], [0.5], [0.5], [0.5], [0.9]])
    assert calibrated_as_in_paper(scores, labels(2, rows=5)).tolist() == [0.5]  # 1 or 4 would be positive
    assert calibrated_as_in_paper(scores, labels(3, rows=5)).tolist() == [0.1]


@pytest.mark.parametrize("positives", range(7))
def test_code_calibration_matches_the_number_of_positives(positives):
    assert at_thresholds(SCORES, calibrated_as_in_code(SCORES, labels(positives))).sum() == positives


@pytest.mark.parametrize("positives", [7, 8])
def test_code_calibration_never_predicts_the_lowest_score_positive(positives):
    assert calibrated_as_in_code(SCORES, labels(positives)).tolist() == [0.1]


def test_code_calibration_with_ties_tries_the_next_score():
    scores = np.array([[0.1], [0.5], [0.5], [0.5], [0.9], [0.95]])
    assert calibrated_as_in_code(scores, labels(3, rows=6)).tolist() == [0.5]
    below = np.array([[0.1], [0.1], [0.5], [0.5], [0.5], [0.9]])
    # 4 positives: 4 scores exceed 0.1. 2 positives: 1 score exceeds 0.5, and 0 exceed the next score, 0.9.
    assert calibrated_as_in_code(below, labels(4, rows=6)).tolist() == [0.1]
    assert calibrated_as_in_code(below, labels(2, rows=6)).tolist() == [0.5]


def test_constant_scores_are_negative_by_the_code_and_positive_by_the_paper():
    constant = np.full((5, 1), 0.3)
    assert not at_thresholds(constant, calibrated_as_in_code(constant, labels(2, rows=5))).any()
    assert at_thresholds(constant, calibrated_as_in_paper(constant, labels(4, rows=5))).all()


def published_threshold(scores, positives):
    """The published procedure, step by step; it raises IndexError for some inputs."""
    ascending = np.sort(scores)
    index = -positives - 1
    threshold = ascending[0 if -index >= len(ascending) else index]
    called = int((scores > threshold).sum())
    if called != positives:
        distinct = np.unique(scores)
        following = distinct[list(distinct).index(threshold) + 1]
        if abs(int((scores > following).sum()) - positives) < abs(called - positives):
            threshold = following
    return threshold


@given(st.lists(st.integers(0, 5), min_size=1, max_size=12), st.integers(0, 12))
def test_code_calibration_equals_the_published_procedure(scores, positives):
    column = np.array(scores, dtype=float)
    marks = labels(min(positives, len(scores)), rows=len(scores))
    found = calibrated_as_in_code(column[:, None], marks)[0]
    try:
        expected = published_threshold(column, int(marks.sum()))
    except IndexError:
        expected = column.max()
    assert found == expected


def groups(rows):
    return np.eye(2, dtype=np.int8)[np.arange(rows) % 2]


def test_integral_over_scores_equals_the_mean_over_thresholds():
    random = np.random.default_rng(0)
    attributes, tasks, scores = groups(40), random.integers(0, 2, size=(40, 3)), random.random((40, 3))
    options = {"base": [[1, -1, 1], [-1, 1, 1]], "resamples": 0}
    found = threshold_free(attribute_to_task, attributes, tasks, scores=scores, **options)
    grid = (np.arange(2000) + 0.5) / 2000
    values = [attribute_to_task(attributes, tasks, predictions=scores > at, **options).value for at in grid]
    assert found.value == pytest.approx(np.mean(values), abs=1e-3)


def test_integral_over_ranks_is_invariant_to_monotone_transformations():
    random = np.random.default_rng(1)
    attributes, tasks, scores = groups(41), random.integers(0, 2, size=(41, 1)), random.normal(size=(41, 2))
    first = threshold_free(task_to_attribute, attributes, tasks, scores=scores, over="ranks", resamples=50)
    again = threshold_free(task_to_attribute, attributes, tasks, scores=np.exp(scores), over="ranks", resamples=50)
    assert first.value == again.value
    assert first.low < first.value < first.high
    # thresholds between neighbouring scores, and beyond both ends
    cuts = [np.sort(column)[[0, *range(41)]] + [-1, *[0] * 41] for column in scores.T]
    base = first.sign
    values = [
        task_to_attribute(attributes, tasks, predictions=scores > np.array(cut), base=base, resamples=0).value
        for cut in zip(*cuts, strict=True)
    ]
    weights = np.array([0.5, *[1] * 40, 0.5])
    assert first.value == pytest.approx(np.average(values, weights=weights), abs=1e-12)


def test_scores_out_of_range_raise():
    with pytest.raises(ValueError, match="scores must lie in 0-1 to be integrated"):
        threshold_free(attribute_to_task, groups(4), groups(4), scores=np.full((4, 2), 3.0))
    with pytest.raises(ValueError, match="column 0 of scores must hold finite numbers"):
        at_thresholds(np.full((4, 2), np.inf), 0.5)


def test_unknown_integration_variable_raises():
    with pytest.raises(ValueError, match="over must be one of scores, ranks"):
        threshold_free(attribute_to_task, [[1, 0]], [[1]], scores=[[0.5]], over="foo")
