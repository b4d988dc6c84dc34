"""One HTTP call for the adapters of remote services: bounded in time and size, never redirected, never repeated.

What a status means beyond HTTP's own words is each service's file; how often and how fast is the caller's decision.
"""

import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from math import isfinite
from time import monotonic
from typing import Any, Literal
from urllib.parse import urlsplit

from adapters.base import NoAnswer, RawAnswer
from adapters.credentials import redacted

_UNREACHED = {
    "ConnectTimeout": "it took too long",
    "SSLError": "its certificate cannot be verified",
    "ProxyError": "the proxy that the environment names does not let it through",
    "NameResolutionError": "its name is not known to this network",
    "NewConnectionError": "nothing answers there",
}
PASSING = frozenset({408, 500, 502, 503, 504})
THROTTLED = 429


@dataclass(frozen=True)
class Call:
    """What is sent. Secrets belong into ``headers``, ``body`` or ``query`` (added to the URL): the URL may be shown.

    ``secrets`` lists their values: should the service repeat one in its reply, it is not kept.
    """

    url: str
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    method: Literal["GET", "POST", "PUT", "DELETE"] = "POST"
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def host(self) -> str:
        """Where it goes, for messages."""
        return urlsplit(self.url).hostname or "the service"


@dataclass(frozen=True)
class Reply:
    """What came back; ``headers`` with lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Makes calls over kept connections; may be used from many threads.

    Proxies and certificate bundles are taken from the environment as usual (``HTTPS_PROXY``, ``REQUESTS_CA_BUNDLE``),
    credentials never (``~/.netrc`` is not read, cookies are not kept).

    Args:
        timeout: seconds to connect, and between two bytes of the reply.
        longest: seconds for one call in all, however slowly its reply trickles.
        most_bytes: a longer reply is not read to its end.
        transport: makes the connections in place of the usual one; then no proxy is used, and the reply to a redirect
            is given as it is, for the caller to judge.
    """

    def __init__(
        self,
        *,
        timeout: tuple[float, float] = (10.0, 60.0),
        longest: float = 180.0,
        most_bytes: int = 32_000_000,
        transport: Any = None,
    ) -> None:
        import requests
        from requests.adapters import HTTPAdapter

        self._timeout, self._longest, self._most_bytes = timeout, longest, most_bytes
        self._session = requests.Session()
        self._session.verify = os.environ.get("REQUESTS_CA_BUNDLE") or os.environ.get("CURL_CA_BUNDLE") or True
        self._session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
        self._own_transport = transport is not None
        pool = transport or HTTPAdapter(pool_connections=4, pool_maxsize=64, max_retries=0, pool_block=False)
        self._session.mount("https://", pool)
        self._session.mount("http://", pool)
        self._proxies: dict[str, dict[str, str]] = {}

    def __call__(self, call: Call) -> Reply | NoAnswer:
        """Send once; the reply whatever its status, or why there is none.

        A reply that was lost on the way may have been billed; a redirect is never followed (it would carry the
        credentials to wherever it points).
        """
        import requests

        try:
            request = requests.Request(
                call.method, call.url, headers=dict(call.headers), data=call.body, params=dict(call.query)
            ).prepare()
        except (requests.exceptions.RequestException, ValueError) as error:  # its text may hold a header's value
            return NoAnswer(f"no request to {call.host} could be made ({type(error).__name__})")
        # A read timeout bounds the pause between two bytes, not the call: headers that trickle could hold it for days.
        # So it runs in a thread of its own, which is left to itself when the time is up.
        end = monotonic() + self._longest
        outcome: Future[Reply | NoAnswer] = Future()

        def work() -> None:
            try:
                outcome.set_result(self._send(call, request, end))
            except Exception as error:
                outcome.set_exception(error)

        threading.Thread(target=work, daemon=True, name=f"call to {call.host}").start()
        try:
            return outcome.result(self._longest)
        except TimeoutError:
            return self._too_long(call)

    def _send(self, call: Call, request: Any, end: float) -> Reply | NoAnswer:
        from requests import exceptions
        from urllib3.exceptions import HTTPError

        try:
            with self._session.send(
                request, stream=True, timeout=self._timeout, allow_redirects=False, proxies=self._proxies_to(call)
            ) as response:
                if response.is_redirect and not self._own_transport:
                    reason = f"{call.host} redirected the request elsewhere, which is never followed"
                    return NoAnswer(reason, reply=RawAnswer(b"", response.status_code))
                body = bytearray()
                # Not iter_content: that waits for whole blocks, however slowly they come.
                while piece := response.raw.read1(65536, decode_content=True):
                    body += piece
                    if len(body) > self._most_bytes:
                        kept = RawAnswer(redacted(bytes(body[:10_000]), call.secrets), response.status_code)
                        return NoAnswer(f"the reply is longer than {self._most_bytes} bytes", billed=True, reply=kept)
                    if monotonic() > end:
                        return self._too_long(call)
                headers = {
                    name.lower(): redacted(v.encode(), call.secrets).decode() for name, v in response.headers.items()
                }
                return Reply(response.status_code, headers, redacted(bytes(body), call.secrets))
        except (exceptions.ConnectTimeout, exceptions.SSLError, exceptions.ProxyError) as error:
            why = _UNREACHED.get(type(error).__name__, type(error).__name__)
            return NoAnswer(f"{call.host} could not be reached: {why}", retry="later")
        except exceptions.ConnectionError as error:
            # Refused before anything was sent, or dropped after: only the first is surely free.
            unreached = next((why for kind, why in _UNREACHED.items() if kind in repr(error)), None)
            what = f"could not be reached: {unreached}" if unreached else "dropped the connection"
            return NoAnswer(f"{call.host} {what}", retry="later", billed=unreached is None)
        except (exceptions.RequestException, HTTPError, OSError) as error:
            reason = f"the reply of {call.host} is not there ({type(error).__name__})"
            return NoAnswer(reason, retry="later", billed=True)

    def _too_long(self, call: Call) -> NoAnswer:
        return NoAnswer(f"the reply of {call.host} took longer than {self._longest:g} s", retry="later", billed=True)

    def _proxies_to(self, call: Call) -> dict[str, str]:
        from requests.utils import get_environ_proxies

        if self._own_transport:
            return {}
        place = urlsplit(call.url).netloc
        if place not in self._proxies:  # reading the whole environment each time takes longer than the call itself
            self._proxies[place] = get_environ_proxies(call.url)
        return self._proxies[place]


