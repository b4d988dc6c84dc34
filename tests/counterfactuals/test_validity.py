import numpy as np
import pandas as pd
import pytest
from version_rows import GOALS, PERFECT, card_fails, card_of, groups_of, masculine, read_back, versions, white_share

from pipeline.config.attributes import ATTRIBUTES
from pipeline.counterfactuals.checks import Check
from pipeline.counterfactuals.validity import (
    CURVE_COLUMNS,
    FAILURE_COLUMNS,
    LIGHTNESS_COLUMNS,
    effectiveness_curve,
    lightness_curve,
    photo_failures,
    validity_card,
)
from pipeline.report.card import consequence_of

# Effect


@pytest.mark.parametrize(("slope", "passed"), [(0.21, True), (0.15, False), (-0.21, False)])
def test_effect_is_the_rise_from_minus_one_to_one(slope, passed):
    check = card_of(versions(judge_masculine=masculine(slope))).loc["effect"]
    assert check["figure"] == pytest.approx(2 * slope)
    assert check["threshold"] == GOALS.effect
    assert check["passed"] is passed
    assert f"{4 * slope:+.2f} over the whole sweep".replace("-", "−") in check["words"]


def test_effect_of_race_is_relative_to_the_pair():
    check = card_of(versions(attribute="race", **white_share(0.21))).loc["effect"]
    assert check["figure"] == pytest.approx(0.42)
    assert check["passed"] is True


def test_effect_is_interpolated_between_steps():
    seven = np.linspace(-2, 2, 7)  # without the steps -1 and +1
    check = card_of(versions(values=seven, judge_masculine=masculine(0.2))).loc["effect"]
    assert check["figure"] == pytest.approx(0.4)


def test_monotone_is_the_share_of_faces_with_a_monotone_rise():
    def rises_for_most(photo, value):
        return 0.5 + (0.1 * value if photo < 15 else 0.1 * abs(value))

    check = card_of(versions(judge_masculine=rises_for_most)).loc["monotone"]
    assert check["figure"] == pytest.approx(0.75)
    assert check["threshold"] == GOALS.monotone
    assert check["passed"] is False
    assert card_of(versions(judge_masculine=rises_for_most), monotone=0.7).loc["monotone", "passed"] is True
    assert card_of(versions(judge_masculine=0.5)).loc["monotone", "figure"] == 0


def test_crossing_counts_faces_and_reports_the_median_value():
    def crosses_for_most(photo, value):
        return 0.5 + 0.2 * (value - 0.5) if photo < 15 else 0.6 + 0.01 * value

    check = card_of(versions(judge_masculine=crosses_for_most)).loc["crossing"]
    assert check["figure"] == pytest.approx(0.75)
    assert "half of them below a = +0.5 (" in check["words"]
    assert check["passed"] is None
    assert "undecided" not in card_of(versions(judge_masculine=0.9)).loc["crossing", "words"]


# Off-target changes


@pytest.mark.parametrize(("slope", "passed"), [(0.0, True), (0.04, True), (0.06, False), (-0.06, False)])
def test_off_target_change_is_on_a_scale_of_0_to_1(slope, passed):
    card = card_of(versions(judge_young=lambda photo, value: slope * value))
    check = card.loc["off-target: young"]
    assert check["figure"] == pytest.approx(slope)  # 2 slope on the scale of -1 to 1
    assert check["threshold"] == GOALS.off_target
    assert check["passed"] is passed
    assert card.loc["off-target: smiling", "passed"] is True


def test_off_target_gender_is_checked_for_other_attributes_only():
    moving = {"judge_masculine": masculine(0.2)}
    assert "off-target: masculine" not in card_of(versions(**moving)).index
    check = card_of(versions(attribute="race", **white_share(0.2), **moving)).loc["off-target: masculine"]
    assert check["figure"] == pytest.approx(0.4)
    assert check["passed"] is False


