"""Validation of labels from any service."""

import math

import pytest

from adapters.answers import checked, from_answer, to_answer
from adapters.base import AnswerError, Label


@pytest.mark.parametrize(
    ("score", "maximum", "clipped"),
    [(1.0000001, 1, 1.0), (-1e-7, 1, 0.0), (100.00001, 100, 1.0), (0.25, 1, 0.25), (25, 100, 0.25), (1, 1, 1.0)],
)
def test_score_beyond_the_scale_by_rounding_is_clipped(score, maximum, clipped):
    assert checked([("smile", score)], most=maximum) == [Label("smile", clipped)]


@pytest.mark.parametrize(
    ("score", "maximum"), [(1.00001, 1), (-0.00001, 1), (100.01, 100), (math.nan, 1), (math.inf, 1), (10**400, 1)]
)
def test_score_outside_the_scale_is_refused(score, maximum):
    with pytest.raises(AnswerError, match=f"'smile' must be in 0-{maximum}"):
        checked([("smile", score)], most=maximum)


def test_local_answer_round_trips():
    labels = [Label("smile", 0.25), Label("beard", 1.0)]
    assert from_answer(to_answer(labels, faces=2)) == labels
