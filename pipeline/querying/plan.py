"""The plan: what each classifier is sent, what that takes in calls, money and time, and whether faces may leave."""

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
from pipeline.querying.requests import ImageRef, Pending, Request, batches_of, key_maker_of, pending_requests
from pipeline.querying.runner import AdapterCalls
from pipeline.querying.store import Store
from pipeline.run.storage import ending

Retry = Literal["failed", "unreadable"]


class PlanError(Exception):
    """Nothing was sent, because of what the plan comes to; the message says what to do."""


@dataclass(frozen=True)
class AdapterPlan:
    """What querying one classifier comes to."""

    adapter: str  # its name
    service: Service | None  # behind it; None for a classifier on this machine
    images: int  # distinct ones
    known: int  # of these have an answer already
    calls: int  # for the rest, and for the sentinels
    host: str = ""  # that is called, with its port where there is one; empty for a classifier on this machine
    waiting: int = 0  # images in jobs that were sent before and are not answered yet
    sentinels: int = 0  # images of the panel that are sent besides, at all moments together
    features: int = 1  # wanted of each image, each billed on its own
    price: Price | None = None  # of the estimate; None where nothing is charged or nothing is known
    rate: float | None = None  # requests per second; None where there is no limit
    elsewhere: bool = False  # another address is called than the service's own, one that speaks its protocol
    spent: float = 0.0  # US$ that the run has cost so far with this classifier

    @property
    def to_send(self) -> int:
        """Images that have no answer yet, and are in no job that will have one."""
        return self.images - self.known - self.waiting

    @property
    def usd(self) -> float | None:
        """Expected cost in US$, free allowances not taken off; None where no price is known."""
        if self.price is None:
            return 0.0 if self.service is None or not self.calls else None
        return self.price.usd(self.to_send + self.sentinels, features=self.features)

    @property
    def seconds(self) -> float | None:
        """At the rate limit; None where there is none."""
        return None if self.rate is None else self.calls / self.rate


@dataclass(frozen=True)
class Plan:
    """What querying all classifiers comes to."""

    adapters: tuple[AdapterPlan, ...]
    exact: bool = True  # False: the versions are not made yet
    spent: float = 0.0  # US$ that the run has cost so far, other classifiers included
    placebos: int = 0  # of the images, those that only placebos show

    @property
    def calls(self) -> int:
        """Requests to all classifiers, those on this machine included."""
        return sum(one.calls for one in self.adapters)

    @property
    def usd(self) -> float:
        """Expected cost in US$, as far as prices are known."""
        return sum(one.usd or 0.0 for one in self.adapters)

    @property
    def leaving(self) -> tuple[AdapterPlan, ...]:
        """Those by which faces would leave this program."""
        return tuple(one for one in self.adapters if one.service is not None and one.calls)

    @property
    def hosts(self) -> list[str]:
        """Where faces would be sent, in alphabetical order."""
        return sorted({one.host for one in self.leaving})


@dataclass(frozen=True, kw_only=True)
class AdapterRequest(AdapterCalls):
    """One classifier's part of a run: one image to send for each version that can be sent."""

    pending: Pending  # the requests for images without an answer
    sent: Mapping[str, SentImage]  # versions (sha256) that are sent as another file, or cannot be sent
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
    """The requests of a run, classifier by classifier.

    Args:
        adapters: the classifiers.
        versions: every version of every photo.
        options: how the calls are made.
        folder: where re-encoded versions are kept.
        store: the answers that are there; None where there are none yet.
        spent: what the run has cost so far with other classifiers, in US$; it counts towards ``options.max_cost``.
        retry: "failed": also send again what was answered without labels; "unreadable": nothing else.
        make: re-encode what does not fit; False: only look at what was re-encoded before.
    """
    requests = [
        _adapter_request(adapter, versions, options, folder=folder, store=store, make=make, retry=retry)
        for adapter in adapters
    ]
    budget = Budget(options.max_calls, options.max_cost, spent=plan_of(requests, spent=spent).spent)
    return [replace(request, policy=replace(request.policy, budget=budget)) for request in requests]


def plan_of(requests: Sequence[AdapterRequest], *, spent: float = 0.0) -> Plan:
    """What they all come to, where the run has cost ``spent`` US$ with other classifiers."""
    plans = tuple(request.plan for request in requests)
    return Plan(plans, spent=spent + sum(plan.spent for plan in plans))