def test_off_target_race_is_half_the_total_change_of_means():
    # The mean probabilities change by +0.06, -0.04 and -0.02: half of 0.12.
    moving = {
        "judge_race_White": lambda photo, value: 0.2 + 0.03 * value,
        "judge_race_Black": lambda photo, value: 0.2 - 0.02 * value,
        "judge_race_Indian": lambda photo, value: 0.2 - 0.01 * value,
    }
    check = card_of(versions(**moving)).loc["off-target: race"]
    assert check["figure"] == pytest.approx(0.06)
    assert check["passed"] is False
    assert card_of(versions(**moving), off_target=0.07).loc["off-target: race", "passed"] is True
    assert card_of(versions()).loc["off-target: race", "figure"] == pytest.approx(0)
    assert "off-target: race" not in card_of(versions(attribute="race", **moving)).index


def test_off_target_changes_cancel_between_faces():
    table = versions(judge_race_White=lambda photo, value: 0.2 + 0.05 * value * (-1) ** photo)
    assert card_of(table).loc["off-target: race", "figure"] == pytest.approx(0)


@pytest.mark.parametrize("reach", [1.0, 1.5])
def test_shorter_sweep_is_not_reported_at_two(reach):
    table = versions(values=np.linspace(-reach, reach, 5), judge_masculine=masculine(0.25))
    words = " ".join(card_of(table)["words"])
    assert "nan" not in words
    assert "+2" not in words


def test_one_changed_background_fails_the_check():
    def kept(photo, value):
        return 0.999 if (photo, value) == (3, 2.0) else 1.0

    assert card_of(versions()).loc["background", "passed"] is True
    check = card_of(versions(background_kept=kept)).loc["background"]
    assert check["figure"] == 0.999
    assert check["passed"] is False


@pytest.mark.parametrize(("share", "passed"), [(0.0, True), (0.015, True), (0.05, False)])
def test_clipping_is_the_mean_over_versions(share, passed):
    check = card_of(versions(clipped_share=lambda photo, value: 2 * share * (photo % 2))).loc["clipping"]
    assert check["figure"] == pytest.approx(share)
    assert check["passed"] is passed


@pytest.mark.parametrize(("share", "passed"), [(0.0, True), (0.09, True), (0.2, False)])
def test_seam_is_the_largest_mean_over_values(share, passed):
    table = versions(mask_line=lambda photo, value: 2 * share * (photo % 2) if value == -2 else 0.0)
    check = card_of(table).loc["seam"]
    assert check["figure"] == pytest.approx(share)
    assert check["threshold"] == GOALS.seam
    assert check["passed"] is passed
    assert share == 0 or "(a = −2)" in check["words"]


def test_seam_without_its_column_is_not_measured():
    older = versions().drop(columns="mask_line")
    assert card_of(older).loc["seam", "passed"] is None
    assert "seam" not in set(photo_failures(older, swept=ATTRIBUTES)["check"])


# Null edit


def test_null_edit_in_delta_mode_is_exact_and_reports_the_reconstruction():
    card = card_of(versions())
    assert card.loc["null edit", "figure"] == float("inf")
    assert card.loc["null edit", "passed"] is True
    assert "30.0 dB, SSIM 0.95" in card.loc["null edit", "words"]
    assert "null edit: SSIM" not in card.index


@pytest.mark.parametrize(
    ("column", "name", "figure", "passed"),
    [
        ("null_psnr", "null edit", 26.5, True),
        ("null_psnr", "null edit", 25.5, False),
        ("null_psnr", "null edit", np.nan, None),
        ("null_ssim", "null edit: SSIM", 0.86, True),
        ("null_ssim", "null edit: SSIM", 0.84, False),
        ("null_ssim", "null edit: SSIM", np.nan, None),
    ],
)
def test_null_edit_in_reconstruction_mode_has_thresholds(column, name, figure, passed):
    check = card_of(versions(**{column: figure}), mode="reconstruction").loc[name]
    assert check["figure"] == pytest.approx(figure, nan_ok=True)
    assert check["passed"] is passed
    assert ("27.0 dB" if column == "null_psnr" else "0.90") in check["words"]


def test_null_edit_counts_every_photo_once():
    table = versions(null_psnr=lambda photo, value: 20.0 + photo)
    long = pd.concat([table, versions(arm="random", null_psnr=lambda photo, value: 20.0 + photo)])
    for rows in (table, long, table[(table["photo"] != "p0") | (table["step"] == 1)]):
        assert card_of(rows, mode="reconstruction").loc["null edit", "figure"] == pytest.approx(29.5)


# Identity


