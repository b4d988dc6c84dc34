"""Examining a classifier here and now: its package, credentials, host and clock, and one portrait that it is sent.

What is found is judged in ``doctor``.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from adapters.base import Adapter, AdapterError, Service
from adapters.doctor import (
    Check,
    Probe,
    address_of,
    canary_check,
    clock_check,
    credentials_check,
    declared_address,
    lifecycle_check,
    limits_check,
    price_of_one,
    reachability_check,
    repeat_check,
)
from adapters.registry import create, describe


def examine(
    name: str, options: Mapping[str, Any], *, portrait: Path, agreed: Callable[[Service, str], bool]
) -> Iterator[Check]:
    """The checks of a classifier one by one, each as soon as it is done.

    Args:
        name: the classifier, as ``registry.create`` takes it.
        options: its options.
        portrait: the image that it is sent.
        agreed: decides whether a remote service may be sent it, by the service and the price of one call.
    """
    adapter: Adapter | None = None
    try:
        declares = describe(name).capabilities
        declared = declares.service if declares else None
        yield Check("package", "ok", "it can be loaded")
    except AdapterError as error:
        yield Check("package", "failed", str(error))
        return
    try:
        adapter = create(name, options)
        problem = ""
    except AdapterError as error:
        problem = str(error)
    service = adapter.capabilities.service if adapter else declared
    if service is not None:
        yield lifecycle_check(service, today=datetime.now(UTC).date())
        yield credentials_check(service, os.environ, usable=adapter is not None)
    if adapter is None:
        yield Check("set-up", "failed", problem)
    else:
        yield _version_check(adapter)
    address = address_of(adapter) if adapter else declared_address(service) if service else None
    if address is not None:
        yield from _network_checks(address)
    if adapter is not None:
        yield from _canary_checks(adapter, portrait, agreed)


def _version_check(adapter: Adapter) -> Check:
    try:
        return Check("set-up", "ok", f"{adapter.name}: {adapter.model}")
    except AdapterError as error:
        return Check("set-up", "failed", str(error))


def _network_checks(address: str) -> Iterator[Check]:
    probe = _probe(address)
    yield reachability_check(address, probe)
    if probe.status is not None:
        yield clock_check(probe, now=datetime.now(UTC))


def _canary_checks(adapter: Adapter, portrait: Path, agreed: Callable[[Service, str], bool]) -> Iterator[Check]:
    """Send the portrait; to a remote classifier only if that was agreed to."""
    from PIL import Image

    image = portrait.read_bytes()
    with Image.open(portrait) as opened:
        width, height, kind = opened.width, opened.height, (opened.format or "").lower()
    yield limits_check(adapter.capabilities.limits, size=len(image), width=width, height=height, kind=kind)
    service = adapter.capabilities.service
    if service is not None and not agreed(service, price_of_one(adapter.capabilities)):
        says = f"no portrait was sent to {service.host}: one call costs {price_of_one(adapter.capabilities)}"
        yield Check("canary", "skipped", says, "add --yes to send one")
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
    """A plain GET, without credentials and without following anything."""
    import requests
    from requests.utils import get_environ_proxies

    try:
        with requests.Session() as session:
            session.trust_env = False  # no ~/.netrc
            session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
            with session.get(
                address, timeout=(5, 10), allow_redirects=False, stream=True, proxies=get_environ_proxies(address)
            ) as reply:
                return Probe(status=reply.status_code, date=reply.headers.get("Date", ""))
    except requests.exceptions.SSLError:
        return Probe(problem="its certificate cannot be verified")
    except requests.exceptions.ProxyError:
        return Probe(problem="the proxy that the environment names does not let it through")
    except requests.exceptions.Timeout:
        return Probe(problem="no answer within 10 s")
    except (requests.RequestException, OSError) as error:
        unknown = "NameResolutionError" in repr(error)
        return Probe(problem="its name is not known to this network" if unknown else "nothing answers there")
