"""One HTTP call for the adapters of remote services: bounded, never redirected, never repeated.

What a status means beyond HTTP's own words is each service's file; how often and how fast is asked, the engine's.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from math import isfinite
from time import monotonic
from typing import Literal
from urllib.parse import urlsplit

from adapters.base import NoAnswer, RawAnswer
from adapters.credentials import without

PASSING = frozenset({408, 500, 502, 503, 504})
THROTTLED = 429


@dataclass(frozen=True)
class Call:
    """What is sent. Secrets belong into ``headers`` or ``body``: the URL may be shown.

    ``secrets`` names them again: should the service repeat one in its reply, it is not kept.
    """

    url: str
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    method: Literal["GET", "POST", "PUT"] = "POST"
    secrets: tuple[str, ...] = field(default=(), repr=False)


@dataclass(frozen=True)
class Reply:
    """What came back; ``headers`` with lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Caller:
    """Makes calls over kept connections; may be used from many threads.

    Proxies and certificate bundles are taken from the environment as usual (``HTTPS_PROXY``, ``REQUESTS_CA_BUNDLE``),
    credentials never (``~/.netrc`` is not read, cookies are not kept).

    Args:
        timeout: seconds to connect, and between two bytes of the reply.
        longest: seconds for one reply in all, from its status line to its last byte, however it trickles.
        most_bytes: a longer reply is not read to its end.
        connections: kept open at most.
    """

    def __init__(
        self,
        *,
        timeout: tuple[float, float] = (10.0, 60.0),
        longest: float = 180.0,
        most_bytes: int = 32_000_000,
        connections: int = 64,
    ) -> None:
        import requests

        from adapters.deadlines import PromptAdapter

        self._timeout = timeout
        self._longest = longest
        self._most_bytes = most_bytes
        self._session = requests.Session()
        self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        pool = PromptAdapter(
            longest=longest, pool_connections=4, pool_maxsize=connections, max_retries=0, pool_block=False
        )
        self._session.mount("https://", pool)
        self._session.mount("http://", pool)
        self._proxies: dict[str, dict[str, str]] = {}

    def __call__(self, call: Call) -> Reply | NoAnswer:
        """Send once; the reply whatever its status, or why there is none.

        A reply that was lost on the way may have been billed; a redirect is never followed (it would carry the
        credentials to wherever it points).
        """
        import requests
        from urllib3.exceptions import HTTPError

        started = monotonic()
        try:
            request = requests.Request(call.method, call.url, headers=dict(call.headers), data=call.body).prepare()
        except (requests.exceptions.RequestException, ValueError) as error:  # its text may hold a header's value
            return NoAnswer(f"no request to {_host(call)} could be made ({type(error).__name__})")
        try:
            with self._session.send(
                request,
                stream=True,
                timeout=self._timeout,
                allow_redirects=False,
                proxies=self._proxies_to(call),
            ) as response:
                if response.is_redirect:
                    return NoAnswer(f"{_host(call)} redirected the request elsewhere, which is never followed")
                headers = {
                    name.lower(): without(value.encode(), call.secrets).decode()
                    for name, value in response.headers.items()
                }
                body = bytearray()
                # Not iter_content: that waits for whole blocks, however slowly they come.
                while piece := response.raw.read1(65536, decode_content=True):
                    body += piece
                    if len(body) > self._most_bytes:
                        kept = RawAnswer(without(bytes(body[:10_000]), call.secrets), response.status_code)
                        return NoAnswer(f"the reply is longer than {self._most_bytes} bytes", billed=True, reply=kept)
                return Reply(response.status_code, headers, without(bytes(body), call.secrets))
        except (
            requests.exceptions.ConnectTimeout,
            requests.exceptions.SSLError,
            requests.exceptions.ProxyError,
        ) as error:
            return NoAnswer(f"{_host(call)} could not be reached ({type(error).__name__})", retry="later")
        except requests.exceptions.ConnectionError as error:
            # Refused before anything was sent, or dropped after: only the first is surely free.
            refused = "NewConnectionError" in repr(error) or "NameResolutionError" in repr(error)
            what = "could not be reached" if refused else "dropped the connection"
            return NoAnswer(f"{_host(call)} {what}", retry="later", billed=not refused)
        except (requests.exceptions.RequestException, HTTPError, OSError) as error:
            late = monotonic() - started >= self._longest
            what = f"took longer than {self._longest:g} s" if late else f"is not there ({type(error).__name__})"
            return NoAnswer(f"the reply of {_host(call)} {what}", retry="later", billed=True)

    def _proxies_to(self, call: Call) -> dict[str, str]:
        from requests.utils import get_environ_proxies

        place = urlsplit(call.url).netloc
        if place not in self._proxies:  # reading the whole environment each time takes longer than the call itself
            self._proxies[place] = get_environ_proxies(call.url)
        return self._proxies[place]


def unanswered(reply: Reply, *, says: str = "") -> NoAnswer | None:
    """What a reply's status means by HTTP's own words: None for success (2xx).

    Args:
        reply: the reply.
        says: the service's own words about it, for the reason.
    """
    if 200 <= reply.status < 300:
        return None
    reason = f"HTTP {reply.status}{f': {says}' if says else ''}"
    kept = RawAnswer(reply.body, reply.status)
    if reply.status == THROTTLED:
        return NoAnswer(reason, retry="slower", wait=retry_after(reply.headers), reply=kept)
    if reply.status in PASSING:
        return NoAnswer(reason, retry="later", wait=retry_after(reply.headers), reply=kept)
    return NoAnswer(reason, reply=kept)


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """The seconds that ``retry-after-ms`` or ``Retry-After`` (seconds or a date) ask to wait; None where unreadable."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        text = headers.get(name, "").strip()
        try:
            seconds = float(text) * unit
        except ValueError:
            continue
        return seconds if isfinite(seconds) and seconds >= 0 else None
    try:
        then = parsedate_to_datetime(headers.get("retry-after", ""))
        then = then if then.tzinfo else then.replace(tzinfo=UTC)
        return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())
    except (ValueError, TypeError, IndexError, OverflowError):  # what the standard library raises for odd dates
        return None


def kept(headers: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Those of the reply's headers that are worth keeping (request ids, versions, times)."""
    return {name: headers[name][:200] for name in (*names, "date") if name in headers}


def shared_answers(reply: Reply, count: int, *, headers: Sequence[str] = ()) -> list[RawAnswer]:
    """The raw answers of ``count`` images that one reply covers in their order, with those of its ``headers``."""
    worth = kept(reply.headers, headers)
    return [RawAnswer(reply.body, reply.status, worth, position) for position in range(count)]


def words(text: object, *, most: int = 200) -> str:
    """What a service says, if it is text at all: on one line, without control signs, at most ``most`` letters."""
    plain = (
        " ".join("".join(sign if sign.isprintable() else " " for sign in text).split()) if isinstance(text, str) else ""
    )
    return plain if len(plain) <= most else f"{plain[: most - 3]}..."


def _host(call: Call) -> str:
    return urlsplit(call.url).hostname or "the service"