@pytest.mark.parametrize(("figure", "passed"), [(0.9, True), (0.5, False)])
def test_identity_is_the_mean_similarity_at_minus_one_and_one(figure, passed):
    def alike(photo, value):
        return np.nan if photo % 2 else figure + 0.05 * abs(value) - 0.05

    check = card_of(versions(identity=alike)).loc["identity"]
    assert check["figure"] == pytest.approx(figure)
    assert check["threshold"] == GOALS.identity
    assert check["passed"] is passed
    assert "of 10 photos" in check["words"]


def test_unmeasured_identity_is_not_a_pass():
    check = card_of(versions(identity=np.nan)).loc["identity"]
    assert np.isnan(check["figure"])
    assert check["passed"] is None
    assert "not on this machine" in check["words"]


# Placebos


@pytest.mark.parametrize(
    ("attribute", "arm", "passed"),
    [("gender", "random", False), ("gender", "colour", False), ("race", "random", False), ("race", "colour", None)],
)
def test_placebo_effect_fails_except_for_colour_on_race(attribute, arm, passed):
    moving = {"judge_masculine": masculine(0.1)} if attribute == "gender" else white_share(0.1)
    check = card_of(versions(attribute=attribute, arm=arm, **moving)).loc[f"placebo: {arm}"]
    assert check["figure"] == pytest.approx(0.4), "from -2 to +2"
    assert check["passed"] is passed
    still = card_of(versions(attribute=attribute, arm=arm)).loc[f"placebo: {arm}"]
    assert still["figure"] == pytest.approx(0)
    assert still["passed"] is (None if passed is None else True)


# Lightness


def test_lightness_gap_is_between_source_groups():
    def lightness(photo, value):
        return 60 + value * (3 if photo % 2 else -1)

    photos = 2 * GOALS.smallest_group
    card = card_of(versions(photos=photos, lightness=lightness), groups_of(photos))
    assert card.loc["lightness", "figure"] == pytest.approx(2)
    assert card.loc["lightness", "passed"] is True
    gap = card.loc["lightness gap"]
    assert gap["figure"] == pytest.approx(8)
    assert gap["threshold"] == GOALS.lightness_gap
    assert gap["passed"] is False
    assert "group 0 −2.0, group 1 +6.0" in gap["words"]


def test_lightness_gap_needs_groups_of_minimal_size():
    photos = 2 * GOALS.smallest_group - 1
    gap = card_of(versions(photos=photos), groups_of(photos)).loc["lightness gap"]
    assert np.isnan(gap["figure"])
    assert gap["passed"] is None


def test_lightness_has_a_threshold_for_gender_but_not_for_race():
    table = {"lightness": lambda photo, value: 60 + 4 * value}
    assert card_of(versions(**table)).loc["lightness", "passed"] is False
    assert card_of(versions(attribute="race", **table)).loc["lightness", "passed"] is None


# Missing values

MEASURED = (
    "background_kept", "clipped_share", "mask_line", "lightness", "identity", "judge_masculine", "judge_young",
    "judge_smiling", "judge_race_White",
)  # fmt: skip


@pytest.mark.parametrize("attribute", ["gender", "race"])
def test_unmeasured_checks_never_pass(attribute):
    empty = dict.fromkeys(PERFECT, np.nan)
    card = card_of(versions(attribute=attribute, **empty), mode="reconstruction")
    complete = card_of(versions(attribute=attribute), mode="reconstruction")
    assert list(card.index) == list(complete.index)
    assert card["figure"].isna().all()
    assert [passed for passed in card["passed"] if passed is not None] == []


@pytest.mark.parametrize("column", MEASURED)
def test_missing_column_does_not_affect_other_checks(column):
    card, complete = card_of(versions(**{column: np.nan})), card_of(versions())
    lost = card["figure"].isna() & complete["figure"].notna()
    assert lost.any()
    assert [passed for passed in card.loc[lost, "passed"] if passed is not None] == []
    kept = ~card["figure"].isna()
    pd.testing.assert_frame_equal(card[kept], complete.loc[card.index][kept])


def test_sweep_that_does_not_reach_one_has_no_effect():
    table = versions(values=np.linspace(-0.5, 0.5, 5), judge_masculine=masculine(0.8))
    card = card_of(table, groups_of(20))
    for name in ("effect", "off-target: young", "lightness", "lightness gap"):
        assert np.isnan(card.loc[name, "figure"])
        assert card.loc[name, "passed"] is None
    assert card.loc["monotone", "figure"] == 1


