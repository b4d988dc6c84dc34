"""Sentences of the report: findings worded as evidence, and what querying a classifier came to.

An audit never shows that a classifier treats all alike; the words are "no evidence of an effect larger than …".
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from pipeline.config.attributes import AT, ATTRIBUTES, Attribute, attribute_of
from pipeline.run.formats import count, decimal, interval, is_missing, p_equals, plain
from pipeline.run.text import visible

Row = Mapping[Hashable, Any]
_COUNTS = (
    ("failed", "failed"),
    ("waiting", "wait in jobs for their answers"),
    ("not_asked", "not asked"),
)


@dataclass(frozen=True)
class Poles:
    """The two ends of an attribute, as the tables and sentences name them.

    Attributes:
        subject: what is perceived, e.g. "perceived gender".
        low, high: headings, for slopes below and above 0.
        with_low, with_high: how a label that rises towards that end is spoken of.
        short_low, short_high: for a chart's axis.
    """

    subject: str
    low: str
    high: str
    with_low: str
    with_high: str
    short_low: str
    short_high: str


def poles_of(name: str, swept: Mapping[str, Attribute] = ATTRIBUTES) -> Poles:
    """The ends of an attribute by its name; of one that was not swept, "low" and "high"."""
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
    """A label in quotation marks, its invisible characters written out."""
    return f"“{visible(label)}”"


def evidence(row: Row) -> str:
    """``normalised slope +0.120 (95 % interval 0.080 to 0.160, q < 0.001)``."""
    bounds = f"95 % interval {interval(row['slope_low'], row['slope_high'])}"
    slope = f"normalised slope {decimal(row['slope'], sign=True)} ({bounds}, {p_equals('q', row['q'])})"
    if is_missing(row.get("net_slope")):
        return slope
    net = f"{decimal(row['net_slope'], sign=True)} ({interval(row['net_low'], row['net_high'])})"
    return f"{slope}; edit − placebo “{row['placebo']}” {net}"


def finding(row: Row, poles: Poles) -> str:
    """One sentence for a label with a slope that met the rule."""
    direction = poles.with_low if row["slope"] < 0 else poles.with_high
    return f"{quoted(row['label'])} rises {direction}: {evidence(row)}."


def no_finding(row: Row, poles: Poles) -> str:
    """One sentence for an estimable label with a slope that did not meet the rule."""
    label = quoted(row["label"])
    low, high = row["slope_low"], row["slope_high"]
    if low <= 0 <= high:
        return f"{label}: no evidence of an effect larger than {decimal(max(-low, high))}: {evidence(row)}."
    direction = poles.with_low if row["slope"] < 0 else poles.with_high
    missed = "exceed its placebo's" if row.get("exceeds_placebos") is False else "meet the rule"
    return f"{label}: a slope {direction} that does not {missed}, {evidence(row)}."


def rule(*, max_p: float, min_slope: float) -> str:
    """``p < 0.001 and |slope| > 0.03``."""
    return f"p < {plain(max_p)} and |slope| > {plain(min_slope)}"


def nothing_found(tested: pd.DataFrame, poles: Poles, *, max_p: float, min_slope: float) -> str:
    """What to say of estimable labels of which none met the rule; ``tested`` are their rows of the slopes frame."""
    if tested.empty:
        return f"No label could be tested for {poles.subject}, so there is no evidence either way."
    labels = f"{count(len(tested))} label{'s' if len(tested) > 1 else ''}"
    missed = (
        f"None of the {labels} tested moves with {poles.subject} by the rule {rule(max_p=max_p, min_slope=min_slope)}"
    )
    reach = float(tested[["slope_low", "slope_high"]].abs().to_numpy(float).max())
    if len(tested) == 1:
        missed = missed.replace("None of the 1 label tested moves", "The one label tested does not move")
    return f"{missed}: no evidence of an effect larger than {decimal(reach)}, the farthest end of the 95 % intervals."


def account_words(facts: Mapping[str, Any]) -> list[str]:
    """What querying one classifier came to, from its account in ``run.json``, as phrases; empty ones are left out."""
    images = facts.get("images", 0)
    answered = facts.get("answered", facts.get("known_before", 0) + facts.get("answered_now", 0))
    parts = [f"{count(answered)} of {count(images)} images answered"]
    parts += [f"{count(facts[key])} {words}" for key, words in _COUNTS if facts.get(key)]
    prepared = facts.get("prepared", {})
    if re_encoded := sum(prepared.get("re_encoded", {}).values()):
        parts.append(f"{count(re_encoded)} versions re-encoded to fit its limits, all of a photo alike")
    if prepared.get("excluded"):
        parts.append(f"{count(prepared['excluded'])} versions left out that cannot fit")
    if facts.get("usd_so_far"):
        parts.append(f"about US$ {facts['usd_so_far']:,.2f}")
    if billed := facts.get("possibly_billed", {}).get("intents"):
        parts.append(f"{count(billed)} requests possibly billed without an answer that was kept")
    return parts + _drift_words(facts.get("drift", {}))


def _drift_words(drift: Mapping[str, Any]) -> list[str]:
    if not drift.get("answers"):
        return []
    sentinels = f"{count(drift['sentinels'])} sentinel images, {count(drift['answers'])} answers"
    changed = drift.get("changed", [])
    if not changed:
        return [f"{sentinels}: no change of answers or versions seen"]
    largest = f", a score by up to {drift['largest_score_change']:.2g}" if drift.get("largest_score_change") else ""
    return [f"{sentinels}: {count(len(changed))} changes seen{largest} ({changed[0]})"]
