"""The bound on the effect of labels that an adapter does not return."""

import pandas as pd
import pytest

from pipeline.statistics.slopes import slope_frame
from pipeline.statistics.sweep_tables import sweeps_of
from pipeline.statistics.truncation import with_truncation

VALUES = (-1.0, 0.0, 1.0)


def tables_of(score):
    """Answers with one label: "hat", and at a = 1 "beard" with this score."""
    place = {"adapter": "one", "attribute": "gender", "arm": "edit"}
    cells = [{**place, "photo": f"{photo}.png", "step": step} for photo in range(40) for step in range(3)]
    answers = pd.DataFrame([{**cell, "value": VALUES[cell["step"]], "status": "ok"} for cell in cells])
    label_of_step = {0: ("hat", 0.8), 1: ("hat", 0.8), 2: ("beard", score)}
    labels = [
        dict(cell, label=label_of_step[cell["step"]][0], score=label_of_step[cell["step"]][1], returned=True)
        for cell in cells
    ]
    return pd.DataFrame(labels), answers


def truncation_of(limit, *, score=0.9, confidence=False):
    labels, answers = tables_of(score)
    texts = dict.fromkeys(["adapter", "attribute", "arm", "photo"], "category")  # as a run's tables are read
    labels, answers = labels.astype(texts | {"label": "category"}), answers.astype(texts)
    sweeps = sweeps_of(labels, answers, confidence=confidence)
    frame = slope_frame(sweeps, resamples=20)
    found = with_truncation(frame, sweeps, labels, answers, limits={"one": limit}, presence={"one": 0.5})
    return found.set_index("label")


def test_truncation_bounds_a_slope_caused_by_a_full_answer():
    hat = truncation_of((1, None)).loc["hat"]
    assert hat["slope"] == pytest.approx(-0.5)
    assert hat["truncation"] == pytest.approx(0.5)
    as_scores = truncation_of((1, None), confidence=True).loc["hat"]
    assert as_scores["truncation"] == pytest.approx(0.5 * 0.9 / 0.8), (
        "a hidden score is at most the lowest returned one"
    )


def test_full_answer_with_a_score_below_the_threshold_hides_nothing():
    assert truncation_of((1, None), score=0.3).loc["hat", "truncation"] == 0


def test_incomplete_answer_hides_nothing():
    assert "truncation" not in truncation_of((2, None))


def test_minimal_returned_score_hides_confidence_but_not_presence():
    assert "truncation" not in truncation_of((None, 0.1)), "0.1 would not be present"
    hidden = truncation_of((None, 0.1), confidence=True).loc["hat", "truncation"]
    assert hidden == pytest.approx(0.5 * 0.1 / 0.8)


def test_without_limits_there_is_no_column():
    assert "truncation" not in truncation_of((None, None))
