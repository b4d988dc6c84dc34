"""The plan of the queries: what is sent to each classifier, its cost in calls, US$ and time, and consent to send it."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from adapters.base import Adapter, Price, Service, address_of
from adapters.credentials import on_this_machine
from pipeline.config.options import QueryOptions
from pipeline.photos import SAMPLE
from pipeline.querying.drift import Panel
from pipeline.querying.encoding import SentImage, images_to_send, prepare, recorded
from pipeline.querying.limits import BreakerPolicy, Budget, CallPolicy, RetryPolicy
from pipeline.querying.outcomes import unreadable
from pipeline.querying.requests import ImageRef, Pending, Request, batches_of, key_maker, pending_requests
from pipeline.querying.runner import AdapterCalls
from pipeline.querying.store import Store
from pipeline.run.storage import ending

Retry = Literal["failed", "unreadable"]


class PlanError(Exception):
    """The plan was refused, so nothing was sent; the message says what to do."""


@dataclass(frozen=True)
class AdapterPlan:
    """The plan of one classifier."""

    adapter: str  # its name
    service: Service | None  # None: on this machine
    images: int  # distinct images
    known: int  # images with an answer
    calls: int  # for images without an answer, and for sentinels
    host: str = ""  # the host (and port) to call; empty: on this machine
    waiting: int = 0  # images in unfinished jobs of earlier commands
    sentinels: int = 0  # sentinel images over all moments
    features: int = 1  # requested per image, billed separately
    price: Price | None = None  # None: free of charge, or unknown
    rate: float | None = None  # requests per second; None: unlimited
    elsewhere: bool = False  # the URL is not the service's own
    spent: float = 0.0  # US$ that the run has cost so far with this classifier

    @property
    def to_send(self) -> int:
        """Images without an answer that are in no unfinished job."""
        return self.images - self.known - self.waiting

    @property
    def usd(self) -> float | None:
        """Expected cost in US$ without deducting free allowances; None: unknown price."""
        if self.price is None:
            return 0.0 if self.service is None or not self.calls else None
        return self.price.usd(self.to_send + self.sentinels, features=self.features)

    @property
    def seconds(self) -> float | None:
        """Duration at the rate limit; None: unlimited."""
        return None if self.rate is None else self.calls / self.rate


@dataclass(frozen=True)
class Plan:
    """The plan of all classifiers."""

    adapters: tuple[AdapterPlan, ...]
    exact: bool = True  # False: estimated before the versions are made
    spent: float = 0.0  # US$ that the run has cost so far, including other classifiers
    placebos: int = 0  # number of images that are used by placebos only

    @property
    def calls(self) -> int:
        """Calls of all classifiers, including local ones."""
        return sum(plan.calls for plan in self.adapters)

    @property
    def usd(self) -> float:
        """Expected cost in US$, as far as prices are known."""
        return sum(plan.usd or 0.0 for plan in self.adapters)

    @property
    def leaving(self) -> tuple[AdapterPlan, ...]:
        """The plans that send faces to a service."""
        return tuple(plan for plan in self.adapters if plan.service is not None and plan.calls)

    @property
    def hosts(self) -> list[str]:
        """The hosts that faces would be sent to, in alphabetical order."""
        return sorted({plan.host for plan in self.leaving})


@dataclass(frozen=True, kw_only=True)
class AdapterRequest(AdapterCalls):
    """One classifier's part of a run; ``images`` has one image for each version that can be sent."""

    pending: Pending  # the requests for images without an answer
    sent: Mapping[str, SentImage]  # by sha256: versions that are sent as another file, or cannot be sent
    plan: AdapterPlan


def adapter_requests(
    adapters: Sequence[Adapter],
    versions: Sequence[ImageRef],
    options: QueryOptions,
    *,
    folder: Path,
    store: Store | None,
    spent: float = 0.0,
    retry: Retry | None = None,
    make: bool = True,
) -> list[AdapterRequest]:
    """Prepare the requests of a run to each classifier.

    Args:
        adapters: the classifiers.
        versions: every version of every photo.
        options: rates, limits and prices.
        folder: where re-encoded versions are stored.
        store: the stored answers; None if there are none yet.
        spent: US$ that the run has cost so far with other classifiers; it counts towards ``options.max_cost``.
        retry: "failed": also resend images with an answer without labels; "unreadable": send only those.
        make: whether to re-encode versions that exceed limits, or only use those re-encoded before.
    """
    requests = [
        _adapter_request(adapter, versions, options, folder=folder, store=store, make=make, retry=retry)
        for adapter in adapters
    ]
    budget = Budget(options.max_calls, options.max_cost, spent=plan_of(requests, spent=spent).spent)
    return [replace(request, policy=replace(request.policy, budget=budget)) for request in requests]


