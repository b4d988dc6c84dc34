"""Statistics of reviewers' answers: their agreement, the estimator's accuracy, and whether edits are noticed."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import ATTRIBUTES
from pipeline.counterfactuals.checks import Check, line
from pipeline.review.questions import (
    BOTH,
    CANNOT_TELL,
    DIRECTION,
    EXCLUDE,
    FACE,
    LEFT,
    NO_FACE,
    ORIGINAL,
    RIGHT,
    VISIBILITY,
)  # fmt: skip
from pipeline.run.formats import measured, pluralise

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = ("measure", "attribute", "sample", "reviewers", "items", "answers", "figure", "low", "high")
AGREEMENT = "agreement of reviewers (Krippendorff's α)"
CONFIRMED = "estimates confirmed"
EFFECTIVE = "edits seen in their direction"
EDIT_SEEN, PHOTO_SEEN = "edited pictures that look edited", "unedited photos that look edited"


def review_measures(answers: "pd.DataFrame", faces: "pd.DataFrame") -> "pd.DataFrame":
    """Compute all statistics of the answers, one row per measure, attribute and sample.

    Shares have Wilson's interval at 95 %. Several answers to one item are not independent, so the interval counts
    items, not answers, which makes it conservative.

    Args:
        answers: the table that ``read_answers`` returns.
        faces: the faces table with the estimator's own values.

    Source:
        Krippendorff (2011), *Computing Krippendorff's Alpha-Reliability*; Wilson (1927).
    """
    import pandas as pd

    rows = [*_agreement(answers), *_confirmed(answers, faces), *_effective(answers), *_visible(answers)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _agreement(answers: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    import krippendorff

    for (kind, attribute), rows in answers.groupby(["kind", "attribute"]):
        table = rows.pivot(index="reviewer", columns="item", values="answer")
        table = table.loc[:, table.notna().sum() > 1]  # items that at least two reviewers answered
        if table.stack().nunique() < 2:
            continue
        codes = table.stack().astype("category").cat.codes.unstack()
        alpha = krippendorff.alpha(codes.to_numpy(dtype=float), level_of_measurement="nominal")
        yield {
            "measure": AGREEMENT, "attribute": attribute, "sample": kind, "reviewers": len(table),
            "items": table.shape[1], "answers": int(table.count().sum()), "figure": float(alpha),
            "low": None, "high": None,
        }  # fmt: skip


def _confirmed(answers: "pd.DataFrame", faces: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    usable = faces[faces["status"] == "ok"]
    answered = answers[(answers["kind"] == FACE) & ~answers["answer"].isin([CANNOT_TELL, NO_FACE, EXCLUDE])]
    for (attribute, sample), rows in answered.groupby(["attribute", "sample"]):
        estimated = dict(zip(usable["photo"], ATTRIBUTES[str(attribute)].classes_of(usable), strict=True))
        yield _share(CONFIRMED, attribute, sample, rows, rows["answer"] == rows["photo"].map(estimated))


def _effective(answers: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    answered = answers[(answers["kind"] == DIRECTION) & answers["answer"].isin([LEFT, RIGHT])]
    for attribute, rows in answered.groupby("attribute"):
        correct = (rows["answer"] == RIGHT) == (rows["right"].astype(float) > rows["left"].astype(float))
        yield _share(EFFECTIVE, attribute, rows["sample"].iloc[0], rows, correct)


def _visible(answers: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    chosen = (answers["kind"] == VISIBILITY) & (answers["sample"] == ORIGINAL) & (answers["answer"] != CANNOT_TELL)
    for attribute, rows in answers[chosen].groupby("attribute"):
        photo_is_left = rows["left"].isna()  # the unedited photo has no value
        for measure, is_left in ((EDIT_SEEN, ~photo_is_left), (PHOTO_SEEN, photo_is_left)):
            side = is_left.map({True: LEFT, False: RIGHT})
            yield _share(measure, attribute, ORIGINAL, rows, (rows["answer"] == side) | (rows["answer"] == BOTH))


def _share(measure: str, attribute: Any, sample: Any, rows: "pd.DataFrame", hits: "pd.Series[bool]") -> dict[str, Any]:
    """Return the share of answers that are hits, each item weighing the same, with Wilson's interval over items."""
    from statsmodels.stats.proportion import proportion_confint

    items = hits.astype(float).groupby(rows["item"]).mean()
    low, high = proportion_confint(items.sum(), len(items), method="wilson")
    return {
        "measure": measure, "attribute": attribute, "sample": sample, "reviewers": rows["reviewer"].nunique(),
        "items": len(items), "answers": len(rows), "figure": float(items.mean()), "low": float(low),
        "high": float(high),
    }  # fmt: skip


def review_checks(answers: "pd.DataFrame") -> "list[Check]":
    """Return the lines of the validity card that rest on people: are edits seen in their direction, and as edits?"""
    return [
        line(
            f"people: {row['measure']}",
            row["attribute"],
            100 * row["figure"],
            "%",
            f"{row['measure']}, by {pluralise(row['reviewers'], 'reviewer')} of {pluralise(row['items'], 'pair')}: "
            f"{measured(row['figure'], 'share')} (95 % interval {measured(row['low'], 'share')} to "
            f"{measured(row['high'], 'share')})",
        )
        for row in (*_effective(answers), *_visible(answers))
    ]
