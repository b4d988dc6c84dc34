"""Validity cards: comparison of two runs, and the consequences of failed checks."""

import pandas as pd

from pipeline.report.card import CONSEQUENCES, card_frame, cards_next_to_each_other, check_results

COLUMNS = ["name", "attribute", "figure", "unit", "threshold", "passed", "words"]


def card_of(*rows):
    return pd.DataFrame([(*row, "") for row in rows], columns=COLUMNS)


def test_cards_of_two_runs_are_merged_by_check():
    first = card_of(("effect", "gender", 55.0, "points", 40.0, True), ("seam", "gender", 1.5, "%", 2.0, True))
    second = card_of(("effect", "gender", 30.0, "points", 40.0, False), ("dead faces", "gender", 1.0, "%", 2.0, True))
    table = cards_next_to_each_other(first, second, names=("fader", "residual")).set_index("check")
    assert list(table.columns) == ["attribute", "threshold", "fader", "state fader", "residual", "state residual"]
    assert list(table.index) == ["effect", "seam", "dead faces"]
    assert table.loc["effect", ["state fader", "state residual"]].tolist() == ["holds", "fails"]
    assert table.loc["seam", "residual"] == ""
    assert table.loc["dead faces", "state fader"] == ""


def test_threshold_of_a_magnitude_is_signed_for_negative_figures():
    younger = card_of(
        ("age", "gender", -4.5, "years", 2.0, False), ("lightness", "gender", 9.0, "ΔL*", 5.0, False),
        ("effect", "gender", -0.5, "probability", 0.4, False),
    ).assign(of_size=[True, True, False])  # fmt: skip
    assert card_frame(younger)["threshold"].tolist() == ["±2 years", "5 ΔL*", "0.4"]
    assert card_frame(younger.drop(columns="of_size"))["threshold"][0] == "2 years", "a run of an earlier version"
    older = younger.assign(figure=[1.0, 9.0, 0.5])
    assert len(cards_next_to_each_other(younger, older, names=("fader", "residual"))) == 3, "one row per check"


def test_failed_checks_have_a_consequence():
    rows = card_of(*[(name, "gender", 1.0, "", 0.5, False) for name in (*CONSEQUENCES, "off-target: smiling")])
    texts = {result.name: result.consequence for result in check_results(rows.to_dict("records"))}
    assert all(texts.values())
    assert "sweep it too" in texts["off-target: smiling"]
    assert texts["effect"] != texts["effect: smallest group"]
    good = check_results(rows.assign(passed=True).to_dict("records"))
    assert {result.consequence for result in good} == {""}
