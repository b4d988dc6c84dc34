"""Safe downloads from untrusted URLs: only allowed hosts at public addresses, with bounded size, time and rate."""

import threading
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address
from socket import SOCK_STREAM, gaierror, getaddrinfo
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidURL

from adapters.base import NoAnswer
from adapters.http_client import Call, HttpClient, Reply, failure_of
from pipeline.querying.schedule import RateLimiter

REDIRECTS = 3
_PORTS = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")
AGENT = "counterslope"  # the user agent that robots.txt may name


@dataclass(frozen=True)
class DownloadLimits:
    """Limits of downloads.

    Attributes:
        most_bytes: maximum size of a file.
        seconds: maximum duration of one request.
        per_second: maximum rate of requests to one host.
        private: hosts (HOST or HOST:PORT) that may be called even at private addresses and on unusual ports.
        robots: whether robots.txt is obeyed.
    """

    most_bytes: int = 20_000_000
    seconds: float = 60.0
    per_second: float = 2.0
    private: frozenset[str] = field(default_factory=frozenset)
    robots: bool = True


class Downloader:
    """Downloads files from hosts that search results name. Thread-safe.

    Addresses in private, loopback, link-local and other special networks are refused after the name is resolved. The
    connection then goes to the checked address, so resolving the name differently a moment later (DNS rebinding) has no
    effect. Redirects are checked in the same way. Proxies are not used, as they would resolve names themselves.

    Args:
        limits: limits of each download.
        agent: the User-Agent header.
        resolve: maps host and port to IP addresses; default: the system's resolver.
    """

    def __init__(
        self, limits: DownloadLimits, *, agent: str, resolve: Callable[[str, int], list[str]] | None = None
    ) -> None:
        self._limits, self._agent, self._resolve = limits, agent, resolve or _addresses
        self._transport = _PinnedAdapter()
        self._client = HttpClient(
            timeout=(10.0, 20.0), longest=limits.seconds, most_bytes=limits.most_bytes, transport=self._transport
        )
        self._reading = threading.Lock()
        self._limiters: dict[str, RateLimiter] = {}
        self._robots: dict[str, RobotFileParser | str] = {}

    def fetch(self, url: str, *, hosts: Set[str]) -> bytes | NoAnswer:
        """Download a file; return its content, or why there is none.

        Args:
            url: the URL in a search result.
            hosts: the hosts of all results; redirects may lead only to these.
        """
        reply = self._get(url, hosts)
        if isinstance(reply, Reply):
            return failure_of(reply) or reply.body
        return reply

    def _get(self, url: str, hosts: Set[str], *, robots: bool = True) -> Reply | NoAnswer:
        """Send a GET request and follow up to ``REDIRECTS`` redirects."""
        for _ in range(REDIRECTS + 1):
            refusal = self._refusal(url, hosts, robots=robots and self._limits.robots)
            if refusal is not None:
                return refusal
            limiter = self._limiters.setdefault(urlsplit(url).netloc, RateLimiter(self._limits.per_second))
            limiter.wait_turn(threading.Event())
            reply = self._client(Call(url, headers={"User-Agent": self._agent}, method="GET"))
            if isinstance(reply, NoAnswer) or reply.status not in (301, 302, 303, 307, 308):
                return reply
            url = urljoin(url, reply.headers.get("location", ""))
        return NoAnswer(f"more than {REDIRECTS} redirects")

    def _refusal(self, url: str, hosts: Set[str], *, robots: bool) -> NoAnswer | None:
        """Return why a URL must not be requested; None if it may be."""
        try:
            parts = urlsplit(url)
            host, port, place = parts.hostname or "", parts.port, parts.netloc.lower()
        except ValueError:
            return NoAnswer("not an address")
        if parts.scheme not in _PORTS or not host or not host.isascii() or "@" in place or "\\" in url:
            return NoAnswer("not an address of http or https without a password")
        if place not in hosts:
            return NoAnswer(f"{place} is not a host that the search named")
        private = place in self._limits.private
        if port not in (None, _PORTS[parts.scheme]) and not private:
            return NoAnswer(f"port {port} is not the standard port of {parts.scheme}")
        try:
            addresses = self._resolve(host, port or _PORTS[parts.scheme])
        except (gaierror, OSError, UnicodeError):
            return NoAnswer(f"{host} cannot be resolved to an address", retry="later")
        wrong = [address for address in addresses if not private and not is_public(address)]
        if wrong:
            return NoAnswer(f"{host} is {wrong[0]}, an address of a private or special network")
        self._transport.pin(host, addresses[0])
        return self._forbidden(url, hosts) if robots else None

    def _forbidden(self, url: str, hosts: Set[str]) -> NoAnswer | None:
        """Return why robots.txt forbids a URL; a file that cannot be read forbids everything for now (RFC 9309)."""
        origin = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        with self._reading:
            if origin not in self._robots:
                self._robots[origin] = self._rules(origin, hosts)
            rules = self._robots[origin]
        if isinstance(rules, str):
            return NoAnswer(f"robots.txt of {origin} cannot be read ({rules})", retry="later")
        return None if rules.can_fetch(AGENT, url) else NoAnswer(f"robots.txt of {origin} forbids it")

    def _rules(self, origin: str, hosts: Set[str]) -> RobotFileParser | str:
        """Read an origin's robots.txt; return its rules, or why it cannot be read."""
        reply = self._get(f"{origin}/robots.txt", hosts, robots=False)
        if isinstance(reply, NoAnswer):
            return reply.reason
        if not (200 <= reply.status < 300 or 400 <= reply.status < 500) or reply.status == 429:
            return f"HTTP {reply.status}"
        rules = RobotFileParser()
        rules.parse(reply.body[:500_000].decode("utf-8", "replace").splitlines() if reply.status < 300 else [])
        return rules


def is_public(address: str) -> bool:
    """Tell whether an IP address is globally routable; an IPv4 address embedded in an IPv6 address must be, too."""
    try:
        parsed = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, IPv6Address):
        embedded = [parsed.ipv4_mapped, parsed.sixtofour, *(parsed.teredo or ())]
        embedded += [ip_address(int(parsed) & 0xFFFFFFFF)] if parsed in _NAT64 else []
        if any(ipv4 is not None and not is_public(str(ipv4)) for ipv4 in embedded):
            return False
    return parsed.is_global and not parsed.is_multicast and not parsed.is_reserved


def _addresses(host: str, port: int) -> list[str]:
    return list(dict.fromkeys(str(entry[4][0]) for entry in getaddrinfo(host, port, type=SOCK_STREAM)))


class _PinnedAdapter(HTTPAdapter):
    """Connects to the checked address of a host, while the Host header and the certificate stay those of its name."""

    def __init__(self) -> None:
        super().__init__(max_retries=0)
        self._pinned: dict[str, str] = {}

    def pin(self, host: str, address: str) -> None:
        self._pinned[host] = address

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        place, options = super().build_connection_pool_key_attributes(request, verify, cert)
        host = urlsplit(request.url).hostname or ""
        names = {"server_hostname": host, "assert_hostname": host} if place["scheme"] == "https" else {}
        if host not in self._pinned:  # requests parses this URL differently from urlsplit
            raise InvalidURL(f"{host} was not checked")
        return {**place, "host": self._pinned[host]}, dict(options) | names

    def add_headers(self, request: Any, **_: Any) -> None:
        request.headers["Host"] = urlsplit(request.url).netloc
