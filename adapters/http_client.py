"""The HTTP client of remote services: bounded in time and size, without redirects and retries.

Service-specific meanings of replies are in each service's file. Rates and retries are up to the caller.
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
    "ProxyError": "the proxy set in the environment refuses the connection",
    "NameResolutionError": "its name cannot be resolved",
    "NewConnectionError": "nothing answers there",
}
PASSING = frozenset({408, 500, 502, 503, 504})  # temporary errors
THROTTLED = 429


@dataclass(frozen=True)
class Call:
    """A request. Secrets belong in ``headers``, ``body`` or ``query`` (added to the URL), because ``url`` may be shown.

    ``secrets`` are their values, which are redacted if the service repeats them in its reply.
    """

    url: str
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    method: Literal["GET", "POST", "PUT", "DELETE"] = "POST"
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    secrets: tuple[str, ...] = field(default=(), repr=False)

    @property
    def host(self) -> str:
        """The host, for messages."""
        return urlsplit(self.url).hostname or "the service"


@dataclass(frozen=True)
class Reply:
    """A reply; ``headers`` have lower-case names."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpClient:
    """Sends calls over persistent connections. Thread-safe.

    Proxies and certificate bundles come from the environment (``HTTPS_PROXY``, ``REQUESTS_CA_BUNDLE``), credentials do
    not (``~/.netrc`` is not read, and cookies are not stored).

    Args:
        timeout: seconds to connect, and between two bytes of the reply.
        longest: maximum seconds of one call.
        most_bytes: maximum size of a reply.
        transport: replaces the default transport; then no proxy is used, and redirects are returned as replies.
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
        """Send a call once; return the reply, whatever its status, or why there is none.

        If the reply was lost on the way, the call may have been billed. Redirects are never followed, because they
        would carry the credentials elsewhere.
        """
        import requests

        try:
            request = requests.Request(
                call.method, call.url, headers=dict(call.headers), data=call.body, params=dict(call.query)
            ).prepare()
        except (requests.exceptions.RequestException, ValueError) as error:  # its text may hold a header's value
            return NoAnswer(f"no request to {call.host} could be made ({type(error).__name__})")
        # A read timeout bounds the pause between two bytes, not the call: slow headers could hold it for days. So the
        # call runs in a daemon thread, which is abandoned when the time is up.
        end = monotonic() + self._longest
        outcome: Future[Reply | NoAnswer] = Future()

        def send() -> None:
            try:
                outcome.set_result(self._send(call, request, end))
            except Exception as error:
                outcome.set_exception(error)

        threading.Thread(target=send, daemon=True, name=f"call to {call.host}").start()
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
                    reason = f"{call.host} redirected the request; redirects are not followed"
                    return NoAnswer(reason, reply=RawAnswer(b"", response.status_code))
                body = bytearray()
                # Not iter_content: it waits for whole blocks, however slowly they arrive.
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
            # Only a connection that was never made is certainly free of charge.
            unreached = next((why for kind, why in _UNREACHED.items() if kind in repr(error)), None)
            what = f"could not be reached: {unreached}" if unreached else "dropped the connection"
            return NoAnswer(f"{call.host} {what}", retry="later", billed=unreached is None)
        except (exceptions.RequestException, HTTPError, OSError) as error:
            reason = f"the reply of {call.host} was not received ({type(error).__name__})"
            return NoAnswer(reason, retry="later", billed=True)

    def _too_long(self, call: Call) -> NoAnswer:
        return NoAnswer(f"the reply of {call.host} took longer than {self._longest:g} s", retry="later", billed=True)

    def _proxies_to(self, call: Call) -> dict[str, str]:
        from requests.utils import get_environ_proxies

        if self._own_transport:
            return {}
        place = urlsplit(call.url).netloc
        if place not in self._proxies:  # cached, because parsing the environment takes longer than a local call
            self._proxies[place] = get_environ_proxies(call.url)
        return self._proxies[place]


def failure_of(reply: Reply, *messages: str) -> NoAnswer | None:
    """Interpret a reply's HTTP status; None for success (2xx).

    The service's code and message, where not empty, are added to the reason.
    """
    if 200 <= reply.status < 300:
        return None
    reason = ": ".join(filter(None, (f"HTTP {reply.status}", *messages)))
    kept = RawAnswer(reply.body, reply.status)
    if reply.status != THROTTLED and reply.status not in PASSING:
        return NoAnswer(reason, reply=kept)
    retry: Literal["slower", "later"] = "slower" if reply.status == THROTTLED else "later"
    return NoAnswer(reason, retry=retry, wait=retry_after(reply.headers), reply=kept)


def retry_after(headers: Mapping[str, str], *, now: datetime | None = None) -> float | None:
    """Read the seconds to wait from ``retry-after-ms`` or ``Retry-After`` (seconds or a date); None if unreadable."""
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
    except (ValueError, TypeError, IndexError, OverflowError):  # raised by the standard library for malformed dates
        return None


def kept_headers(headers: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Select the headers to store (request ids, versions) and the date."""
    return {name: headers[name][:200] for name in (*names, "date") if name in headers}


def raw_answers(reply: Reply, count: int, *, headers: Sequence[str] = ()) -> list[RawAnswer]:
    """Return the raw answers of ``count`` images that one reply covers in order, with the named ``headers``."""
    kept = kept_headers(reply.headers, headers)
    return [RawAnswer(reply.body, reply.status, kept, position) for position in range(count)]


def media_type(image: bytes) -> str:
    """Return ``image/png`` or ``image/jpeg`` by the file signature; ValueError if it is neither."""
    if image.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if image.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    raise ValueError("not a PNG or JPEG image")


def image_form(texts: Mapping[str, str], field: str, image: bytes) -> tuple[bytes, str]:
    """Encode a multipart form with text parts and an image in the part ``field``; return body and content type.

    Raises:
        ValueError: the image is neither PNG nor JPEG.
    """
    from urllib3 import encode_multipart_formdata

    kind = media_type(image)
    file = (f"image.{kind.removeprefix('image/')}", image, kind)
    return encode_multipart_formdata([*texts.items(), (field, file)])
