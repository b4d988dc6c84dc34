"""The account of queries in run.json and ``status``: what was sent, answered, billed, lost and left out."""

import json
import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from adapters.base import RawAnswer
from pipeline.querying.drift import drift_of
from pipeline.querying.plan import AdapterPlan, AdapterRequest
from pipeline.querying.requests import key_maker
from pipeline.querying.runner import AdapterOutcome
from pipeline.querying.store import Store
from pipeline.run.record import Account, Billed, Prepared, Service, Tokens
from pipeline.run.storage import ending

MOST_IMAGES = 1000  # listed by name
_BLOCK = 4096  # answers read at a time
LATELY = timedelta(seconds=60)


def account_before(request: AdapterRequest) -> Account:
    """Return the account of a classifier before its first call."""
    plan = request.plan
    service = plan.service
    return Account(
        images=plan.images,
        known_before=plan.known,
        calls_planned=plan.calls,
        features=plan.features,
        rate_limit=plan.rate,
        service=None
        if service is None
        else Service(provider=service.provider, host=plan.host, retention=service.retention, version=service.version),
        usd_expected=None if service is None or plan.usd is None else round(plan.usd, 4),
        top_k=request.adapter.capabilities.top_k,
        cut_off=request.adapter.capabilities.cut_off,
        price=plan.price,
    )


def account_after(request: AdapterRequest, outcome: AdapterOutcome, store: Store) -> Account:
    """Return the account of a classifier after its last call."""
    counts, adapter = outcome.counts, request.adapter
    account = account_before(request)
    account.answered_now, account.unreadable = counts.answered, counts.unreadable
    account.failed, account.not_asked, account.waiting = counts.failed, counts.not_sent, counts.waiting
    account.calls, account.asked_again, account.throttled = counts.calls, counts.repeated, counts.throttled
    account.stopped, account.problem = counts.stopped, outcome.problem
    if request.sent:
        encodings = Counter(sent.how for sent in request.sent.values() if sent.sha256 is not None)
        excluded = sum(sent.sha256 is None for sent in request.sent.values())
        account.prepared = Prepared(re_encoded=dict(encodings), excluded=excluded)
    if not adapter.capabilities.remote:
        return account
    names = {image.sha256: ending(image.path) for image in (*request.images, *request.policy.sentinels)}
    classifier = store.number_of(adapter)
    billed = store.possibly_billed(classifier=classifier)
    account.possibly_billed = Billed(
        intents=len(billed), images=sorted({names.get(image, image) for image in billed})[:MOST_IMAGES]
    )
    if sentinels := store.sentinels(classifier=classifier):
        account.drift = drift_of(sentinels, parse=adapter.parse, names=names)
    account.tokens = _tokens(request, store)
    price = request.plan.price
    if price is None:
        return account
    charged = store.billed(adapter.name)
    weighted = store.billed(adapter.name, calls=price.calls, jobs=price.jobs)
    account.usd_so_far = usd_of(weighted, request.plan)
    if account.tokens is not None and price.tokens is not None:
        lost = max(0, charged - counts.known - counts.answered - counts.unreadable)
        by_tokens = (account.tokens.sent * price.tokens[0] + account.tokens.received * price.tokens[1]) / 1e6
        total = (by_tokens + price.usd(lost, features=request.plan.features)) * weighted / max(charged, 1)
        account.usd_so_far = round(total, 4)
    return account


def tokens_of(answers: Iterable[RawAnswer]) -> Tokens | None:
    """Sum the tokens that chat models report as ``usage`` in their replies; None if none does."""
    total = Tokens()
    for answer in answers:
        try:
            content = json.loads(answer.body) if b'"usage"' in answer.body else {}
            # Several replies about one image are stored as texts in one body.
            replies = [json.loads(row["reply"]) for row in content["replies"]] if "replies" in content else [content]
            for usage in (reply["usage"] for reply in replies if reply.get("usage")):
                total.sent += int(usage.get("prompt_tokens", usage.get("input_tokens", 0)))
                total.received += int(usage.get("completion_tokens", usage.get("output_tokens", 0)))
        except (ValueError, TypeError, LookupError, AttributeError):
            continue
    return total if total.sent + total.received else None


def _tokens(request: AdapterRequest, store: Store) -> Tokens | None:
    """Sum the tokens of all answers about a run's images, read in blocks."""
    key = key_maker(request.adapter)
    keys = list({key(image.sha256) for image in request.images})
    total = Tokens()
    for start in range(0, len(keys), _BLOCK):
        found = tokens_of(answer for _, answer in store.answers(keys[start : start + _BLOCK]))
        if found is None:
            break  # this service reports none
        total.sent, total.received = total.sent + found.sent, total.received + found.received
    return total if total.sent + total.received else None


def usd_of(images: float, plan: AdapterPlan) -> float | None:
    """Compute the cost of a number of billed images in US$; None if the price is unknown."""
    return None if plan.price is None else round(plan.price.usd(images, features=plan.features), 4)


def totals(outcomes: Iterable[AdapterOutcome], accounts: Iterable[Account]) -> dict[str, int]:
    """Sum the counts of all classifiers."""
    counts = [outcome.counts for outcome in outcomes]
    return {
        "answered_now": sum(count.answered for count in counts),
        "known_before": sum(count.known for count in counts),
        "unanswered": sum(count.failed + count.waiting + count.not_sent for count in counts),
        "possibly_asked_twice": sum(count.unresolved for count in counts),
        "possibly_billed": sum(account.possibly_billed.intents for account in accounts if account.possibly_billed),
    }


@dataclass(frozen=True)
class AdapterProgress:
    """Progress of a classifier."""

    adapter: str
    answered: int  # images with an answer
    unresolved: int  # intents without an outcome, except those in unfinished jobs
    waiting: int  # intents in unfinished jobs
    lately: int  # answers in the last minute


def tallies(path: Path) -> list[AdapterProgress]:
    """Read the progress of all classifiers of a store that another process may be writing; empty without a store."""
    if not path.exists():
        return []
    query = """
        SELECT adapter,
            (SELECT count(*) FROM answers WHERE classifier = classifiers.id),
            count(CASE WHEN state = 'open' THEN 1 END) - {waiting}, {waiting},
            count(CASE WHEN state = 'answered' AND time > ? THEN 1 END)
        FROM classifiers LEFT JOIN intents ON intents.classifier = classifiers.id
        GROUP BY classifiers.id ORDER BY classifiers.id
    """
    since = (datetime.now(UTC) - LATELY).isoformat(timespec="milliseconds")
    address = f"{path.absolute().as_uri()}?mode=ro"
    with suppress(sqlite3.DatabaseError), closing(sqlite3.connect(address, uri=True, timeout=5)) as connection:
        has_jobs = connection.execute("SELECT count(*) FROM sqlite_master WHERE name = 'waiting'").fetchone()[0]
        waiting = "(SELECT count(*) FROM waiting WHERE classifier = classifiers.id)" if has_jobs else "0"
        return [AdapterProgress(*row) for row in connection.execute(query.format(waiting=waiting), (since,)).fetchall()]
    return []
