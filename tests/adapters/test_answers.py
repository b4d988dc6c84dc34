"""Validation of labels from any service."""

import math

import pytest

from adapters.answers import checked, from_answer, to_answer
from adapters.base import AnswerError, Label


@pytest.mark.parametrize(
    ("score", "most", "kept"),
    [(1.0000001, 1, 1.0), (-1e-7, 1, 0.0), (100.00001, 100, 1.0), (0.25, 1, 0.25), (25, 100, 0.25), (1, 1, 1.0)],
)
def test_a_score_that_rounding_took_past_its_scale_is_the_end_of_the_scale(
    score: float, most: float, kept: float
) -> None:
    assert checked([("smile", score)], most=most) == [Label("smile", kept)]


@pytest.mark.parametrize(
    ("score", "most"), [(1.00001, 1), (-0.00001, 1), (100.01, 100), (math.nan, 1), (math.inf, 1), (10**400, 1)]
)
def test_a_score_outside_its_scale_is_refused(score: float, most: float) -> None:
    with pytest.raises(AnswerError, match=f"'smile' must be in 0-{most}"):
        checked([("smile", score)], most=most)


def test_a_local_answer_comes_back_as_it_was_given() -> None:
    labels = [Label("smile", 0.25), Label("beard", 1.0)]
    assert from_answer(to_answer(labels, faces=2)) == labels
