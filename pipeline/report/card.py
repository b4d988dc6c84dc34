"""The validity card as printed: checks with figures and words, what a failed check means, and the banner above tables.

The checks are computed in ``pipeline.counterfactuals``.
"""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from pipeline.run.formats import next_to_threshold, pluralise

State = Literal["holds", "fails", "not measured", "no threshold"]
SIGNS: Mapping[State, str] = {"holds": "✓", "fails": "✕", "not measured": "?", "no threshold": "·"}

PLACEBO = "trust slopes only as far as they exceed those of their placebos (edit − placebo)"
AGAIN = "repeat the audit without the photos in tables/photo_failures.csv and compare"

# What a failed check means for the slopes, by the name of a check, or by its part before the colon.
CONSEQUENCES: Mapping[str, str] = {
    "null edit": "an edit to the face's own value changes the photo, so differences from the photo are not due to the "
    "attribute alone",
    "background": f"pixels outside the mask changed, so the edit affects more than the face; {AGAIN}",
    "effect": "judges perceive a smaller change than intended, so slopes are underestimated and the absence of "
    "findings means little",
    "effect: smallest group": "slopes are underestimated most in this group, so differences between groups may be due "
    "to the edit",
    "monotone": "some faces do not change steadily from step to step: judge the whole sweep, not single steps",
    "falls": "some faces change back along the sweep: judge the whole sweep, not single steps",
    "dead faces": f"these faces hardly change and pull slopes towards 0; {AGAIN}",
    "age": "labels related to age may change for that reason: sweep age as well and compare (one unit is 5 years)",
    "age: nine of ten": "single faces look years younger or older, which may affect the mean of few photos",
    "off-target": "this attribute changes as well, and labels related to it may change for that reason: sweep it too, "
    "if possible, and compare",
    "lightness": "labels that depend on brightness may change for that reason: compare with the colour placebo",
    "lightness gap": "brightness changes more in one group, so differences between groups may be due to the edit",
    "tone": "skin tone changes by another amount than intended, so slopes of labels that depend on it are biased",
    "face against neck": f"the face no longer matches the neck, to which classifiers may respond: {PLACEBO}",
    "concentration": f"the change is concentrated in small areas, unlike differences between real faces: {PLACEBO}",
    "stencil": f"all faces receive the same pattern, which a classifier may recognise: {PLACEBO}",
    "asymmetry": f"one half of the face changes more: {PLACEBO}",
    "share of a real paste": "the edit has a larger effect than a real face of the other group, so slopes are "
    "overestimated",
    "detection": f"a small classifier detects edited images, so the audited one may as well: {PLACEBO}",
    "identity": "versions look like other people, which may change labels",
    "seam": f"the mask's edge shows as a line: {PLACEBO}; {AGAIN}",
    "clipping": f"highlights and shadows are clipped; {AGAIN}",
    "placebo": "a change without the attribute changes what judges perceive (the interval shows whether by chance): "
    f"{PLACEBO}",
}


@dataclass(frozen=True)
class CheckResult:
    """One check, ready to print; ``attribute`` is empty if it concerns the whole run."""

    name: str
    attribute: str
    figure: str
    threshold: str
    state: State
    words: str

    @property
    def consequence(self) -> str:
        """What a failed check means for the slopes; otherwise empty."""
        return consequence_of(self.name) if self.state == "fails" else ""

    @property
    def sign(self) -> str:
        """A sign for the state, so that it is not shown by colour alone."""
        return SIGNS[self.state]


def check_results(checks: Iterable[Mapping[Hashable, Any]]) -> tuple[CheckResult, ...]:
    """Return the card's rows (name, attribute, figure, unit, threshold, passed, words) ready to print."""
    return tuple(_printed(check) for check in checks)


