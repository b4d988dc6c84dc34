"""Two runs' validity cards next to each other."""

import pandas as pd

from pipeline.report.card import card_frame, cards_next_to_each_other

COLUMNS = ["name", "attribute", "figure", "unit", "threshold", "passed", "words"]


def card(*rows):
    return pd.DataFrame([(*row, "") for row in rows], columns=COLUMNS)


def test_a_check_that_both_runs_have_is_one_row_and_one_of_one_run_stays():
    one = card(("effect", "gender", 55.0, "points", 40.0, True), ("seam", "gender", 1.5, "%", 2.0, True))
    two = card(("effect", "gender", 30.0, "points", 40.0, False), ("dead faces", "gender", 1.0, "%", 2.0, True))
    table = cards_next_to_each_other(one, two, names=("fader", "residual")).set_index("check")
    assert list(table.columns) == ["attribute", "threshold", "fader", "state fader", "residual", "state residual"]
    assert list(table.index) == ["effect", "seam", "dead faces"]
    assert table.loc["effect", ["state fader", "state residual"]].tolist() == ["holds", "fails"]
    assert table.loc["seam", "residual"] == ""
    assert table.loc["dead faces", "state fader"] == ""


def test_a_negative_figure_stands_next_to_both_ends_of_the_bound_of_its_size():
    younger = card(
        ("age", "gender", -4.5, "years", 2.0, False), ("lightness", "gender", 9.0, "ΔL*", 5.0, False),
        ("effect", "gender", -0.5, "probability", 0.4, False),
    ).assign(of_size=[True, True, False])  # fmt: skip
    assert card_frame(younger)["threshold"].tolist() == ["±2 years", "5 ΔL*", "0.4"]
    assert card_frame(younger.drop(columns="of_size"))["threshold"][0] == "2 years", "a run of an earlier version"
    older = younger.assign(figure=[1.0, 9.0, 0.5])
    assert len(cards_next_to_each_other(younger, older, names=("fader", "residual"))) == 3, "one row a check"
