"""Secrets: read from the environment, sent only over https or to this machine, recognised and redacted elsewhere."""

import json
import os
import re
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from html import escape
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote, urlsplit

from adapters.base import AdapterError

SHORTEST = 4
_HIDDEN = "***"
_WORDS = frozenset(
    (
        *("key", "apikey", "secret", "token", "password", "passwd", "pwd", "passphrase", "credential", "credentials"),
        *("auth", "authorization", "bearer", "pat", "signature", "sig", "cookie"),
    )
)
# Words that make a name refer to a variable, a file or a path, not to the secret itself.
_NAMES_OF_THINGS = frozenset(("env", "variable", "variables", "var", "vars", "file", "path", "field", "name", "from"))
_SHAPES = re.compile(
    r"^(bearer|basic|key|apikey|token)\s+\S{8,}$|^sk-[\w-]{16,}$|^(AKIA|ASIA)[A-Z0-9]{16}$|^AIza[\w-]{30,}$"
    r"|^-----BEGIN [A-Z ]*PRIVATE KEY",
    re.IGNORECASE,
)
_REFERENCE = re.compile(r"\$\{?\w+|\{(env:)?\w+\}|^env:\w+|^[A-Z][A-Z0-9]*(_[A-Z0-9]+)+$", re.ASCII)
PLACEHOLDER = "not-needed"
_needed = ContextVar("_needed", default=True)


@contextmanager
def without_credentials() -> Iterator[None]:
    """Context in which adapters can be constructed without credentials, to plan and parse but not to send."""
    token = _needed.set(False)
    try:
        yield
    finally:
        _needed.reset(token)


def credentials_needed() -> bool:
    """False inside `without_credentials`."""
    return _needed.get()


def secret(name: str, *, adapter: str, hint: str = "") -> str:
    """Read a secret from the environment variable ``name``; ``hint`` says where to get one.

    Raises:
        AdapterError: it is not set, or has characters that an HTTP header cannot carry (the value is not shown).
    """
    value = os.environ.get(name, "").strip()
    if not value:
        if not credentials_needed():
            return PLACEHOLDER
        wanted = f"export {name}=... {hint}".strip()
        raise AdapterError(f"the adapter {adapter!r} needs the environment variable {name}: {wanted}")
    if not value.isascii() or not value.isprintable():
        raise AdapterError(f"the environment variable {name} has line breaks or other characters that no key has")
    return value


def checked_url(url: str, *, adapter: str, option: str, credential: bool, query: bool = False, hint: str = "") -> str:
    """Check that images (and credentials) may be sent to a URL; return it without a trailing slash.

    Args:
        url: the address of a service.
        adapter: the adapter's name, for messages.
        option: the option that gave the address, for messages.
        credential: whether a secret will be sent with the images.
        query: whether the URL may have a query (``?…``), which is impossible if paths are appended to it.
        hint: an alternative, for the message about a credential over plain http.

    Raises:
        AdapterError: not http or https, no host, a password in it, or a credential over plain http to another machine.
    """
    place = f"the adapter {adapter!r}: option {option!r}"
    try:
        parts = urlsplit(url.strip())
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise AdapterError(f"{place} is not an address: {error}") from error
    if parts.scheme not in ("http", "https") or not host or any(character.isspace() for character in url.strip()):
        raise AdapterError(f"{place} must be an address such as https://host/path")
    if parts.username is not None or parts.password is not None:
        raise AdapterError(f"{place} must not hold a user name or password: name them by environment variables")
    if "#" in url or ("?" in url and not query):
        raise AdapterError(f"{place} must end before any ? or #")
    if parts.scheme == "http" and credential and not on_this_machine(host):
        raise AdapterError(f"{place}: credentials are sent to {host} only over https, not over plain http{hint}")
    return url.strip().rstrip("/")


def on_this_machine(address: str) -> bool:
    """Tell whether a URL, host name or IP address, with or without a port, is loopback."""
    place = address.partition("://")[2] or address
    try:
        return ip_address(place).is_loopback  # a bare address: the colons of IPv6 do not separate a port
    except ValueError:
        pass
    try:
        # Parsers disagree on whether a backslash ends the host, so such an address is not trusted.
        host = "" if "\\" in place else (urlsplit(f"//{place}").hostname or "").rstrip(".")
        return host == "localhost" or host.endswith(".localhost") or ip_address(host).is_loopback
    except ValueError:
        return False


def redacted(text: bytes, secrets: Iterable[str]) -> bytes:
    """Replace secrets in a text by three asterisks, in case a service repeats what it received."""
    values = {form for value in secrets if len(value) >= SHORTEST for form in encoded_forms(value)}
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value.encode(), _HIDDEN.encode())
    return text


def encoded_forms(value: str) -> set[str]:
    """Return a secret as it may be repeated: plain, URL-encoded, in JSON, in HTML, in base64 (Basic authentication)."""
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


def sounds_secret(name: str) -> bool:
    """Tell whether the name of an option, header or variable suggests a credential: ``api_key``, ``Authorization``."""
    words = words_of(name)
    return not _WORDS.isdisjoint(words) and _NAMES_OF_THINGS.isdisjoint(words)


def words_of(name: str) -> list[str]:
    """Split a name into lower-case words: ``apiKey`` and ``API_KEY`` become "api" and "key"."""
    return re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())


def planted_secret(options: Mapping[str, Any]) -> str | None:
    """Return the name of the first option whose value looks like a credential; None if there is none.

    A reference to an environment variable, such as ``${MY_TOKEN}`` or ``MY_TOKEN``, is not a credential.
    """
    for name, value in _leaves(options):
        if not isinstance(value, str) or not value.strip() or _REFERENCE.search(value):
            continue
        if sounds_secret(name.rpartition(".")[2]) or _SHAPES.match(value.strip()):
            return name
    return None


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from _leaves(inner, name)
    else:
        yield name, value