def estimated(adapters: Sequence[Adapter], images: int, options: QueryOptions) -> Plan:
    """What querying about so many images would come to, before they are made."""
    plans = []
    for adapter in adapters:
        panel = Panel.of(_sentinels(adapter, options), (), pending=images)
        calls = -(-images // adapter.capabilities.batch)
        plans.append(_plan(adapter, options, images=images, known=0, calls=calls, panel=panel))
    return Plan(tuple(plans), exact=False)


def called_host(adapter: Adapter) -> str:
    """The host that an adapter really calls, with its port where there is one; "" on this machine."""
    return urlsplit(address_of(adapter) or "").netloc


def check_images(requests: Sequence[AdapterRequest]) -> None:
    """Stop (PlanError) before anything is sent if none of the images to send is there."""
    paths = [request.path for one in requests for request in one.pending.requests]
    if paths and not any(path.exists() for path in paths):
        raise PlanError(
            f"the {len(paths):,} images to send are gone, such as {ending(paths[0], parts=4)}: nothing was sent. "
            "Put them back, or make them again with the command that made the run"
        )


def check_limits(plan: Plan, *, max_calls: int | None, max_cost: float | None) -> None:
    """Stop before anything is sent if a limit would be passed.

    Args:
        plan: of the calls to come.
        max_calls: of this command.
        max_cost: of the run, in US$, what it has cost so far included.

    Raises:
        PlanError: a limit would be passed, or a price that it needs is not known.
    """
    if max_calls is not None and plan.calls > max_calls:
        raise PlanError(
            f"it would take {plan.calls:,} calls, more than the {max_calls:,} allowed (--max-calls): nothing was "
            "sent; the same command with a higher limit continues"
        )
    if max_cost is None:
        return
    for one in plan.adapters:
        if one.usd is None:
            raise PlanError(
                f"the price of {one.adapter} is not known, so --max-cost cannot be kept: "
                f"give it with --price {one.adapter}=US$_PER_1000_IMAGES; nothing was sent"
            )
    total = plan.usd + plan.spent
    if plan.usd and total > max_cost and not math.isclose(total, max_cost):
        before = f" on top of the US$ {plan.spent:,.4f} that the run has cost" if plan.spent else ""
        raise PlanError(
            f"it would cost about US$ {plan.usd:,.4f}{before}, more than the US$ {max_cost:,.4f} allowed (--max-cost): "
            "nothing was sent; the same command with a higher limit continues"
        )


def check_lifecycles(plan: Plan, *, today: date) -> None:
    """Refuse (PlanError) services that are no longer there; one that is not really called passes."""
    for one in plan.leaving:
        service = one.service
        if service is None or one.elsewhere or on_this_machine(one.host):
            continue
        if service.lifecycle == "discontinued" or (service.ends is not None and service.ends <= today):
            since = f" on {service.ends}" if service.ends is not None else ""
            raise PlanError(
                f"{one.adapter}: {service.provider} ended this service{since}, so {one.host} cannot be called; "
                "replay recorded answers, or name an endpoint that speaks its protocol"
            )


Consent = Callable[[Plan], bool]


def check_consent(plan: Plan, *, consent: Consent) -> None:
    """Get consent (else PlanError) to send faces to other programs and machines, where they would be sent."""
    if plan.leaving and not consent(plan):
        raise PlanError(unconfirmed(plan.hosts))


def unconfirmed(hosts: Sequence[str]) -> str:
    """The message where nobody agreed that faces leave this machine."""
    return (
        f"faces would be sent to {', '.join(hosts)}, which nobody confirmed: nothing was sent. "
        "Confirm on a terminal, or with --yes in a script; `counterslope plan` shows what it would come to"
    )


def no_consent(plan: Plan) -> bool:
    """Consent where no one can confirm: refused."""
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
    key = key_maker_of(adapter)
    keys = {key(version.sha256): version.sha256 for version in versions}
    known = {keys[found] for found in answered(list(keys))}
    found = prepare(versions, limits, folder=folder, answered=known) if make else recorded(folder, limits)
    sent = {version.sha256: found[version.sha256] for version in versions if version.sha256 in found}
    images = images_to_send(versions, sent)
    pending = pending_requests(adapter, images, answered=answered)
    if retry is not None and store is not None:
        again = [replace(one, replaces=True) for one in unreadable_requests(adapter, images, store)]
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
    """The plan of ``calls`` calls about images and those about the sentinels."""
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
    """The first portraits of the embedded sample, evenly spread over it, encoded for a remote classifier.

    None where images go in jobs: a job has no beginning and end between which its service could change unseen.
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
    """Requests for the images with an answer from which no labels can be read."""
    every = {one.key: one for one in pending_requests(adapter, images, answered=_nothing).requests}
    return [every[key] for key, answer in store.answers(every) if unreadable(answer, adapter)]


def _nothing(keys: Collection[str]) -> set[str]:
    return set()
