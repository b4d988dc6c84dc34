"""Sentences of the report about findings and about queries.

An audit never proves equal treatment, so a null result reads "no evidence of an effect larger than …".
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.config.attributes import AT, ATTRIBUTES, Attribute, attribute_of
from pipeline.run.formats import count, decimal, interval, is_missing, p_equals, plain, pluralise
from pipeline.run.text import visible

Row = Mapping[Hashable, Any]
_COUNTS = (
    ("failed", "failed"),
    ("waiting", "in jobs without answers yet"),
    ("not_asked", "not sent"),
)


@dataclass(frozen=True)
class Poles:
    """The names of an attribute and its poles in tables, sentences and charts.

    Attributes:
        subject: the attribute, e.g. "perceived gender".
        low, high: headings for slopes below and above 0.
        with_low, with_high: phrases that follow "the label rises".
        short_low, short_high: the poles on a chart's axis.
    """

    subject: str
    low: str
    high: str
    with_low: str
    with_high: str
    short_low: str
    short_high: str


def poles_of(name: str, swept: Mapping[str, Attribute] = ATTRIBUTES) -> Poles:
    """Return the names of an attribute's poles; those of an unknown attribute are "low" and "high"."""
    attribute = attribute_of(name, swept)
    low, high = attribute.poles
    headings = (
        (f"Perceived {low}", f"Perceived {high}")
        if name.partition(AT)[0] in ATTRIBUTES
        else (f"Perceived {name}, a < 0", f"Perceived {name}, a > 0")
    )
    with_low, with_high = (words.format(low=low, high=high) for words in attribute.directions)
    return Poles(attribute.subject, *headings, with_low, with_high, low, high)


def quoted(label: object) -> str:
    """Return a label in quotation marks, with invisible characters escaped."""
    return f"“{visible(label)}”"


def evidence(row: Row) -> str:
    """Return ``normalised slope +0.120 (95 % interval 0.080 to 0.160, q < 0.001)``, and the edit − placebo slope."""
    bounds = f"95 % interval {interval(row['slope_low'], row['slope_high'])}"
    slope = f"normalised slope {decimal(row['slope'], sign=True)} ({bounds}, {p_equals('q', row['q'])})"
    if is_missing(row.get("net_slope")):
        return slope
    net = f"{decimal(row['net_slope'], sign=True)} ({interval(row['net_low'], row['net_high'])})"
    return f"{slope}; edit − placebo “{row['placebo']}” {net}"


def finding(row: Row, poles: Poles) -> str:
    """Return a sentence for a label whose slope meets the rule."""
    direction = poles.with_low if row["slope"] < 0 else poles.with_high
    return f"{quoted(row['label'])} rises {direction}: {evidence(row)}."


def no_finding(row: Row, poles: Poles) -> str:
    """Return a sentence for an estimable label whose slope does not meet the rule."""
    label = quoted(row["label"])
    low, high = row["slope_low"], row["slope_high"]
    if low <= 0 <= high:
        return f"{label}: no evidence of an effect larger than {decimal(max(-low, high))}: {evidence(row)}."
    direction = poles.with_low if row["slope"] < 0 else poles.with_high
    missed = "exceed its placebo's" if row.get("exceeds_placebos") is False else "meet the rule"
    return f"{label}: rises {direction}, but does not {missed}: {evidence(row)}."


def rule(*, max_p: float, min_slope: float) -> str:
    """Return the rule in words, such as ``p < 0.001 and |slope| > 0.03``."""
    return f"p < {plain(max_p)} and |slope| > {plain(min_slope)}"


def nothing_found(tested: pd.DataFrame, poles: Poles, *, max_p: float, min_slope: float) -> str:
    """Return a summary of tested labels (rows of the slopes frame) of which none meets the rule."""
    if tested.empty:
        return f"No label could be tested for {poles.subject}, so there is no evidence either way."
    several = f"None of the {count(len(tested))} tested labels changes"
    subject = several if len(tested) > 1 else "The only tested label does not change"
    reach = float(tested[["slope_low", "slope_high"]].abs().to_numpy(float).max())
    return (
        f"{subject} with {poles.subject} by the rule {rule(max_p=max_p, min_slope=min_slope)}: no evidence of an "
        f"effect larger than {decimal(reach)}, the farthest bound of the 95 % intervals."
    )


def account_words(facts: Mapping[str, Any]) -> list[str]:
    """Return phrases about the queries of one classifier, from its account in ``run.json``."""
    images = facts.get("images", 0)
    answered = facts.get("answered", facts.get("known_before", 0) + facts.get("answered_now", 0))
    parts = [f"{count(answered)} of {count(images)} images answered"]
    parts += [f"{count(facts[key])} {words}" for key, words in _COUNTS if facts.get(key)]
    prepared = facts.get("prepared", {})
    if re_encoded := sum(prepared.get("re_encoded", {}).values()):
        parts.append(f"{count(re_encoded)} versions re-encoded to fit its limits, all versions of a photo alike")
    if prepared.get("excluded"):
        parts.append(f"{count(prepared['excluded'])} versions excluded that exceed its limits")
    if facts.get("usd_so_far"):
        parts.append(f"about US$ {facts['usd_so_far']:,.2f}")
    if billed := facts.get("possibly_billed", {}).get("intents"):
        parts.append(f"{count(billed)} requests possibly billed without a stored answer")
    return parts + _drift_words(facts.get("drift", {}))


def _drift_words(drift: Mapping[str, Any]) -> list[str]:
    if not drift.get("answers"):
        return []
    sentinels = f"{count(drift['sentinels'])} sentinel images, {count(drift['answers'])} answers"
    changed = drift.get("changed", [])
    if not changed:
        return [f"{sentinels}: no change of answers or versions detected"]
    largest = f", a score by up to {drift['largest_score_change']:.2g}" if drift.get("largest_score_change") else ""
    return [f"{sentinels}: {pluralise(len(changed), 'change')} detected{largest} ({changed[0]})"]