def plan_of(requests: Sequence[AdapterRequest], *, spent: float = 0.0) -> Plan:
    """Return the plan of all requests; ``spent`` is the cost of the run so far with other classifiers in US$."""
    plans = tuple(request.plan for request in requests)
    return Plan(plans, spent=spent + sum(plan.spent for plan in plans))


def estimated(adapters: Sequence[Adapter], images: int, options: QueryOptions) -> Plan:
    """Estimate the plan for a number of images before they are made."""
    plans = []
    for adapter in adapters:
        panel = Panel.of(_sentinels(adapter, options), (), pending=images)
        calls = -(-images // adapter.capabilities.batch)
        plans.append(_plan(adapter, options, images=images, known=0, calls=calls, panel=panel))
    return Plan(tuple(plans), exact=False)


def called_host(adapter: Adapter) -> str:
    """Return the host (and port) that an adapter calls; "" on this machine."""
    return urlsplit(address_of(adapter) or "").netloc


def check_images(requests: Sequence[AdapterRequest]) -> None:
    """Raise PlanError if none of the images to send exists."""
    paths = [pending.path for request in requests for pending in request.pending.requests]
    if paths and not any(path.exists() for path in paths):
        raise PlanError(
            f"the {len(paths):,} images to send are missing, such as {ending(paths[0], parts=4)}: nothing was sent. "
            "Put them back, or make them again with the command that made the run"
        )


def check_limits(plan: Plan, *, max_calls: int | None, max_cost: float | None) -> None:
    """Check the plan against the limits of the user.

    Args:
        plan: the plan.
        max_calls: maximum calls of this command.
        max_cost: maximum cost of the run in US$, including its cost so far.

    Raises:
        PlanError: a limit would be exceeded, or a price is unknown.
    """
    if max_calls is not None and plan.calls > max_calls:
        raise PlanError(
            f"it would take {plan.calls:,} calls, more than the {max_calls:,} allowed (--max-calls): nothing was "
            "sent; the same command with a higher limit continues"
        )
    if max_cost is None:
        return
    for each in plan.adapters:
        if each.usd is None:
            raise PlanError(
                f"the price of {each.adapter} is not known, so --max-cost cannot be checked: "
                f"give it with --price {each.adapter}=US$_PER_1000_IMAGES; nothing was sent"
            )
    total = plan.usd + plan.spent
    if plan.usd and total > max_cost and not math.isclose(total, max_cost):
        before = f" on top of the US$ {plan.spent:,.4f} that the run has cost" if plan.spent else ""
        raise PlanError(
            f"it would cost about US$ {plan.usd:,.4f}{before}, more than the US$ {max_cost:,.4f} allowed (--max-cost): "
            "nothing was sent; the same command with a higher limit continues"
        )


def check_lifecycles(plan: Plan, *, today: date) -> None:
    """Raise PlanError if a service has ended, unless a different endpoint is called."""
    for each in plan.leaving:
        service = each.service
        if service is None or each.elsewhere or on_this_machine(each.host):
            continue
        if service.lifecycle == "discontinued" or (service.ends is not None and service.ends <= today):
            since = f" on {service.ends}" if service.ends is not None else ""
            raise PlanError(
                f"{each.adapter}: {service.provider} ended this service{since}, so {each.host} cannot be called; "
                "replay recorded answers, or give an endpoint that implements its protocol"
            )


Consent = Callable[[Plan], bool]


def check_consent(plan: Plan, *, consent: Consent) -> None:
    """Raise PlanError if faces would be sent to services without consent."""
    if plan.leaving and not consent(plan):
        raise PlanError(unconfirmed(plan.hosts))


def unconfirmed(hosts: Sequence[str]) -> str:
    """Return the error message for missing consent."""
    return (
        f"sending faces to {', '.join(hosts)} was not confirmed, so nothing was sent: confirm on a terminal, or give "
        "--yes in a script; `counterslope plan` shows the cost"
    )


def no_consent(plan: Plan) -> bool:
    """Refuse consent, where nobody can be asked."""
    return False


def _adapter_request(
    adapter: Adapter,
    versions: Sequence[ImageRef],
    options: QueryOptions,
    *,
    folder: Path,
    store: Store | None,
    make: bool,
    retry: Retry | None,
) -> AdapterRequest:
    limits = adapter.capabilities.limits
    answered = store.answered if store is not None else _nothing
    key = key_maker(adapter)
    keys = {key(version.sha256): version.sha256 for version in versions}
    known = {keys[found] for found in answered(list(keys))}
    found = prepare(versions, limits, folder=folder, answered=known) if make else recorded(folder, limits)
    sent = {version.sha256: found[version.sha256] for version in versions if version.sha256 in found}
    images = images_to_send(versions, sent)
    pending = pending_requests(adapter, images, answered=answered)
    if retry is not None and store is not None:
        again = [replace(request, replaces=True) for request in unreadable_requests(adapter, images, store)]
        pending = replace(pending, requests=(*(pending.requests if retry == "failed" else ()), *again))
    number = store.find(adapter) if store is not None else None
    jobs = store.jobs(classifier=number) if store is not None and number is not None else ()
    sent_before = {intent.request.key for job in jobs for intent in job.intents}
    fresh = [request for request in pending.requests if request.key not in sent_before]
    sentinels = _sentinels(adapter, options, folder=folder, make=make) if fresh else ()
    before = store.sentinels(classifier=number) if store is not None and number is not None else ()
    plan = _plan(
        adapter,
        options,
        images=pending.images,
        known=pending.known,
        waiting=len(pending.requests) - len(fresh),
        calls=len(batches_of(adapter, fresh)),
        panel=Panel.of(sentinels, before, pending=len(fresh)),
    )
    cost = 0.0 if plan.price is None else plan.price.usd(1, features=plan.features)
    if cost and plan.price is not None and store is not None:
        plan = replace(plan, spent=cost * store.billed(adapter.name, calls=plan.price.calls, jobs=plan.price.jobs))
    policy = replace(_policy(adapter, options), sentinels=sentinels, usd=cost)
    return AdapterRequest(adapter=adapter, images=tuple(images), policy=policy, pending=pending, sent=sent, plan=plan)


def _plan(
    adapter: Adapter, options: QueryOptions, *, images: int, known: int, calls: int, panel: Panel, waiting: int = 0
) -> AdapterPlan:
    """Plan ``calls`` calls for images, and the calls for sentinels."""
    declared = adapter.capabilities
    own = getattr(getattr(type(adapter), "capabilities", None), "service", None)
    moments = panel.sizes(pending=images - known - waiting)
    given = options.of("price", adapter.name, remote=declared.remote)
    usual = declared.service.price if declared.service is not None else None
    return AdapterPlan(
        adapter=adapter.name,
        service=declared.service,
        images=images,
        known=known,
        waiting=waiting,
        calls=calls + sum(-(-size // declared.batch) for size in moments),
        host=called_host(adapter),
        sentinels=sum(moments),
        features=len(declared.features),
        price=usual if given is None else Price(given, date.today(), "given by you"),
        rate=_policy(adapter, options).rate_for(adapter),
        elsewhere=own is not None and called_host(adapter) != own.host,
    )


def _policy(adapter: Adapter, options: QueryOptions) -> CallPolicy:
    remote = adapter.capabilities.remote
    concurrency = options.of("concurrency", adapter.name, remote=remote)
    return CallPolicy(
        retry=RetryPolicy(seconds=max(options.patience, RetryPolicy.seconds)),
        breaker=BreakerPolicy(patience=options.patience),
        rate=options.of("rate", adapter.name, remote=remote),
        concurrency=None if concurrency is None else int(concurrency),
    )


def _sentinels(
    adapter: Adapter, options: QueryOptions, *, folder: Path | None = None, make: bool = False
) -> tuple[ImageRef, ...]:
    """Select portraits, evenly spread over the embedded sample, as sentinels of a remote classifier.

    There are none for classifiers that take jobs, because the images of a job are processed together.
    """
    if not adapter.capabilities.remote or adapter.capabilities.jobs:
        return ()
    files = sorted(SAMPLE.glob("*.jpg"))
    chosen = [files[len(files) * number // options.sentinels] for number in range(options.sentinels)]
    versions = [ImageRef(sha256(path.read_bytes()).hexdigest(), path, path.name) for path in chosen]
    if folder is None:
        return tuple(images_to_send(versions, {}))
    limits = adapter.capabilities.limits
    sent = prepare(versions, limits, folder=folder) if make else recorded(folder, limits)
    return tuple(images_to_send(versions, sent))


def unreadable_requests(adapter: Adapter, images: Sequence[ImageRef], store: Store) -> list[Request]:
    """Make requests for the images with an answer from which no labels can be read."""
    requests = {request.key: request for request in pending_requests(adapter, images, answered=_nothing).requests}
    return [requests[key] for key, answer in store.answers(requests) if unreadable(answer, adapter)]


def _nothing(keys: Collection[str]) -> set[str]:
    return set()
