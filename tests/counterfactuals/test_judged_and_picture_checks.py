"""The validity card's checks by two judges, by face and group, and of the images of a sample."""

import numpy as np
import pandas as pd
import pytest
from version_rows import GOALS, card_of, groups_of, masculine, versions, white_share

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.counterfactuals.validity import photo_failures
from pipeline.run.tables import CHECKS


def test_effect_is_the_smaller_of_two_judges():
    table = versions(judge_masculine=masculine(0.21), grey_masculine=masculine(0.15))
    card = card_of(table)
    assert card.loc["effect", "figure"] == pytest.approx(0.3)
    assert card.loc["effect", "passed"] is False
    assert "judge 0.42, second judge 0.30" in card.loc["effect", "words"]
    turned = versions(judge_masculine=masculine(0.21), grey_masculine=lambda photo, value: 0.5 - 0.1 * (photo % 2))
    assert card_of(turned).loc["monotone", "figure"] == 0


def test_placebo_effect_is_the_larger_of_two_judges():
    table = versions(arm="random", judge_masculine=0.5, grey_masculine=masculine(0.1))
    assert card_of(table).loc["placebo: random", "figure"] == pytest.approx(0.4)


def test_off_target_change_is_the_larger_of_two_judges():
    table = versions(judge_young=0.0, grey_young=lambda photo, value: 0.06 * value)
    check = card_of(table).loc["off-target: young"]
    assert (check["figure"], check["passed"]) == (pytest.approx(0.06), False)
    assert "(judge 0.0 %, second judge 6.0 %); 12.0 % from −2 to +2" in check["words"]


def test_columns_of_the_former_second_judge_are_ignored():
    older = versions(judge_masculine=masculine(0.21), second_masculine=masculine(0.0), second_age=40.0)
    check = card_of(older).loc["effect"]
    assert (check["figure"], check["passed"]) == (pytest.approx(0.42), True)
    assert "second judge" not in " ".join(card_of(older)["words"])


def test_effect_of_race_names_the_pair():
    check = card_of(versions(attribute="race", **white_share(0.2))).loc["effect"]
    assert "being perceived as White rather than Black" in check["words"]


def test_falls_are_counted():
    def dips(photo, value):
        return 0.5 + 0.2 * value - (0.45 if (photo, value) == (3, 1) else 0.0)

    check = card_of(versions(judge_masculine=dips)).loc["falls"]
    assert check["figure"] == pytest.approx(1 / 20)
    assert check["passed"] is True
    assert card_of(versions(judge_masculine=dips), falls=0.04).loc["falls", "passed"] is False


def test_dead_faces_are_counted_and_listed():
    table = versions(judge_masculine=lambda photo, value: 0.5 + (0.01 if photo == 7 else 0.2) * value)
    check = card_of(table).loc["dead faces"]
    assert (check["figure"], check["passed"]) == (pytest.approx(1 / 20), False)
    assert check["words"].endswith(": p7.")
    failures = photo_failures(table, swept=ATTRIBUTES)
    assert failures.loc[failures["check"] == "dead", "photo"].tolist() == ["p7"]


def test_smallest_group_effect_is_reported():
    groups = {photo: f"{words}, White" for photo, words in groups_of(40).items()}
    table = versions(photos=40, judge_masculine=lambda photo, value: 0.5 + (0.05 if photo % 2 else 0.2) * value)
    check = card_of(table, groups).loc["effect: smallest group"]
    assert check["figure"] == pytest.approx(0.1)
    assert "group 1 (judge), of 3 groups" in check["words"]
    assert check["passed"] is False
    assert np.isnan(card_of(table).loc["effect: smallest group", "figure"])


def test_age_change_is_measured_by_gender_and_by_face():
    def ages(photo, value):
        return 40 + (3 if photo % 2 else -3) * value

    card = card_of(versions(photos=40, judge_age=ages, judge_young=0.0), groups_of(40))
    assert abs(card.loc["age", "figure"]) == pytest.approx(6)
    assert card.loc["age", "passed"] is False
    assert "of all faces" in card.loc["age", "words"]
    assert card.loc["age: nine of ten", "figure"] == pytest.approx(6)
    # Without groups, the changes of both genders cancel in the mean.
    assert card_of(versions(photos=40, judge_age=ages)).loc["age", "figure"] == pytest.approx(0)


