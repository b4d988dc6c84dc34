"""The validity card as printed: checks with figures and words, and the banner that a failed one puts over every table.

The checks themselves are computed where the counterfactuals are made.
"""

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from pipeline.report.consequences import consequence_of
from pipeline.run.formats import is_missing, next_to_threshold, pluralise

State = Literal["holds", "fails", "not measured", "no threshold"]
SIGNS: Mapping[State, str] = {"holds": "✓", "fails": "✕", "not measured": "?", "no threshold": "·"}


@dataclass(frozen=True)
class CheckResult:
    """One check, ready to print; ``attribute`` is empty where it concerns the whole run."""

    name: str
    attribute: str
    figure: str
    threshold: str
    state: State
    words: str

    @property
    def consequence(self) -> str:
        """What to make of the slopes, where the check fails; else empty."""
        return consequence_of(self.name) if self.state == "fails" else ""

    @property
    def sign(self) -> str:
        """A sign for the state, so that colour is not the only mark."""
        return SIGNS[self.state]


def check_results(checks: Iterable[Mapping[Hashable, Any]]) -> tuple[CheckResult, ...]:
    """The card's rows (name, attribute, figure, unit, threshold, passed, words) as printed.

    A check passes only if it says so; one without a figure is "not measured".
    """
    return tuple(_printed(check) for check in checks)


def card_frame(card: pd.DataFrame) -> pd.DataFrame:
    """The card as people read it: columns attribute, check, figure, threshold, state."""
    rows = [
        {
            "attribute": result.attribute, "check": result.name, "figure": result.figure,
            "threshold": result.threshold, "state": result.state,
        }
        for result in check_results(card.to_dict("records"))
    ]  # fmt: skip
    return pd.DataFrame(rows, columns=["attribute", "check", "figure", "threshold", "state"])


def cards_next_to_each_other(first: pd.DataFrame, second: pd.DataFrame, *, names: tuple[str, str]) -> pd.DataFrame:
    """Two runs' cards as one table: a row a check, with figure and state of each run; empty where a run lacks it.

    Args:
        first, second: cards as ``validity`` tables have them.
        names: of the runs, the headings of their columns; different ones.
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
    """The card with one row a check and one column an attribute; None where a check does not concern one."""
    found = {(result.name, result.attribute): result for result in card}
    names = dict.fromkeys(result.name for result in card)
    return [(name, [found.get((name, attribute)) for attribute in attributes]) for name in names]


def card_title(results: Sequence[CheckResult]) -> str:
    """``Validity card, 13 checks: 11 hold, 0 fail, 2 not measured``."""
    return f"Validity card, {card_counts(results)}"


def card_counts(results: Sequence[CheckResult]) -> str:
    """``13 checks: 11 hold, 0 fail, 2 not measured``: each state counted apart."""
    states = [result.state for result in results]
    counts = f"{states.count('holds')} hold, {states.count('fails')} fail"
    for other in ("not measured", "no threshold"):
        counts += f", {states.count(other)} {other}" if other in states else ""
    return f"{pluralise(len(results), 'check')}: {counts}"


def banner(card: Sequence[CheckResult], attribute: str) -> str | None:
    """What stands over every table of ``attribute``: the checks that fail, or that there are none; else None."""
    concerned = [result for result in card if result.attribute in {"", attribute}]
    failed = [
        f"{result.name} ({result.figure}, threshold {result.threshold})"
        for result in concerned
        if result.state == "fails"
    ]
    if failed:
        return (
            f"The validity card fails for {attribute}: {', '.join(failed)}. "
            "The slopes below may be due to the edit's flaws rather than to the attribute."
        )
    if not any(result.state == "holds" for result in concerned):
        return f"Nothing on the validity card was checked for {attribute}. What else the edit changed is not known."
    return None


def short_banner(attribute: str) -> str:
    """The banner where its reasons have been given already."""
    return f"The validity card does not hold for {attribute}: these slopes may be due to flaws of the edit."


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
    passed = check["passed"]
    if passed is not None and not (isinstance(passed, float) and math.isnan(passed)):
        return "holds" if bool(passed) else "fails"
    return "not measured" if is_missing(_number(check["figure"])) else "no threshold"


def _number(value: Any) -> float | None:
    return None if value is None else float(value)


def _text(value: Any) -> str:
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value)
