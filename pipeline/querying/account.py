"""What became of asking the classifiers, as plain values for run.json: nothing billed, lost or left out goes unsaid."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from adapters.base import Price, RawAnswer
from pipeline.querying.drift import drift_of
from pipeline.querying.enquiries import AdapterRequest
from pipeline.querying.plan import AdapterPlan
from pipeline.querying.store import Store
from pipeline.querying.together import Outcome

MOST_IMAGES = 1000  # that are named


def before(plan: AdapterPlan) -> dict[str, Any]:
    """The account of a classifier that is about to be asked."""
    facts: dict[str, Any] = {
        "images": plan.images,
        "known_before": plan.known,
        "calls_planned": plan.calls,
        "features": plan.features,
        "rate_limit": plan.rate,
    }
    if plan.service is not None:
        facts["service"] = {
            "provider": plan.service.provider,
            "host": plan.service.host,
            "retention": plan.service.retention,
            "version": plan.service.version,
        }
        facts["usd_expected"] = None if plan.usd is None else round(plan.usd, 4)
    if plan.price is not None:
        facts["price"] = price_facts(plan.price)
    return facts


def after(enquiry: AdapterRequest, outcome: Outcome, store: Store, *, plan: AdapterPlan) -> dict[str, Any]:
    """The account of a classifier that was asked, with what the store keeps; ``plan`` is as it was before."""
    counts, adapter = outcome.counts, enquiry.adapter
    names = {image.sha256: "/".join(image.path.parts[-3:]) for image in (*enquiry.images, *enquiry.manner.panel)}
    facts = before(plan) | {
        "answered_now": counts.answered,
        "failed": counts.failed,
        "not_asked": counts.not_asked,
        "calls": counts.calls,
        "asked_again": counts.repeated,
        "throttled": counts.throttled,
    }
    if counts.stopped is not None:
        facts["stopped"] = counts.stopped
    if outcome.problem is not None:
        facts["problem"] = outcome.problem
    if enquiry.sent:
        facts["prepared"] = _prepared(enquiry)
    if adapter.capabilities.remote:
        classifier = store.classifier(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
        billed = store.possibly_billed(classifier=classifier)
        facts["possibly_billed"] = {
            "intents": len(billed),
            "images": sorted({names.get(image, image) for image in billed})[:MOST_IMAGES],
        }
        sentinels = store.sentinels(classifier=classifier)
        if sentinels:
            drift = drift_of(sentinels, parse=adapter.parse)
            facts["drift"] = {
                "sentinels": drift.images,
                "answers": drift.answered,
                "changed": [
                    f"{names.get(image, image)}: {what} at the {moment}" for image, moment, what in drift.changed
                ],
                "largest_score_change": round(drift.largest, 6),
                "versions": list(drift.versions),
            }
        paid = (
            counts.known + counts.answered + sum(isinstance(one.outcome, RawAnswer) for one in sentinels) + len(billed)
        )
        facts["usd_so_far"] = usd_of(paid, plan)
    return facts


def price_facts(price: Price) -> dict[str, Any]:
    """A price with its date and source."""
    return {"usd_per_1000": price.usd_per_1000, "as_of": str(price.as_of), "source": price.source, "note": price.note}


def usd_of(images: int, plan: AdapterPlan) -> float | None:
    """What so many billed images cost, by the price that the plan was made with; None where none is known."""
    if plan.price is None:
        return None
    return round(images * plan.features * plan.price.usd_per_1000 / 1000, 4)


def totals(outcomes: Iterable[Outcome], told: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The counts of the stage, over all classifiers."""
    counts = [outcome.counts for outcome in outcomes]
    return {
        "answered_now": sum(one.answered for one in counts),
        "known_before": sum(one.known for one in counts),
        "unanswered": sum(one.failed + one.not_asked for one in counts),
        "possibly_asked_twice": sum(one.unresolved for one in counts),
        "possibly_billed": sum(facts.get("possibly_billed", {}).get("intents", 0) for facts in told),
    }


def _prepared(enquiry: AdapterRequest) -> dict[str, Any]:
    ways = Counter(sent.how for sent in enquiry.sent.values() if sent.sha256 is not None)
    excluded: Sequence[str] = [sent.how for sent in enquiry.sent.values() if sent.sha256 is None]
    return {"re_encoded": dict(ways), "excluded": len(excluded)}
