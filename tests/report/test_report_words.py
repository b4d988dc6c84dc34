"""Sentences on findings and on the validity card."""

import math

import pytest
from report_frames import slope_row, slopes_frame

from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.card import banner, check_results
from pipeline.report.words import finding, no_finding, nothing_found, poles_of

GENDER = poles_of("gender")


def check_row(**changes):
    effect = {"name": "effect", "attribute": "gender", "figure": 0.4, "unit": "probability", "threshold": 0.25,
             "passed": True, "words": "Rise of the judge's probability."}  # fmt: skip
    return effect | changes


def test_finding_has_slope_interval_and_q():
    assert finding(slope_row("smile", 0.12, width=0.04), GENDER) == (
        "“smile” rises with perceived masculinity: normalised slope +0.120 (95 % interval 0.080 to 0.160, q < 0.001)."
    )
    assert "“smile” rises with perceived femininity: normalised slope −0.120" in finding(
        slope_row("smile", -0.12), GENDER
    )


def test_races_are_named_as_perceived():
    race = poles_of("race", {"race": ATTRIBUTES["race"].with_poles(("Asian", "White"))})
    assert race.with_high == "as faces are perceived as White rather than Asian"


def test_no_evidence_is_bounded_by_the_interval():
    sentence = no_finding(slope_row("hat", -0.01, width=0.03, p=0.5), GENDER)
    assert sentence.startswith("“hat”: no evidence of an effect larger than 0.040: ")


def test_slope_below_the_threshold_is_not_called_absent():
    sentence = no_finding(slope_row("tie", 0.02, width=0.01), GENDER)
    assert "does not meet the rule" in sentence
    assert "no evidence" not in sentence


def test_without_findings_the_largest_interval_end_is_the_bound():
    tested = slopes_frame(slope_row("hat", 0.01, width=0.06, p=0.6), slope_row("tie", -0.02, width=0.08, p=0.5))
    sentence = nothing_found(tested, GENDER, max_p=0.001, min_slope=0.03)
    assert sentence.startswith("None of the 2 tested labels changes with perceived gender by the rule p < 0.001")
    assert "no evidence of an effect larger than 0.100" in sentence
    assert "The only tested label does not change" in nothing_found(tested[:1], GENDER, max_p=0.001, min_slope=0.03)
    assert "no evidence either way" in nothing_found(tested[:0], GENDER, max_p=0.001, min_slope=0.03)


def test_direction_marks_in_labels_are_escaped():
    assert "\u202e" not in finding(slope_row("a\u202eb", 0.2), GENDER)


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({}, "holds"),
        ({"passed": False}, "fails"),
        ({"passed": None, "figure": math.nan}, "not measured"),
        ({"passed": math.nan, "figure": None}, "not measured"),
        ({"passed": None, "threshold": math.nan}, "no threshold"),
    ],
)
def test_state_of_a_check(changes, state):
    (result,) = check_results([check_row(**changes)])
    assert result.state == state


def test_banner_has_the_failed_checks_of_its_attribute():
    card = check_results([check_row(),
                          check_row(name="off-target: young", unit="share", figure=0.09, threshold=0.05, passed=False),
                          check_row(attribute="race")])  # fmt: skip
    assert "off-target: young (9.0 %, threshold 5 %)" in banner(card, "gender")
    assert banner(card, "race") is None


def test_banner_has_failed_checks_of_the_run():
    card = check_results([check_row(), check_row(name="background", attribute=None, passed=False)])
    assert "background" in banner(card, "gender")


def test_banner_of_an_unmeasured_card():
    assert "No check of the validity card could be made" in banner(check_results([]), "gender")
    assert banner(check_results([check_row(passed=None, figure=math.nan)]), "gender") is not None
