"""Diagnosis of an adapter: its package, credentials, host, clock, and its answer to one portrait.

Only `examine` reads, connects and sends; the checks are pure functions. Nothing here shows a secret.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any, Literal

from adapters.base import (
    Adapter,
    AdapterError,
    AnswerError,
    Capabilities,
    Limits,
    NoAnswer,
    RawAnswer,
    Service,
    address_of,
)
from adapters.http_client import Call, HttpClient
from adapters.registry import create, describe

SKEW_WARNING = 60.0  # seconds
SKEW_MOST = 300.0  # seconds; Amazon's signatures are refused beyond it
SOON = 180  # days
SHOWN = 5  # labels
State = Literal["ok", "warning", "failed", "skipped"]  # "failed": an audit would fail


@dataclass(frozen=True)
class Check:
    """The result of one check; ``fix`` says what to do, if anything."""

    name: str
    state: State
    finding: str
    fix: str = ""


@dataclass(frozen=True)
class Probe:
    """The reply to a plain GET request without credentials; ``problem`` says why there is none."""

    status: int | None = None
    date: str = ""  # its ``Date`` header
    problem: str = ""


def examine(
    name: str, options: Mapping[str, Any], *, portrait: Path, agreed: Callable[[Service, str], bool]
) -> Iterator[Check]:
    """Check an adapter; yield each result as soon as it is known.

    Args:
        name: the adapter's name, with its target if it has one.
        options: its options.
        portrait: the image to send.
        agreed: receives a remote service and the price of one call; decides whether the portrait may be sent to it.
    """
    adapter: Adapter | None = None
    try:
        declares = describe(name).capabilities
        yield Check("package", "ok", "it can be loaded")
    except AdapterError as error:
        yield Check("package", "failed", str(error))
        return
    try:
        adapter = create(name, options)
        set_up = Check("set-up", "ok", f"{adapter.name}: {adapter.model}")
    except AdapterError as error:
        set_up = Check("set-up", "failed", str(error))
    declared = adapter.capabilities if adapter else declares
    service = declared.service if declared else None
    if service is not None:
        yield lifecycle_check(service, today=datetime.now(UTC).date())
        yield credentials_check(service, os.environ, usable=adapter is not None)
    yield set_up
    address = address_of(adapter) if adapter else declared_address(service) if service else None
    if address is not None:
        probe = _probe(address)
        yield reachability_check(address, probe)
        if probe.status is not None:
            yield clock_check(probe, now=datetime.now(UTC))
    if adapter is not None:
        yield from _canary_checks(adapter, portrait, agreed)


def lifecycle_check(service: Service, *, today: date) -> Check:
    """Check whether the service is still offered, and for how long."""
    name, ends = service.provider, service.ends
    if service.lifecycle == "discontinued":
        finding = f"{name} ended{f' on {ends}' if ends else ''}"
        return Check("lifecycle", "warning", finding, "use recorded answers, or a server that speaks its protocol")
    if service.lifecycle == "live" or ends is None:
        return Check("lifecycle", "ok", f"{name} is live")
    left = (ends - today).days
    if left <= 0:
        return Check("lifecycle", "failed", f"{name} ended on {ends}", "choose another adapter")
    return Check("lifecycle", "warning" if left <= SOON else "ok", f"{name} ends on {ends}, in {left} days")


def credentials_check(service: Service, environment: Mapping[str, str], *, usable: bool) -> Check:
    """List which environment variables are set, without their values.

    Services differ in which of them are required, so ``usable`` says whether the adapter could be set up with them.
    """
    if not service.credentials:
        return Check("credentials", "ok", "none are needed")
    present = [name for name in service.credentials if environment.get(name, "").strip()]
    absent = [name for name in service.credentials if name not in present]
    parts = [f"{words}: {', '.join(names)}" for words, names in (("set", present), ("not set", absent)) if names]
    state: State = "ok" if usable else "warning" if present else "failed"
    return Check("credentials", state, "; ".join(parts))


def declared_address(service: Service) -> str | None:
    """Return the URL of the host that a class declares; None if it is a placeholder, because an option decides."""
    host = service.host
    return f"https://{host}" if "." in host and " " not in host and host == host.lower() else None


def reachability_check(address: str, probe: Probe) -> Check:
    """Check whether anything answers at the address, with whatever HTTP status."""
    if probe.status is not None:
        return Check("host", "ok", f"{address} answers (HTTP {probe.status} to a plain GET)")
    fix = "check the network, the address, and HTTPS_PROXY (with a private certificate authority: REQUESTS_CA_BUNDLE)"
    return Check("host", "failed", f"{address} cannot be reached: {probe.problem}", fix)


def clock_check(probe: Probe, *, now: datetime) -> Check:
    """Compare this machine's clock with the service's; signed requests are refused beyond five minutes' difference."""
    try:
        theirs = parsedate_to_datetime(probe.date)
    except ValueError:
        return Check("clock", "skipped", "the service's replies have no date")
    seconds = (now - (theirs if theirs.tzinfo else theirs.replace(tzinfo=now.tzinfo))).total_seconds()
    finding = f"this machine's clock is {abs(seconds):.0f} s {'ahead of' if seconds > 0 else 'behind'} the service's"
    if abs(seconds) <= SKEW_WARNING:
        return Check("clock", "ok", finding)
    state: State = "failed" if abs(seconds) > SKEW_MOST else "warning"
    return Check("clock", state, finding, "set the clock: sudo timedatectl set-ntp true")


