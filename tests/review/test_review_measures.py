"""Statistics of answers: agreement, confirmed estimates, effectiveness and visibility of edits."""

import pandas as pd
import pytest
from run_to_review import tables
from statsmodels.stats.proportion import proportion_confint

from pipeline.review import measures
from pipeline.review.answers import COLUMNS


def answers(*rows):
    """Rows of (reviewer, kind, photo, sample, answer, left, right) about gender."""
    found = [
        ("", reviewer, f"{sample}/{photo}", kind, photo, "gender", sample, answer, left, right)
        for reviewer, kind, photo, sample, answer, left, right in rows
    ]
    return pd.DataFrame(found, columns=list(COLUMNS))


@pytest.fixture
def faces(tmp_path):
    return tables(tmp_path)[1]


def figure(frame, measure):
    (row,) = frame[frame["measure"] == measure].to_dict("records")
    return row


def test_agreement_equals_the_example_of_krippendorff(faces):
    """Binary data of two observers, ten items: alpha is 0.095 (Krippendorff 2011, part A)."""
    one, other = "0100000000", "1110010010"
    words = {"0": "feminine", "1": "masculine"}
    rows = [
        (name, "face", f"p{place}", "sure", words[code], None, None)
        for name, codes in (("anna", one), ("bo", other))
        for place, code in enumerate(codes)
    ]
    row = figure(measures.review_measures(answers(*rows), faces), measures.AGREEMENT)
    assert row["figure"] == pytest.approx(0.095, abs=5e-4)
    assert (row["reviewers"], row["items"], row["answers"]) == (2, 10, 20)


def test_one_reviewer_has_no_agreement(faces):
    found = measures.review_measures(answers(("anna", "face", "p0.png", "sure", "feminine", None, None)), faces)
    assert measures.AGREEMENT not in set(found["measure"])


def test_confirmed_estimates_are_counted_by_sample(faces):
    found = measures.review_measures(
        answers(
            ("anna", "face", "p0.png", "unsure", "masculine", None, None),  # estimated feminine
            ("anna", "face", "p3.png", "sure", "masculine", None, None),
            ("anna", "face", "p5.png", "sure", "cannot tell", None, None),
        ),
        faces,
    )
    confirmed = found[found["measure"] == measures.CONFIRMED].set_index("sample")["figure"]
    assert confirmed.to_dict() == {"unsure": 0, "sure": 1}


def test_edit_is_effective_where_the_higher_value_is_chosen(faces):
    rows = [("anna", "direction", f"p{n}", "ends", "right", -1.0, 1.0) for n in range(8)]
    rows.append(("anna", "direction", "p8", "ends", "left", -1.0, 1.0))
    rows.append(("anna", "direction", "p9", "ends", "cannot tell", 1.0, -1.0))
    row = figure(measures.review_measures(answers(*rows), faces), measures.EFFECTIVE)
    assert row["figure"] == pytest.approx(8 / 9)
    assert (row["low"], row["high"]) == pytest.approx(proportion_confint(8, 9, method="wilson"))


def test_visibility_of_edits_is_compared_with_photos(faces):
    rows = [
        ("anna", "visibility", "p0", "original", "left", -1.0, None),
        ("anna", "visibility", "p1", "original", "both", None, 1.0),
        ("anna", "visibility", "p2", "original", "left", None, 1.0),
        ("anna", "visibility", "p3", "original", "neither", 1.0, None),
        ("anna", "visibility", "p4", "ends", "both", -1.0, 1.0),
    ]
    found = measures.review_measures(answers(*rows), faces)
    assert figure(found, measures.EDIT_SEEN)["figure"] == 0.5
    assert figure(found, measures.PHOTO_SEEN)["figure"] == 0.5


def test_card_reports_the_review_without_threshold():
    rows = [(reviewer, "direction", "p0", "ends", "right", -1.0, 1.0) for reviewer in ("anna", "bo")]
    (check,) = measures.review_checks(answers(*rows))
    assert check.passed is None
    assert "by 2 reviewers of 1 pair: 100 %" in check.words