def card_frame(card: pd.DataFrame) -> pd.DataFrame:
    """Return the card as a table of text: attribute, check, figure, threshold, state."""
    columns = ["attribute", "name", "figure", "threshold", "state"]
    results = pd.DataFrame(check_results(card.to_dict("records")), columns=[*CheckResult.__dataclass_fields__])
    return results[columns].rename(columns={"name": "check"})


def cards_next_to_each_other(first: pd.DataFrame, second: pd.DataFrame, *, names: tuple[str, str]) -> pd.DataFrame:
    """Return one row per check with the figure and state of both runs, empty if a run lacks the check.

    Args:
        first, second: ``validity`` tables.
        names: different names of the runs, for the headings.
    """
    keys = ["attribute", "check", "threshold"]
    cards = [
        card_frame(card)
        .assign(threshold=lambda rows: rows["threshold"].str.removeprefix("±"))  # the other figure may be positive
        .rename(columns={"figure": name, "state": f"state {name}"})
        .set_index(keys)
        for card, name in zip((first, second), names, strict=True)
    ]
    return pd.concat(cards, axis=1).fillna("").reset_index()


def matrix(card: Sequence[CheckResult], attributes: Sequence[str]) -> list[tuple[str, list[CheckResult | None]]]:
    """Return the card as rows of checks and columns of attributes; None if a check does not concern an attribute."""
    found = {(result.name, result.attribute): result for result in card}
    names = dict.fromkeys(result.name for result in card)
    return [(name, [found.get((name, attribute)) for attribute in attributes]) for name in names]


def card_title(results: Sequence[CheckResult]) -> str:
    """Return ``Validity card, 13 checks: 11 hold, 0 fail, 2 not measured``."""
    return f"Validity card, {card_counts(results)}"


def card_counts(results: Sequence[CheckResult]) -> str:
    """Return ``13 checks: 11 hold, 0 fail, 2 not measured``."""
    states = [result.state for result in results]
    counts = f"{states.count('holds')} hold, {states.count('fails')} fail"
    for other in ("not measured", "no threshold"):
        counts += f", {states.count(other)} {other}" if other in states else ""
    return f"{pluralise(len(results), 'check')}: {counts}"


def banner(card: Sequence[CheckResult], attribute: str) -> str | None:
    """Return the warning above every table of ``attribute`` if checks fail or none holds, otherwise None."""
    concerned = [result for result in card if result.attribute in {"", attribute}]
    failed = [
        f"{result.name} ({result.figure}, threshold {result.threshold})"
        for result in concerned
        if result.state == "fails"
    ]
    if failed:
        return (
            f"The validity card fails for {attribute}: {', '.join(failed)}. "
            "The slopes below may be due to flaws of the edit rather than to the attribute."
        )
    if not any(result.state == "holds" for result in concerned):
        return f"No check of the validity card could be made for {attribute}. What else the edit changed is unknown."
    return None


def short_banner(attribute: str) -> str:
    """Return the warning without its reasons."""
    return f"The validity card does not hold for {attribute}: these slopes may be due to flaws of the edit."


def consequence_of(check: str) -> str:
    """Return what the failure of a check means for the slopes; empty for an unknown check."""
    return CONSEQUENCES.get(check) or CONSEQUENCES.get(check.partition(":")[0], "")


def _printed(check: Mapping[Hashable, Any]) -> CheckResult:
    number = _number(check["figure"])
    figure, limit = next_to_threshold(number, _number(check["threshold"]), str(check["unit"]))
    if check.get("of_size") == True and number is not None and number < 0:  # noqa: E712 - NaN in tables of earlier runs
        limit = f"±{limit}"
    return CheckResult(
        name=str(check["name"]),
        attribute=_text(check["attribute"]),
        figure=figure,
        threshold=limit,
        state=_state(check),
        words=_text(check["words"]),
    )


def _state(check: Mapping[Hashable, Any]) -> State:
    if not pd.isna(check["passed"]):
        return "holds" if check["passed"] else "fails"
    return "not measured" if pd.isna(check["figure"]) else "no threshold"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str:
    return "" if pd.isna(value) else str(value)