def limits_check(limits: Limits, *, size: int, width: int, height: int, kind: str) -> Check:
    """Check the portrait against the adapter's limits (see ``Limits.misfits``)."""
    broken = limits.misfits(kind=kind, width=width, height=height, size=size)
    if broken:
        return Check("limits", "failed", f"the sample portrait has {'; '.join(broken)}", "use other photos")
    return Check("limits", "ok", f"the sample portrait ({kind}, {width} x {height}, {size} bytes) may be sent")


def canary_check(adapter: Adapter, outcome: RawAnswer | NoAnswer) -> Check:
    """Check whether the portrait got an answer that holds labels."""
    if isinstance(outcome, NoAnswer):
        fix = {
            "never": "fix what the message says: a retry would give the same",
            "later": "try again later",
            "slower": "try again later, and audit with a lower --rate",
        }[outcome.retry]
        return Check("canary", "failed", f"no answer: {outcome.reason}", fix)
    try:
        labels = adapter.parse(outcome)
    except AnswerError as error:
        fix = "its format may have changed: look at the raw answer"
        return Check("canary", "failed", f"the answer holds no labels: {error}", fix)
    if not labels:
        return Check("canary", "warning", "an answer without any label", "try another photo")
    best = sorted(labels, key=lambda label: -label.score)[:SHOWN]
    shown = ", ".join(f"{label.name} {label.score:.3g}" for label in best)
    return Check("canary", "ok", f"{len(labels)} labels: {shown}{' …' if len(labels) > SHOWN else ''}")


def repeat_check(adapter: Adapter, first: RawAnswer | NoAnswer, second: RawAnswer | NoAnswer) -> Check:
    """Check whether a local classifier gives the same labels for the same image twice."""
    if isinstance(first, NoAnswer) or isinstance(second, NoAnswer):
        return Check("repeat", "skipped", "there was no answer to compare")
    try:
        same = adapter.parse(first) == adapter.parse(second)
    except AnswerError:
        return Check("repeat", "skipped", "there were no labels to compare")
    if same:
        return Check("repeat", "ok", "a second call with the same image gave the same labels and scores")
    fix = "fix its seeds and threads: random differences add noise to every slope"
    return Check("repeat", "warning", "a second call with the same image gave other labels or scores", fix)


def price_of_one(capabilities: Capabilities) -> str:
    """Describe the price of one image."""
    price = capabilities.service.price if capabilities.service else None
    if price is None:
        return "price unknown"
    usd = price.usd(1, features=len(capabilities.features))
    return f"about US$ {usd:.4f} as of {price.as_of}"


def _canary_checks(adapter: Adapter, portrait: Path, agreed: Callable[[Service, str], bool]) -> Iterator[Check]:
    """Send the portrait, to a remote classifier only with consent."""
    from PIL import Image

    image = portrait.read_bytes()
    with Image.open(portrait) as opened:
        width, height, kind = opened.width, opened.height, (opened.format or "").lower()
    yield limits_check(adapter.capabilities.limits, size=len(image), width=width, height=height, kind=kind)
    service = adapter.capabilities.service
    if service is not None and not agreed(service, price_of_one(adapter.capabilities)):
        finding = f"no portrait was sent to {service.host} (one call: {price_of_one(adapter.capabilities)})"
        yield Check("canary", "skipped", finding, "add --yes to send one")
        return
    try:
        outcome = adapter.send([image])[0]
        yield canary_check(adapter, outcome)
        if service is None:
            yield repeat_check(adapter, outcome, adapter.send([image])[0])
    except AdapterError as error:
        yield Check("canary", "failed", str(error))
    except Exception as error:
        yield Check("canary", "failed", f"{type(error).__name__}: {error}")


def _probe(address: str) -> Probe:
    """Send a plain GET request without credentials; redirects are not followed."""
    reply = HttpClient(timeout=(5.0, 10.0), longest=20.0)(Call(address, method="GET"))
    if isinstance(reply, NoAnswer):
        status = reply.reply.status if reply.reply else None
        return Probe(status, problem=reply.reason.partition("could not be reached: ")[2] or reply.reason)
    return Probe(status=reply.status, date=reply.headers.get("date", ""))
