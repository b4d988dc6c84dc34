"""What asking would come to, before anyone is asked: calls, money, time, and where the faces would go. Pure."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from adapters.base import Adapter, Price, Service


class PlanError(Exception):
    """A run was not begun because of what it would come to; the message says what would let it."""


@dataclass(frozen=True)
class AdapterPlan:
    """What asking one classifier would come to.

    Attributes:
        adapter: its name.
        service: what is known of the service; None for a classifier on this machine.
        images: distinct images.
        known: have an answer already.
        calls: requests for the rest, and for the sentinels.
        sentinels: images of the panel that are asked about on top, at all moments together.
        features: asked about each image, each billed on its own.
        price: what the estimate is made with; None where nothing is charged or nothing is known.
        seconds: at the rate limit; None where there is none.
        rate: requests per second; None where there is no limit.
        elsewhere: another address is asked than the service's own, one that speaks its protocol.
    """

    adapter: str
    service: Service | None
    images: int
    known: int
    calls: int
    sentinels: int = 0
    features: int = 1
    price: Price | None = None
    rate: float | None = None
    elsewhere: bool = False

    @property
    def to_ask(self) -> int:
        """Images that have no answer yet."""
        return self.images - self.known

    @property
    def usd(self) -> float | None:
        """Expected cost in US$, free allowances not taken off; None where no price is known."""
        if self.price is None:
            return 0.0 if self.service is None or not self.calls else None
        return (self.to_ask + self.sentinels) * self.features * self.price.usd_per_1000 / 1000

    @property
    def seconds(self) -> float | None:
        """At the rate limit; None where there is none."""
        return None if self.rate is None else self.calls / self.rate


@dataclass(frozen=True)
class Plan:
    """What asking all classifiers would come to; ``exact`` False: the versions are not made yet."""

    adapters: tuple[AdapterPlan, ...]
    exact: bool = True

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
        """Those by which faces would leave this machine."""
        return tuple(one for one in self.adapters if one.service is not None and one.calls)


def price_for(adapter: Adapter, override: float | None, *, today: date) -> Price | None:
    """The price to estimate with: the user's own (US$ per 1,000 images and feature), or the table's."""
    if override is not None:
        return Price(override, today, "given by you")
    service = adapter.capabilities.service
    return service.price if service is not None else None


def usd_each(price: Price, features: Sequence[str]) -> float:
    """US$ for all that is asked about one image."""
    return price.usd_per_1000 * len(features) / 1000


def check_limits(plan: Plan, *, max_calls: int | None, max_cost: float | None) -> None:
    """Stop before asking what would pass a limit.

    Raises:
        PlanError: it would; or a cost limit is given and a price is not known.
    """
    if max_calls is not None and plan.calls > max_calls:
        raise PlanError(
            f"asking would take {plan.calls:,} calls, more than the {max_calls:,} allowed (--max-calls): nothing was "
            "asked; the same command with a higher limit continues"
        )
    if max_cost is None:
        return
    for one in plan.adapters:
        if one.usd is None:
            raise PlanError(
                f"the price of {one.adapter} is not known, so --max-cost cannot be kept: "
                f"say it with --price {one.adapter}=US$_PER_1000_IMAGES; nothing was asked"
            )
    if plan.usd > max_cost and not math.isclose(plan.usd, max_cost):
        raise PlanError(
            f"asking would cost about US$ {plan.usd:,.4f}, more than the US$ {max_cost:,.4f} allowed (--max-cost): "
            "nothing was asked; the same command with a higher limit continues"
        )


def check_lifecycles(plan: Plan, *, today: date) -> None:
    """Refuse services that are no longer there; one that is not really contacted (all known, or elsewhere) passes.

    Raises:
        PlanError: one of them is discontinued.
    """
    for one in plan.leaving:
        service = one.service
        if service is None or one.elsewhere or on_this_machine(service.host):
            continue
        ended = service.lifecycle == "discontinued" or (service.ends is not None and service.ends <= today)
        if ended:
            since = f" on {service.ends}" if service.ends is not None else ""
            raise PlanError(
                f"{one.adapter}: {service.provider} ended this service{since}, so {service.host} cannot be asked; "
                "replay recorded answers, or name an endpoint that speaks its protocol"
            )


def on_this_machine(host: str) -> bool:
    """Whether a host (with or without a port) is this machine itself."""
    name = host.strip("[]") if host.startswith("[") else host.rpartition(":")[0] or host
    return name in ("localhost", "::1") or name.startswith("127.")


Consent = Callable[[Plan], bool]


def check_consent(plan: Plan, *, consent: Consent) -> None:
    """Ask whether faces may leave this machine, where they would.

    Raises:
        PlanError: they may not.
    """
    if plan.leaving and not consent(plan):
        raise PlanError(unconfirmed(sorted({one.service.host for one in plan.leaving if one.service is not None})))


def unconfirmed(hosts: Sequence[str]) -> str:
    """The message where nobody agreed that faces leave this machine."""
    return (
        f"faces would be sent to {', '.join(hosts)}, which nobody confirmed: nothing was asked. "
        "Confirm on a terminal, or with --yes in a script; `counterslope plan` shows what it would come to"
    )


def nobody(plan: Plan) -> bool:
    """Consent where nobody can be asked: no."""
    return False
