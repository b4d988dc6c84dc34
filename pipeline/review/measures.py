"""What reviewers' answers say: agreement, the estimator's errors, and whether edits are seen and as what."""

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
    """Every figure that the answers give, one row a measure, attribute and sample.

    Shares have Wilson's interval at 95 %. Several answers to one item are not independent, so the interval counts
    items, not answers: it is rather too wide.

    Args:
        answers: as ``read_answers`` gives them.
        faces: the faces table with the estimator's own values.

    Source:
        Krippendorff (2011), *Computing Krippendorff's Alpha-Reliability*; Wilson (1927).
    """
    import pandas as pd

    rows = [*_agreement(answers), *_confirmed(answers, faces), *_effective(answers), *_visible(answers)]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _agreement(answers: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    import krippendorff

    for (kind, attribute), own in answers.groupby(["kind", "attribute"]):
        table = own.pivot(index="reviewer", columns="item", values="answer")
        table = table.loc[:, table.notna().sum() > 1]  # items that at least two reviewers answered
        if table.empty or len(values := sorted(set(table.stack()))) < 2:
            continue
        codes = table.apply(lambda column: column.map({value: place for place, value in enumerate(values)}))
        alpha = krippendorff.alpha(codes.to_numpy(dtype=float), level_of_measurement="nominal")
        yield {
            "measure": AGREEMENT, "attribute": attribute, "sample": kind, "reviewers": len(table),
            "items": table.shape[1], "answers": int(table.notna().to_numpy().sum()), "figure": float(alpha),
            "low": None, "high": None,
        }  # fmt: skip


def _confirmed(answers: "pd.DataFrame", faces: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    usable = faces[faces["status"] == "ok"]
    answered = answers[(answers["kind"] == FACE) & ~answers["answer"].isin([CANNOT_TELL, NO_FACE, EXCLUDE])]
    for (attribute, sample), own in answered.groupby(["attribute", "sample"]):
        estimated = dict(zip(usable["photo"], ATTRIBUTES[str(attribute)].classes_of(usable), strict=True))
        yield _share(CONFIRMED, attribute, sample, own, own["answer"] == own["photo"].map(estimated))


def _effective(answers: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    answered = answers[(answers["kind"] == DIRECTION) & answers["answer"].isin([LEFT, RIGHT])]
    for attribute, own in answered.groupby("attribute"):
        right = (own["answer"] == RIGHT) == (own["right"].astype(float) > own["left"].astype(float))
        yield _share(EFFECTIVE, attribute, own["sample"].iloc[0], own, right)


def _visible(answers: "pd.DataFrame") -> Iterator[dict[str, Any]]:
    chosen = (answers["kind"] == VISIBILITY) & (answers["sample"] == ORIGINAL) & (answers["answer"] != CANNOT_TELL)
    for attribute, own in answers[chosen].groupby("attribute"):
        edited = own["left"].isna().map({True: RIGHT, False: LEFT})  # the photo itself has no value
        photo = own["left"].isna().map({True: LEFT, False: RIGHT})
        for measure, side in ((EDIT_SEEN, edited), (PHOTO_SEEN, photo)):
            yield _share(measure, attribute, ORIGINAL, own, (own["answer"] == side) | (own["answer"] == BOTH))


def _share(measure: str, attribute: Any, sample: Any, own: "pd.DataFrame", hits: "pd.Series[bool]") -> dict[str, Any]:
    """A share of answers, each item counting once, with Wilson's interval over items."""
    from statsmodels.stats.proportion import proportion_confint

    items = hits.astype(float).groupby(own["item"]).mean()
    low, high = proportion_confint(items.sum(), len(items), method="wilson")
    return {
        "measure": measure, "attribute": attribute, "sample": sample, "reviewers": own["reviewer"].nunique(),
        "items": len(items), "answers": len(own), "figure": float(items.mean()), "low": float(low), "high": float(high),
    }  # fmt: skip


def review_checks(answers: "pd.DataFrame") -> "list[Check]":
    """The lines of the validity card that only people can give: are edits seen in their direction, and as edits?"""
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
