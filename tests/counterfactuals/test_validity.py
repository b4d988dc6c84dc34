import numpy as np
import pandas as pd
import pytest

from pipeline.counterfactuals.validity import (
    CONTROL_GOAL,
    EFFECT_GOAL,
    LIGHTNESS_GOAL,
    MONOTONE_GOAL,
    SMALLEST_GROUP,
    at,
    effectiveness_curve,
    spearman_per_row,
    validity_card,
)
from pipeline.records import EDIT_ARM, RACES

FIVE = np.linspace(-2, 2, 5)
PAIR = ("Black", "White")
PERFECT = {
    "background_kept": 1.0, "clipped_share": 0.0, "lightness": 60.0, "judge_young": 0.0, "judge_smiling": 0.0,
    "judge_masculine": 0.5, "judge_age": 40.0, **{f"judge_race_{race}": 0.2 for race in RACES},
}  # fmt: skip


def versions(*, photos=20, values=FIVE, attribute="gender", arm=EDIT_ARM, **columns):
    """The table of a sweep; a column is a number or a function of photo number and value."""
    rows = []
    for photo in range(photos):
        for step, value in enumerate(values, start=1):
            row = {"attribute": attribute, "arm": arm, "photo": f"p{photo}", "step": step, "value": value}
            row |= {"status": "ok", "reason": None}
            made = PERFECT | columns
            rows.append(row | {name: v(photo, value) if callable(v) else v for name, v in made.items()})
    return pd.DataFrame(rows)


def card_of(table, groups=None):
    card = validity_card(table, race_pair=PAIR, groups=groups or {})
    assert not card.duplicated(["name", "attribute"]).any()
    return card.set_index("name").astype({"passed": object})


def masculine(slope):
    return lambda photo, value: 0.5 + slope * value


def white_share(slope):
    return {
        "judge_race_White": lambda photo, value: 0.8 * (0.5 + slope * value),
        "judge_race_Black": lambda photo, value: 0.8 * (0.5 - slope * value),
    }


# The effect


@pytest.mark.parametrize(("slope", "passed"), [(0.2, True), (0.05, False), (-0.2, False)])
def test_the_effect_is_the_judges_rise_from_minus_one_to_one(slope, passed):
    check = card_of(versions(judge_masculine=masculine(slope))).loc["effect"]
    assert check["figure"] == pytest.approx(2 * slope)
    assert check["threshold"] == EFFECT_GOAL
    assert check["passed"] is passed
    assert f"{4 * slope:+.2f} over the whole sweep" in check["words"]


def test_the_effect_of_race_is_between_the_pair_alone():
    check = card_of(versions(attribute="race", **white_share(0.2))).loc["effect"]
    assert check["figure"] == pytest.approx(0.4)
    assert check["passed"]


def test_between_steps_the_effect_is_interpolated():
    seven = np.linspace(-2, 2, 7)  # -1 and +1 are no steps here
    check = card_of(versions(values=seven, judge_masculine=masculine(0.2))).loc["effect"]
    assert check["figure"] == pytest.approx(0.4)


def test_the_monotone_share_counts_faces_in_order():
    def rises_for_most(photo, value):
        return 0.5 + (0.1 * value if photo < 15 else 0.1 * abs(value))

    check = card_of(versions(judge_masculine=rises_for_most)).loc["monotone"]
    assert check["figure"] == pytest.approx(0.75)
    assert check["threshold"] == MONOTONE_GOAL
    assert check["passed"] is True
    assert card_of(versions(judge_masculine=0.5)).loc["monotone", "figure"] == 0


def test_spearman_agrees_with_scipy_and_is_0_for_a_constant():
    from scipy.stats import spearmanr

    figures = np.random.default_rng(0).integers(0, 4, (30, 5)).astype(float)
    figures[0] = 1.0
    found = spearman_per_row(FIVE, figures)
    assert found[0] == 0
    for row, correlation in zip(figures, found, strict=True):
        if len(set(row)) > 1:
            assert correlation == pytest.approx(spearmanr(FIVE, row).statistic)


# What should stay


@pytest.mark.parametrize(("slope", "passed"), [(0.0, True), (0.04, True), (0.2, False), (-0.2, False)])
def test_off_target_change_is_told_on_a_scale_of_0_to_1(slope, passed):
    card = card_of(versions(judge_young=lambda photo, value: slope * value))
    check = card.loc["off-target: young"]
    assert check["figure"] == pytest.approx(slope)  # 2 slope on the scale of -1 to 1
    assert check["threshold"] == CONTROL_GOAL
    assert check["passed"] is passed
    assert card.loc["off-target: smiling", "passed"] is True


def test_perceived_gender_should_stay_only_where_it_is_not_swept():
    moving = {"judge_masculine": masculine(0.2)}
    assert "off-target: masculine" not in card_of(versions(**moving)).index
    check = card_of(versions(attribute="race", **white_share(0.2), **moving)).loc["off-target: masculine"]
    assert check["figure"] == pytest.approx(0.4)
    assert check["passed"] is False


def test_one_changed_background_in_one_version_fails_the_run():
    def kept(photo, value):
        return 0.999 if (photo, value) == (3, 2.0) else 1.0

    assert card_of(versions()).loc["background", "passed"] is True
    check = card_of(versions(background_kept=kept)).loc["background"]
    assert check["figure"] == 0.999
    assert check["passed"] is False


@pytest.mark.parametrize(("share", "passed"), [(0.0, True), (0.015, True), (0.05, False)])
def test_clipping_is_a_mean_over_versions(share, passed):
    check = card_of(versions(clipped_share=lambda photo, value: 2 * share * (photo % 2))).loc["clipping"]
    assert check["figure"] == pytest.approx(share)
    assert check["passed"] is passed


