"""Secrets and where they may go: read from the environment, sent over https or to this machine alone, never shown.

How a service wants them sent is each adapter's file.
"""

import json
import os
from base64 import b64encode
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from ipaddress import ip_address
from urllib.parse import quote, urlsplit

from adapters.base import AdapterError

SHORTEST = 4
PLACEHOLDER = "not-needed"
_needed = ContextVar("_needed", default=True)


@contextmanager
def without_credentials() -> Iterator[None]:
    """Adapters made in this block need no credentials: they can be planned with and can parse, but not send."""
    token = _needed.set(False)
    try:
        yield
    finally:
        _needed.reset(token)


_HIDDEN = "***"


def credentials_needed() -> bool:
    """False inside `without_credentials`."""
    return _needed.get()


def secret(name: str, *, adapter: str, hint: str = "") -> str:
    """The environment variable ``name``.

    Raises:
        AdapterError: it is not set, or holds what no HTTP header can (the value is not shown).
    """
    value = os.environ.get(name, "").strip()
    if not value and not credentials_needed():
        return PLACEHOLDER
    if not value:
        cure = f" {hint}" if hint else ""
        raise AdapterError(f"the adapter {adapter!r} needs the environment variable {name}: export {name}=...{cure}")
    if not value.isascii() or not value.isprintable():
        raise AdapterError(f"the environment variable {name} holds line breaks or other signs that no key has")
    return value


def checked_url(url: str, *, adapter: str, option: str, credential: bool, query: bool = False, hint: str = "") -> str:
    """``url`` if images (and credentials) may be sent there, without a slash at its end.

    Args:
        url: an address of a service.
        adapter: whose it is.
        option: the option that it was given by, for the message.
        credential: something secret will be sent with the images.
        query: it may hold a query (``?…``); an address that paths are added to may not.
        hint: what else would mend a credential over plain http.

    Raises:
        AdapterError: not http or https, no host, a password in it, or a credential over plain http to another machine.
    """
    place = f"the adapter {adapter!r}: option {option!r}"
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise AdapterError(f"{place} is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not host or any(sign.isspace() for sign in url.strip()):
        raise AdapterError(f"{place} must be an address such as https://host/path")
    if parts.username is not None or parts.password is not None:
        raise AdapterError(f"{place} must not hold a user name or password: name them by environment variables")
    if "#" in url or ("?" in url and not query):
        raise AdapterError(f"{place} must end before any ? or #")
    if parts.scheme == "http" and credential and not on_this_machine(host):
        raise AdapterError(f"{place}: credentials are sent to {host} only over https, not over plain http{hint}")
    return url.strip().rstrip("/")


def on_this_machine(host: str) -> bool:
    """Whether a host name or address, with or without a port, is this machine's own (loopback)."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        name = host.partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    if name != host:
        return on_this_machine(name.removeprefix("["))
    return host == "localhost" or host.endswith(".localhost")


def without(text: bytes, secrets: Iterable[str]) -> bytes:
    """``text`` in which each secret is three stars, should a service repeat what it was sent."""
    values = {form for value in secrets if len(value) >= SHORTEST for form in forms(value)}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value.encode(), _HIDDEN.encode())
    return text


def forms(value: str) -> set[str]:
    """A secret as it may come back: plain, in an address, in JSON, on a page, in Basic authentication's encoding."""
    in_json = json.dumps(value)[1:-1]
    return {
        value,
        quote(value, safe=""),
        in_json,
        in_json.replace("/", "\\/"),
        json.dumps(in_json)[1:-1],
        escape(value),
        value.encode("unicode_escape").decode(),
        b64encode(value.encode()).decode().rstrip("="),
    }
