"""What asking the classifiers came to, in words, from the account in a run's record: for the page and the terminal."""

from collections.abc import Mapping
from typing import Any

from pipeline.run.formats import count

_COUNTS = (("failed", "failed"), ("not_asked", "not asked"))


def asked_words(facts: Mapping[str, Any]) -> list[str]:
    """One classifier's account (``run.json``, ``query``), without its name; parts that say nothing are left out."""
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
    asked = f"{count(drift['sentinels'])} sentinel images asked {count(drift['answers'])} times"
    changed = drift.get("changed", [])
    if not changed:
        return [f"{asked}: no change of answers or versions seen"]
    largest = f", a score by up to {drift['largest_score_change']:.2g}" if drift.get("largest_score_change") else ""
    return [f"{asked}: {count(len(changed))} changes seen{largest} ({changed[0]})"]