def test_tone_must_change_by_the_difference_between_the_groups():
    still = versions(attribute="race", skin_l=60.0, skin_a=10.0, skin_b=15.0, **white_share(0.2))
    check = card_of(still).loc["tone"]
    assert check["figure"] > 10
    assert check["passed"] is False
    moved = still.assign(skin_l=60 + 7.5 * still["value"], skin_b=15 - 1.4 * still["value"])
    assert card_of(moved).loc["tone", "passed"] is True
    gender = versions(skin_l=lambda photo, value: 60 + 4 * value, skin_a=10.0, skin_b=15.0)
    assert card_of(gender).loc["tone", "figure"] == pytest.approx(8)
    assert card_of(gender).loc["tone", "passed"] is False


@pytest.mark.parametrize(
    ("name", "column", "good", "bad"),
    [("face against neck", "neck_gap", 1.0, 3.0), ("asymmetry", "asymmetry", 0.2, 1.0)],
)
def test_neck_gap_and_asymmetry_are_read_at_one(name, column, good, bad):
    assert card_of(versions(**{column: lambda photo, value: good * abs(value)})).loc[name, "passed"] is True
    check = card_of(versions(**{column: lambda photo, value: bad if abs(value) == 1 else np.nan})).loc[name]
    assert check["figure"] == pytest.approx(bad)
    assert check["passed"] is False
    unknown = card_of(versions()).loc[name]
    assert np.isnan(unknown["figure"])
    assert unknown["passed"] is None
    assert GOALS.neck_gap == 2


# Checks of the images of a sample


def picture_table(**figures):
    """The table of checks of one attribute; a name's "__" stands for ": "."""
    rows = [
        {"attribute": "gender", "arm": EDIT_ARM, "measure": name.replace("__", ": "), "photos": 60, "figure": figure}
        | ({"low": figure - 0.05, "high": figure + 0.05} if name.startswith("detection") else {})
        for name, figure in figures.items()
    ]
    return pd.DataFrame(rows, columns=list(CHECKS))


def test_stencil_and_detection_fail_above_their_thresholds():
    card = card_of(versions(), pictures=picture_table(map__low=3.0, map__high=9.0, detection=0.9))
    assert card.loc["stencil", ["figure", "passed"]].tolist() == [9.0, False]
    assert card.loc["detection", ["figure", "passed"]].tolist() == [0.9, False]
    assert "0.85 to 0.95" in card.loc["detection", "words"]
    ends = pd.concat([picture_table(detection=0.7), picture_table(**{"detection__ends": 0.9}).assign(arm="random"),
                      picture_table(**{"detection__ends": 0.8})])  # fmt: skip
    words = card_of(versions(), pictures=ends).loc["detection", "words"]
    assert "at the ends of the sweep edit 0.80, placebo “random” 0.90" in words
    assert card_of(versions(), pictures=picture_table(map__low=3.0, detection=0.7)).loc["detection", "passed"] is True


def test_edit_with_a_larger_effect_than_a_real_paste_fails():
    table = versions(judge_masculine=masculine(0.2))
    paste = picture_table(paste=0.7).assign(arm="judge")
    check = card_of(table, pictures=paste).loc["share of a real paste"]
    assert check["figure"] == pytest.approx(0.8 / 0.7)
    assert check["passed"] is False
    assert card_of(table, pictures=paste.assign(figure=0.9)).loc["share of a real paste", "passed"] is True


def test_concentration_is_relative_to_real_pastes():
    table = versions(concentration=0.45)
    check = card_of(table, pictures=picture_table(paste__concentration=0.4)).loc["concentration"]
    assert (check["threshold"], check["passed"]) == (pytest.approx(0.5), True)
    assert card_of(table, pictures=picture_table(paste__concentration=0.3)).loc["concentration", "passed"] is False
    assert card_of(table).loc["concentration", "passed"] is None


def test_tone_alone_is_reported_if_measured():
    assert "tone alone" not in card_of(versions()).index
    check = card_of(versions(), pictures=picture_table(parts__both=0.7, parts__tone=0.1, parts__features=0.4))
    assert check.loc["tone alone", "figure"] == 0.1
    assert "features alone 0.40, of both 0.70" in check.loc["tone alone", "words"]
