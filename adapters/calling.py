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

PASSING = frozenset({408, 500, 502, 503, 504})
THROTTLED = 429


@dataclass(frozen=True)
class Call:
    """What is sent. Secrets belong into ``headers`` or ``body``: the URL may be shown."""

    url: str
    body: bytes = b""
    headers: Mapping[str, str] = field(default_factory=dict)
    method: Literal["GET", "POST", "PUT"] = "POST"


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
        longest: seconds for one call in all.
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
        from requests.adapters import HTTPAdapter

        self._timeout = timeout
        self._longest = longest
        self._most_bytes = most_bytes
        self._session = requests.Session()
        self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        pool = HTTPAdapter(pool_connections=4, pool_maxsize=connections, max_retries=0, pool_block=False)
        self._session.mount("https://", pool)
        self._session.mount("http://", pool)

    def __call__(self, call: Call) -> Reply | NoAnswer:
        """Send once; the reply whatever its status, or why there is none.

        A reply that was lost on the way may have been billed; a redirect is never followed (it would carry the
        credentials to wherever it points).
        """
        import requests
        from requests.utils import get_environ_proxies

        request = requests.Request(call.method, call.url, headers=dict(call.headers), data=call.body).prepare()
        started = monotonic()
        try:
            with self._session.send(
                request,
                stream=True,
                timeout=self._timeout,
                allow_redirects=False,
                proxies=get_environ_proxies(call.url),
            ) as response:
                headers = {name.lower(): value for name, value in response.headers.items()}
                if response.is_redirect:
                    return NoAnswer(f"{_host(call)} redirected the request elsewhere, which is never followed")
                body = bytearray()
                for piece in response.iter_content(65536):
                    body += piece
                    if len(body) > self._most_bytes:
                        kept = RawAnswer(bytes(body[:10_000]), response.status_code)
                        return NoAnswer(f"the reply is longer than {self._most_bytes} bytes", billed=True, reply=kept)
                    if monotonic() - started > self._longest:
                        return NoAnswer(f"the reply took longer than {self._longest:g} s", retry="later", billed=True)
                return Reply(response.status_code, headers, bytes(body))
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
        except (requests.exceptions.RequestException, OSError) as error:
            return NoAnswer(f"no reply from {_host(call)} ({type(error).__name__})", retry="later", billed=True)


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
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - (now or datetime.now(UTC))).total_seconds())


def kept(headers: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Those of the reply's headers that are worth keeping (request ids, versions, times)."""
    return {name: headers[name][:200] for name in (*names, "date") if name in headers}


def _host(call: Call) -> str:
    return urlsplit(call.url).hostname or "the service"