def failure_of(reply: Reply, *, message: str = "") -> NoAnswer | None:
    """What a reply's status means by HTTP's own words: None for success (2xx).

    Args:
        reply: the reply.
        message: the service's own words about it, for the reason.
    """
    if 200 <= reply.status < 300:
        return None
    reason = f"HTTP {reply.status}{f': {message}' if message else ''}"
    kept = RawAnswer(reply.body, reply.status)
    if reply.status == THROTTLED or reply.status in PASSING:
        retry: Literal["slower", "later"] = "slower" if reply.status == THROTTLED else "later"
        return NoAnswer(reason, retry=retry, wait=retry_after(reply.headers), reply=kept)
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


def kept_headers(headers: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Those of the reply's headers that are worth keeping (request ids, versions, times)."""
    return {name: headers[name][:200] for name in (*names, "date") if name in headers}


def raw_answers(reply: Reply, count: int, *, headers: Sequence[str] = ()) -> list[RawAnswer]:
    """The raw answers of ``count`` images that one reply covers in their order, with those of its ``headers``."""
    worth = kept_headers(reply.headers, headers)
    return [RawAnswer(reply.body, reply.status, worth, position) for position in range(count)]


def media_type(image: bytes) -> str:
    """``image/png`` or ``image/jpeg``, by the bytes' own signature; ValueError where it is neither."""
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if image.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    raise ValueError("not a PNG or JPEG image")


def image_form(texts: Mapping[str, str], field: str, image: bytes) -> tuple[bytes, str]:
    """The body and the content type of a multipart form with text parts and an image in the part ``field``.

    Raises:
        ValueError: the image is neither PNG nor JPEG.
    """
    from urllib3 import encode_multipart_formdata

    kind = media_type(image)
    file = (f"image.{kind.removeprefix('image/')}", image, kind)
    return encode_multipart_formdata([*texts.items(), (field, file)])