def test_incomplete_sweeps_are_excluded():
    table = versions(judge_masculine=lambda photo, value: 0.5 + 0.2 * value if photo else 0.0)
    broken = (table["photo"] == "p0") & (table["step"] == 2)
    table.loc[broken, ["status", "judge_masculine"]] = ["failed", np.nan]
    assert card_of(table).loc["effect", "figure"] == pytest.approx(0.4)


def test_failed_versions_are_not_counted():
    failed = versions(photos=30).assign(status="failed", background_kept=0.0)
    assert card_of(pd.concat([versions(), failed])).equals(card_of(versions()))


def test_checks_of_the_edit_are_independent_of_placebos():
    real, placebo = versions(judge_masculine=masculine(0.21)), versions(arm="random", judge_masculine=masculine(-0.2))
    both = card_of(pd.concat([real, placebo]))
    pd.testing.assert_frame_equal(both.drop("placebo: random"), card_of(real))
    assert both.loc["placebo: random", "figure"] == pytest.approx(-0.8)


def test_run_without_versions_has_empty_tables():
    none = versions().iloc[:0]
    card = validity_card(none, swept=ATTRIBUTES, groups={})
    assert card.empty
    assert list(card.columns) == list(Check.__dataclass_fields__)
    assert not card_fails(card)
    assert list(effectiveness_curve(none, swept=ATTRIBUTES).columns) == CURVE_COLUMNS
    assert list(lightness_curve(none, groups={}).columns) == LIGHTNESS_COLUMNS
    assert list(photo_failures(none, swept=ATTRIBUTES).columns) == FAILURE_COLUMNS


def test_attributes_have_separate_checks():
    table = pd.concat([versions(), versions(attribute="race", **white_share(0.2))])
    card = validity_card(table, swept=ATTRIBUTES, groups={})
    assert list(card["attribute"].unique()) == ["gender", "race"]
    names = {attribute: set(rows["name"]) for attribute, rows in card.groupby("attribute")}
    assert names["gender"] ^ names["race"] == {"off-target: race", "off-target: masculine"}


# Thresholds, and whether a card fails


@pytest.mark.parametrize(
    ("name", "columns", "goals"),
    [
        ("effect", {"judge_masculine": masculine(0.1)}, {"effect": 0.19}),
        ("off-target: smiling", {"judge_smiling": lambda photo, value: 0.1 * value}, {"off_target": 0.11}),
        ("lightness", {"lightness": lambda photo, value: 60 + 4 * value}, {"lightness": 8.1}),
        ("clipping", {"clipped_share": 0.1}, {"clipped": 0.11}),
        ("seam", {"mask_line": 0.5}, {"seam": 0.6}),
        ("identity", {"identity": 0.2}, {"identity": 0.1}),
    ],
)
def test_thresholds_are_options(name, columns, goals):
    table = versions(**columns)
    assert card_of(table).loc[name, "passed"] is False
    check = card_of(table, **goals).loc[name]
    assert check["passed"] is True
    assert check["threshold"] == next(iter(goals.values()))


def test_card_fails_by_one_failed_check_but_not_by_unmeasured_checks():
    good = versions(judge_masculine=masculine(0.21))
    assert not card_fails(validity_card(good, swept=ATTRIBUTES, groups={}))
    unknown = versions(judge_masculine=masculine(0.21), identity=np.nan, lightness=np.nan)
    assert not card_fails(validity_card(unknown, swept=ATTRIBUTES, groups={}))
    bad = validity_card(versions(judge_masculine=masculine(0.1)), swept=ATTRIBUTES, groups={})
    assert card_fails(bad)
    # So does the card read from CSV.
    assert card_fails(read_back(bad))
    assert not card_fails(read_back(validity_card(unknown, swept=ATTRIBUTES, groups={})))


def test_every_check_with_a_threshold_has_a_consequence():
    edits = versions(judge_masculine=masculine(0.2))
    checks = validity_card(pd.concat([edits, versions(arm="random")]), swept=ATTRIBUTES, groups={})
    without_consequence = {name for name in checks["name"] if not consequence_of(name)}
    assert without_consequence == {"crossing"}, "it has no threshold"
