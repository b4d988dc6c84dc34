"""Failing photos, and curves of effect and lightness."""

import numpy as np
import pandas as pd
import pytest
from version_rows import FIVE, PERFECT, groups_of, masculine, versions, white_share

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM
from pipeline.config.options import ValidityOptions
from pipeline.counterfactuals.validity import (
    CURVE_COLUMNS,
    FAILURE_COLUMNS,
    LIGHTNESS_COLUMNS,
    effectiveness_curve,
    lightness_curve,
    photo_failures,
)

# Failing photos


def failures_of(table, **goals):
    return photo_failures(table, swept=ATTRIBUTES, options=ValidityOptions(**goals)).set_index("photo")


@pytest.mark.parametrize(
    ("check", "columns", "figure"),
    [
        ("background", {"background_kept": lambda photo, value: 0.98 if (photo, value) == (3, 2) else 1.0}, 0.98),
        ("monotone", {"judge_masculine": lambda photo, value: 0.5 + (-0.2 if photo == 3 else 0.2) * value}, -1.0),
        ("clipping", {"clipped_share": lambda photo, value: 0.3 if (photo, value) == (3, 1) else 0.0}, 0.3),
        ("seam", {"mask_line": lambda photo, value: 0.6 if (photo, value) == (3, 0) else 0.0}, 0.6),
        ("identity", {"identity": lambda photo, value: 0.4 if (photo, value) == (3, -1) else 0.9}, 0.4),
    ],
)
def test_failing_photo_is_listed_with_its_worst_figure(check, columns, figure):
    failures = failures_of(versions(**({"judge_masculine": masculine(0.2)} | columns)))
    assert set(failures.index) == {"p3"}
    row = failures[failures["check"] == check].loc["p3"]
    assert (row["attribute"], row["arm"]) == ("gender", EDIT_ARM)
    assert row["figure"] == pytest.approx(figure)
    assert np.isfinite(row["threshold"])


def test_failures_may_be_empty():
    found = photo_failures(versions(judge_masculine=masculine(0.2)), swept=ATTRIBUTES)
    assert found.empty
    assert list(found.columns) == FAILURE_COLUMNS


def test_unmeasured_figures_are_not_failures():
    empty = dict.fromkeys(PERFECT, np.nan)
    assert failures_of(versions(**empty)).empty
    assert failures_of(versions(judge_masculine=masculine(0.2), identity=np.nan)).empty


def test_failures_exclude_placebos_and_include_race():
    real = versions(attribute="race", **white_share(0.2))
    placebo = versions(attribute="race", arm="random", clipped_share=0.5)
    assert failures_of(pd.concat([real, placebo])).empty
    wrong = failures_of(versions(photos=2, attribute="race", **white_share(-0.2)))
    assert set(wrong["attribute"]) == {"race"}
    assert list(wrong["check"]) == ["monotone"] * 2 + ["dead"] * 2


# Curves


def test_effectiveness_curve_has_the_mean_and_the_central_80_percent():
    table = versions(photos=11, judge_masculine=lambda photo, value: 0.5 + 0.1 * value + (photo - 5) / 100)
    curve = effectiveness_curve(table, swept=ATTRIBUTES)
    np.testing.assert_allclose(curve["value"], FIVE)
    np.testing.assert_allclose(curve["mean"], 0.5 + 0.1 * FIVE)
    np.testing.assert_allclose(curve["mean"] - curve["low"], 0.04)
    np.testing.assert_allclose(curve["high"] - curve["mean"], 0.04)


def test_arms_have_separate_curves():
    table = pd.concat([versions(judge_masculine=masculine(0.2)), versions(arm="random")])
    curve = effectiveness_curve(table, swept=ATTRIBUTES)
    assert list(curve.columns) == CURVE_COLUMNS
    means = {arm: rows["mean"].to_numpy() for arm, rows in curve.groupby("arm")}
    np.testing.assert_allclose(means[EDIT_ARM], 0.5 + 0.2 * FIVE)
    np.testing.assert_allclose(means["random"], 0.5)


def test_unmeasured_curve_is_nan():
    curve = effectiveness_curve(versions(judge_masculine=np.nan), swept=ATTRIBUTES)
    assert len(curve) == 5
    assert curve[["mean", "low", "high"]].isna().all(axis=None)


def test_lightness_curve_is_relative_to_the_centre_per_group():
    table = versions(photos=5, lightness=lambda photo, value: 50 + photo + (3 if photo % 2 else -1) * value)
    curve = lightness_curve(table, groups=groups_of(4))  # the group of the fifth photo is unknown
    assert list(curve.columns) == LIGHTNESS_COLUMNS
    slopes = {"group 0": -1, "group 1": 3, "unknown": -1}
    photos = {"group 0": 2, "group 1": 2, "unknown": 1}
    for group, rows in curve.groupby("group"):
        np.testing.assert_allclose(rows["value"], FIVE)
        np.testing.assert_allclose(rows["change"], slopes[group] * FIVE, atol=1e-9)
        assert set(rows["photos"]) == {photos[group]}
        assert set(rows["arm"]) == {EDIT_ARM}


def test_lightness_curves_of_placebos_and_unmeasured_sweeps():
    both = pd.concat([versions(lightness=lambda photo, value: 60 + value), versions(arm="colour")])
    curve = lightness_curve(both, groups={})
    assert curve.groupby("arm")["change"].max().to_dict() == {"colour": 0, EDIT_ARM: 2}
    assert lightness_curve(versions(lightness=np.nan), groups={}).empty
