"""A run's question to each of its classifiers: what is sent, what is known, how it is asked, at what price.

Nothing is asked here; that is ``together``. What came of it is put into words by ``account``.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from hashlib import sha256
from pathlib import Path

from adapters.base import Adapter, Price
from pipeline.config.options import QueryOptions
from pipeline.photos import SAMPLE
from pipeline.querying.budget import Budget
from pipeline.querying.drift import MOMENTS
from pipeline.querying.keys import key_maker
from pipeline.querying.manner import CallPolicy
from pipeline.querying.plan import AdapterPlan, Plan, price_for, usd_each
from pipeline.querying.preparing import SentImage, Version, prepare, recorded
from pipeline.querying.questions import ImageRef, Questions, batches_of, questions_of
from pipeline.querying.together import Asked

Answered = Callable[[Collection[str]], set[str]]


@dataclass(frozen=True)
class AdapterRequest:
    """One classifier's part of a run.

    Attributes:
        adapter: the classifier.
        images: what is sent, one for each version that can be.
        sent: versions (sha256) that are sent as another file, or cannot be sent.
        questions: which images have no answer yet.
        manner: how it is asked.
        price: what its cost is estimated with.
    """

    adapter: Adapter
    images: tuple[ImageRef, ...]
    sent: dict[str, SentImage]
    questions: Questions
    manner: CallPolicy
    price: Price | None

    @property
    def asked(self) -> Asked:
        """What ``together.ask_all`` takes."""
        return Asked(self.adapter, self.images, self.manner)

    @property
    def plan(self) -> AdapterPlan:
        """What it would come to."""
        todo, panel = self.questions.todo, len(self.manner.panel) if self.questions.todo else 0
        declared = self.adapter.capabilities
        return AdapterPlan(
            adapter=self.adapter.name,
            service=declared.service,
            images=self.questions.images,
            known=self.questions.images - len(todo),
            calls=len(batches_of(self.adapter, todo)) + len(MOMENTS) * -(-panel // declared.batch),
            sentinels=len(MOMENTS) * panel,
            features=len(declared.features),
            price=self.price,
            rate=self.manner.rate_for(self.adapter),
            elsewhere=_elsewhere(self.adapter),
        )


def enquire(
    adapters: Sequence[Adapter],
    versions: Sequence[Version],
    options: QueryOptions,
    *,
    folder: Path,
    answered: Answered,
    make: bool = True,
) -> list[AdapterRequest]:
    """What is to be asked of each classifier.

    Args:
        adapters: the classifiers.
        versions: every version of every photo.
        options: how they are asked.
        folder: where re-encoded versions are kept.
        answered: tells which keys have an answer.
        make: re-encode what does not fit; False: only look at what was re-encoded before.
    """
    budget = Budget(options.max_calls, options.max_cost)
    return [
        _enquiry(adapter, versions, options, folder=folder, answered=answered, make=make, budget=budget)
        for adapter in adapters
    ]


def plan_of(enquiries: Sequence[AdapterRequest]) -> Plan:
    """What asking them all would come to."""
    return Plan(tuple(enquiry.plan for enquiry in enquiries))


def estimated(adapters: Sequence[Adapter], images: int, options: QueryOptions) -> Plan:
    """What asking about so many images would come to, before they are made."""
    plans = []
    for adapter in adapters:
        declared = adapter.capabilities
        panel = options.sentinels if declared.remote and images else 0
        manner = _manner(adapter, options, Budget())
        plans.append(
            AdapterPlan(
                adapter=adapter.name,
                service=declared.service,
                images=images,
                known=0,
                calls=-(-images // declared.batch) + len(MOMENTS) * -(-panel // declared.batch),
                sentinels=len(MOMENTS) * panel,
                features=len(declared.features),
                price=_price(adapter, options),
                rate=manner.rate_for(adapter),
            )
        )
    return Plan(tuple(plans), exact=False)


def _enquiry(
    adapter: Adapter,
    versions: Sequence[Version],
    options: QueryOptions,
    *,
    folder: Path,
    answered: Answered,
    make: bool,
    budget: Budget,
) -> AdapterRequest:
    limits = adapter.capabilities.limits
    key = key_maker(adapter=adapter.name, model=adapter.model, parameters=adapter.parameters)
    keys = {key(version.sha256): version.sha256 for version in versions}
    known = {keys[found] for found in answered(list(keys))}
    sent = prepare(versions, limits, folder=folder, answered=known) if make else recorded(folder, limits)
    sent = {version.sha256: sent[version.sha256] for version in versions if version.sha256 in sent}
    images = _as_sent(versions, sent)
    questions = questions_of(adapter, images, answered=answered)
    manner = _manner(adapter, options, budget)
    if adapter.capabilities.remote and questions.todo:
        manner = replace(manner, panel=_panel(options.sentinels, adapter, folder=folder, make=make))
    return AdapterRequest(adapter, tuple(images), sent, questions, manner, _price(adapter, options))


def _elsewhere(adapter: Adapter) -> bool:
    """Its host was configured to be another than the one that its class declares."""
    service = adapter.capabilities.service
    own = getattr(getattr(type(adapter), "capabilities", None), "service", None)
    return service is not None and own is not None and service.host != own.host


def _manner(adapter: Adapter, options: QueryOptions, budget: Budget) -> CallPolicy:
    remote = adapter.capabilities.remote
    concurrency = options.of("concurrency", adapter.name, remote=remote)
    price = _price(adapter, options)
    return CallPolicy(
        rate=options.of("rate", adapter.name, remote=remote),
        concurrency=None if concurrency is None else int(concurrency),
        usd=0.0 if price is None else usd_each(price, adapter.capabilities.features),
        budget=budget,
    )


def _price(adapter: Adapter, options: QueryOptions) -> Price | None:
    own = options.of("price", adapter.name, remote=adapter.capabilities.remote)
    return price_for(adapter, own, today=date.today())


def _panel(count: int, adapter: Adapter, *, folder: Path, make: bool) -> tuple[ImageRef, ...]:
    """The first portraits of the embedded sample, evenly spread over it, encoded for the classifier."""
    files = sorted(SAMPLE.glob("*.jpg"))
    chosen = [files[len(files) * number // count] for number in range(count)]
    versions = [Version(path.name, sha256(path.read_bytes()).hexdigest(), path) for path in chosen]
    limits = adapter.capabilities.limits
    sent = prepare(versions, limits, folder=folder) if make else recorded(folder, limits)
    return tuple(_as_sent(versions, sent))


def _as_sent(versions: Sequence[Version], sent: Mapping[str, SentImage]) -> list[ImageRef]:
    """What is sent for each version, but for those that cannot be."""
    images = []
    for version in versions:
        instead = sent.get(version.sha256)
        if instead is None:
            images.append(ImageRef(version.sha256, version.path))
        elif instead.sha256 is not None and instead.path is not None:
            images.append(ImageRef(instead.sha256, instead.path))
    return images