# Lightness


def groups_of(photos, count=2):
    return {f"p{photo}": f"group {photo % count}" for photo in range(photos)}


def test_the_lightness_gap_is_between_source_groups():
    def lightness(photo, value):
        return 60 + value * (3 if photo % 2 else -1)

    card = card_of(versions(photos=2 * SMALLEST_GROUP, lightness=lightness), groups_of(2 * SMALLEST_GROUP))
    assert card.loc["lightness", "figure"] == pytest.approx(2)
    assert card.loc["lightness", "passed"] is True
    gap = card.loc["lightness gap"]
    assert gap["figure"] == pytest.approx(8)
    assert gap["threshold"] == LIGHTNESS_GOAL
    assert gap["passed"] is False
    assert "group 0 -2.0, group 1 +6.0" in gap["words"]


def test_groups_too_small_to_tell_leave_the_gap_not_measured():
    photos = 2 * SMALLEST_GROUP - 1
    gap = card_of(versions(photos=photos), groups_of(photos)).loc["lightness gap"]
    assert np.isnan(gap["figure"])
    assert gap["passed"] is None


def test_lightness_may_move_with_race_but_not_with_gender():
    table = {"lightness": lambda photo, value: 60 + 4 * value}
    assert card_of(versions(**table)).loc["lightness", "passed"] is False
    assert card_of(versions(attribute="race", **table)).loc["lightness", "passed"] is None


# What could not be measured


MEASURED = ("background_kept", "clipped_share", "lightness", "judge_masculine", "judge_young", "judge_smiling")


@pytest.mark.parametrize("attribute", ["gender", "race"])
def test_what_was_not_measured_is_never_a_pass(attribute):
    empty = dict.fromkeys([*MEASURED, "judge_race_White", "judge_race_Black"], np.nan)
    card = card_of(versions(attribute=attribute, **empty))
    complete = card_of(versions(attribute=attribute))
    assert list(card.index) == list(complete.index)
    assert card["figure"].isna().all()
    assert [passed for passed in card["passed"] if passed is not None] == []


@pytest.mark.parametrize("column", MEASURED)
def test_one_column_that_is_missing_leaves_the_other_checks_alone(column):
    card, complete = card_of(versions(**{column: np.nan})), card_of(versions())
    lost = card["figure"].isna() & complete["figure"].notna()
    assert lost.any()
    assert [passed for passed in card.loc[lost, "passed"] if passed is not None] == []
    kept = ~card["figure"].isna()
    pd.testing.assert_frame_equal(card[kept], complete[kept])


def test_a_sweep_that_does_not_reach_one_has_no_effect_from_minus_one_to_one():
    table = versions(values=np.linspace(-0.5, 0.5, 5), judge_masculine=masculine(0.8))
    card = card_of(table, groups_of(20))
    for name in ("effect", "off-target: young", "lightness", "lightness gap"):
        assert np.isnan(card.loc[name, "figure"])
        assert card.loc[name, "passed"] is None
    assert card.loc["monotone", "figure"] == 1
    assert np.isnan(at(pd.DataFrame([[0.0, 1.0]], columns=[-0.5, 0.5]), 1.0)).all()


def test_an_incomplete_sweep_is_left_out():
    table = versions(judge_masculine=lambda photo, value: 0.5 + 0.2 * value if photo else 0.0)
    broken = (table["photo"] == "p0") & (table["step"] == 2)
    table.loc[broken, ["status", "judge_masculine"]] = ["failed", np.nan]
    assert card_of(table).loc["effect", "figure"] == pytest.approx(0.4)


def test_placebos_and_failures_are_not_judged():
    real, placebo = versions(judge_masculine=masculine(0.2)), versions(arm="random", judge_masculine=masculine(-0.2))
    failed = versions(photos=30).assign(status="failed", background_kept=0.0)
    assert card_of(pd.concat([real, placebo, failed])).equals(card_of(real))


def test_a_run_without_versions_has_an_empty_card():
    none = versions().iloc[:0]
    assert validity_card(none, race_pair=PAIR, groups={}).empty
    assert list(effectiveness_curve(none, race_pair=PAIR).columns) == ["attribute", "value", "mean", "low", "high"]


def test_both_attributes_have_their_own_lines():
    table = pd.concat([versions(), versions(attribute="race", **white_share(0.2))])
    card = validity_card(table, race_pair=PAIR, groups={})
    assert list(card["attribute"].unique()) == ["gender", "race"]
    assert len(card[card["attribute"] == "race"]) == len(card[card["attribute"] == "gender"]) + 1


# The curve


def test_the_curve_is_the_mean_with_its_middle_eighty_percent():
    curve = effectiveness_curve(
        versions(photos=11, judge_masculine=lambda photo, value: 0.5 + 0.1 * value + (photo - 5) / 100),
        race_pair=PAIR,
    )
    np.testing.assert_allclose(curve["value"], FIVE)
    np.testing.assert_allclose(curve["mean"], 0.5 + 0.1 * FIVE)
    np.testing.assert_allclose(curve["mean"] - curve["low"], 0.04)
    np.testing.assert_allclose(curve["high"] - curve["mean"], 0.04)


def test_a_curve_that_was_not_measured_has_no_figures():
    curve = effectiveness_curve(versions(judge_masculine=np.nan), race_pair=PAIR)
    assert len(curve) == 5
    assert curve[["mean", "low", "high"]].isna().all(axis=None)
