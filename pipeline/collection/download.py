"""One image from an address that a stranger wrote: only from named hosts on the open internet, bounded in every way."""

import threading
from collections.abc import Callable, Set
from dataclasses import dataclass, field
from ipaddress import IPv6Address, IPv6Network, ip_address
from socket import SOCK_STREAM, gaierror, getaddrinfo
from time import monotonic, sleep
from typing import Any
from urllib.parse import urljoin, urlsplit
from urllib.robotparser import RobotFileParser

from requests.adapters import HTTPAdapter
from requests.exceptions import InvalidURL

from adapters.base import NoAnswer
from adapters.http_client import Call, HttpClient, Reply, failure_of

REDIRECTS = 3
_PORTS = {"http": 80, "https": 443}
_NAT64 = IPv6Network("64:ff9b::/96")
AGENT = "counterslope"  # the name that robots.txt may speak to


@dataclass(frozen=True)
class DownloadLimits:
    """What one download may take.

    Attributes:
        most_bytes: of a file.
        seconds: of one request in all.
        per_second: requests to one host.
        private: hosts (with their ports, if any) of one's own network that may be called, whatever their address.
        robots: whether a host's robots.txt decides what is downloaded.
    """

    most_bytes: int = 20_000_000
    seconds: float = 60.0
    per_second: float = 2.0
    private: frozenset[str] = field(default_factory=frozenset)
    robots: bool = True


class Downloader:
    """Downloads files from hosts that a search named; may be used from several threads.

    Addresses in private, loopback, link-local and other special networks are refused after the name was resolved, and
    the connection goes to the address that was checked: a name that resolves otherwise a moment later gains nothing. A
    redirect is checked like the first address. Proxies are not used, as they would resolve names themselves.

    Args:
        limits: what a download may take.
        agent: the text by which hosts know the program, with whom to write to.
        resolve: host and port -> its addresses.
    """

    def __init__(
        self, limits: DownloadLimits, *, agent: str, resolve: Callable[[str, int], list[str]] | None = None
    ) -> None:
        self._limits, self._agent, self._resolve = limits, agent, resolve or _addresses
        self._transport = _PinnedAdapter()
        self._client = HttpClient(
            timeout=(10.0, 20.0), longest=limits.seconds, most_bytes=limits.most_bytes, transport=self._transport
        )
        self._lock, self._reading = threading.Lock(), threading.Lock()
        self._due: dict[str, float] = {}
        self._robots: dict[str, RobotFileParser | str] = {}

    def fetch(self, url: str, *, hosts: Set[str]) -> bytes | NoAnswer:
        """The content of an address, or why there is none.

        Args:
            url: as a result of a search names it.
            hosts: those of all results; a redirect may lead to these only.
        """
        reply = self._followed(url, hosts)
        if isinstance(reply, Reply):
            failure = failure_of(reply)
            return failure if failure is not None else reply.body
        return reply

    def _followed(self, url: str, hosts: Set[str], *, robots: bool = True) -> Reply | NoAnswer:
        for _ in range(REDIRECTS + 1):
            refusal = self._refusal(url, hosts, robots=robots and self._limits.robots)
            if refusal is not None:
                return refusal
            self._wait(urlsplit(url).netloc)
            reply = self._client(Call(url, headers={"User-Agent": self._agent}, method="GET"))
            if isinstance(reply, NoAnswer) or reply.status not in (301, 302, 303, 307, 308):
                return reply
            url = urljoin(url, reply.headers.get("location", ""))
        return NoAnswer(f"more than {REDIRECTS} redirects")

    def _refusal(self, url: str, hosts: Set[str], *, robots: bool) -> NoAnswer | None:
        """Why an address is not called; None where it may be."""
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
            return NoAnswer(f"port {port} is not one of the web")
        try:
            addresses = self._resolve(host, port or _PORTS[parts.scheme])
        except (gaierror, OSError, UnicodeError):
            return NoAnswer(f"{host} has no address", retry="later")
        wrong = [address for address in addresses if not private and not is_public(address)]
        if wrong:
            return NoAnswer(f"{host} is {wrong[0]}, an address of a private or special network")
        self._transport.pin(host, addresses[0])
        return self._forbidden(url, hosts) if robots else None

    def _forbidden(self, url: str, hosts: Set[str]) -> NoAnswer | None:
        """Why a host's robots.txt forbids an address; one that cannot be read forbids all for now (RFC 9309)."""
        place = "{0.scheme}://{0.netloc}".format(urlsplit(url))
        with self._reading:
            if place not in self._robots:
                self._robots[place] = self._rules(place, hosts)
            rules = self._robots[place]
        if isinstance(rules, str):
            return NoAnswer(f"robots.txt of {place} cannot be read ({rules})", retry="later")
        return None if rules.can_fetch(AGENT, url) else NoAnswer(f"robots.txt of {place} forbids it")

    def _rules(self, place: str, hosts: Set[str]) -> RobotFileParser | str:
        reply = self._followed(f"{place}/robots.txt", hosts, robots=False)
        if isinstance(reply, NoAnswer):
            return reply.reason
        if not (200 <= reply.status < 300 or 400 <= reply.status < 500) or reply.status == 429:
            return f"HTTP {reply.status}"
        rules = RobotFileParser()
        rules.parse(reply.body[:500_000].decode("utf-8", "replace").splitlines() if reply.status < 300 else [])
        return rules

    def _wait(self, place: str) -> None:
        """Wait for this host's turn."""
        with self._lock:
            now = monotonic()
            turn = max(now, self._due.get(place, now))
            self._due[place] = turn + 1 / self._limits.per_second
        sleep(max(0.0, turn - monotonic()))


def is_public(address: str) -> bool:
    """Whether an IP address is on the open internet; an IPv4 address inside an IPv6 one counts, too."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(found, IPv6Address):
        inner = [found.ipv4_mapped, found.sixtofour, *(found.teredo or ())]
        inner += [ip_address(int(found) & 0xFFFFFFFF)] if found in _NAT64 else []
        if any(one is not None and not is_public(str(one)) for one in inner):
            return False
    return found.is_global and not found.is_multicast and not found.is_reserved


def _addresses(host: str, port: int) -> list[str]:
    return list(dict.fromkeys(str(entry[4][0]) for entry in getaddrinfo(host, port, type=SOCK_STREAM)))


class _PinnedAdapter(HTTPAdapter):
    """Connects to the address that was checked for a host, while names and certificates remain the host's."""

    def __init__(self) -> None:
        super().__init__(max_retries=0)
        self._pinned: dict[str, str] = {}

    def pin(self, host: str, address: str) -> None:
        self._pinned[host] = address

    def build_connection_pool_key_attributes(self, request: Any, verify: Any, cert: Any = None) -> Any:
        place, options = super().build_connection_pool_key_attributes(request, verify, cert)
        host = urlsplit(request.url).hostname or ""
        names = {"server_hostname": host, "assert_hostname": host} if place["scheme"] == "https" else {}
        if host not in self._pinned:  # read otherwise by requests than by us
            raise InvalidURL(f"{host} was not checked")
        return {**place, "host": self._pinned[host]}, dict(options) | names

    def add_headers(self, request: Any, **_: Any) -> None:
        request.headers["Host"] = urlsplit(request.url).netloc
