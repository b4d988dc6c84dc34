"""Collecting photos, from keywords to the manifest: plan, consent, searches, downloads, duplicates.

The same command continues an interrupted collection. Answered searches and existing files are not fetched again.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import sha256
from itertools import count, islice
from pathlib import Path
from typing import TypeVar

import numpy as np

from adapters.answers import json_or_empty, one_line
from adapters.base import NoAnswer
from adapters.http_client import Call, HttpClient, failure_of
from pipeline.collection.download import Downloader
from pipeline.collection.keywords import Query
from pipeline.collection.manifest import COLUMNS, NOT_STATED, RESULT_COLUMNS, also_found_by, attribution
from pipeline.collection.plan import CollectionRequest, Consent, check_source, claim, plan_of, search_key
from pipeline.collection.sources import Search, SearchResult, hosts_of
from pipeline.collection.state import CollectionFolder, Outcome
from pipeline.photos.decoding import PhotoError, Reason, read_photo
from pipeline.querying.limits import RetryPolicy, next_try
from pipeline.querying.plan import PlanError
from pipeline.querying.schedule import RateLimiter
from pipeline.run.files import write_text
from pipeline.run.locks import locked
from pipeline.run.progress import Watch, unwatched
from pipeline.run.tables import frame_to_csv

T = TypeVar("T")
THREADS = 4
CHUNK = 8  # results fetched together
FOUND_BEFORE = "found by an earlier search"
_SEARCH = RetryPolicy(attempts=6, seconds=300.0, first=2.0)
_PAST_LAST_PAGE = (400, 404)  # what services answer to a page after the last one
_DOWNLOAD = RetryPolicy(attempts=3, seconds=60.0)


@dataclass(frozen=True)
class Collected:
    """The result of one command.

    Attributes:
        folder: the collection's folder.
        counts: number of search results by status and reason.
        short: number of queries that gave fewer photos than requested.
        stopped: why the command ended early; empty if it did not.
    """

    folder: Path
    counts: Mapping[tuple[str, str], int]
    short: int
    stopped: str = ""

    @property
    def photos(self) -> int:
        """Photos in the manifest."""
        return self.counts.get(("ok", ""), 0)


def collect(request: CollectionRequest, folder: Path, *, consent: Consent, watch: Watch = unwatched) -> Collected:
    """Search, download and write the manifest; nothing that exists is fetched again.

    Args:
        request: what to collect.
        folder: the collection's folder.
        consent: receives the plan and decides whether to go on; not called for photos of a local folder.
        watch: receives the progress.

    Raises:
        ConfigError: an option does not fit the source, or the folder holds something else.
        PlanError: consent was not given.
        RunError: another process is using the folder.
    """
    check_source(request)
    plan = plan_of(request, folder)
    if request.search is not None and not consent(plan):
        raise PlanError(
            f"searching {plan.host} and downloading images was not confirmed, so nothing was sent: confirm on a "
            "terminal, or give --yes in a script"
        )
    with locked(folder):
        claim(request, folder)
        return _Collection(request, folder).run(watch)


class _Stopped(Exception):  # noqa: N818 - not an error of the program
    """The search service gives no further results; the message says why."""


class _Collection:
    """State of one command."""

    def __init__(self, request: CollectionRequest, folder: Path) -> None:
        self._request, self._folder, self._state = request, folder, CollectionFolder(folder)
        self._downloads = Downloader(request.limits, agent=request.agent)
        self._client = HttpClient(timeout=(10.0, 60.0), longest=120.0, most_bytes=8_000_000)
        self._limiter = RateLimiter(request.search.rate if request.search else None)
        self._tried: set[str] = set()
        self._hosts: set[str] = set()
        self._chance = random.Random(0)  # noqa: S311 - jitter
        self._photos: dict[str, dict[str, object]] = {}  # file -> its row of the manifest
        self._searches: dict[str, dict[Query, int]] = {}  # file -> its rank in each query that found it
        self._by_bytes: dict[str, str] = {}
        self._hashes = np.zeros(0, dtype=np.uint64)
        self._hashed: list[str] = []
        self._rows: list[tuple[Query, int, SearchResult, str, str]] = []
        self._short = 0

    def run(self, watch: Watch) -> Collected:
        stopped, finished = "", False
        with (
            self._state.opened(),
            watch("collect", total=len(self._request.queries) * self._request.per_keyword) as step,
        ):
            try:
                for query in self._request.queries:
                    taken = 0
                    for taken in self._photos_of(query):  # noqa: B007 - read below
                        step(1, query.text)
                    self._short += taken < self._request.per_keyword
                    step(self._request.per_keyword - taken)
                finished = True
            except _Stopped as reason:
                stopped = f"{reason}; the same command continues"
            finally:
                self._write(finished)
        counts = Counter((status, reason.partition(" (")[0]) for *_, status, reason in self._rows)
        return Collected(self._folder, counts, self._short, stopped)

    def _photos_of(self, query: Query) -> Iterator[int]:
        """Take photos of a query in the order of its results; yield their number after each."""
        taken, ranked = 0, enumerate(self._results(query), start=1)
        while chunk := list(islice(ranked, min(CHUNK, self._request.per_keyword - taken))):
            fetched = self._outcomes([found for _, found in chunk if self._has_wanted_licence(found)])
            for rank, found in chunk:
                status, reason = self._judge(query, rank, found, fetched)
                self._rows.append((query, rank, found, status, reason))
                if status == "ok":
                    taken += 1
                    yield taken

    def _results(self, query: Query) -> Iterator[SearchResult]:
        search = self._request.search
        if search is None:
            yield from _of_folder(self._request.folder or Path(), query)
            return
        seen: set[str] = set()
        for page in range(1, search.pages(search.most) + 1):
            found = self._page(search, query, page)
            self._hosts |= hosts_of(found)
            yield from found
            new = {result.image for result in found} - seen
            if not new:  # the last page, or a service that repeats a page
                return
            seen |= new

    def _page(self, search: Search, query: Query, page: int) -> list[SearchResult]:
        """Return one page of results, from its stored reply if there is one.

        Raises:
            _Stopped: the service returned an error.
        """
        key = search_key(search, query.text, page, licences=self._request.licences)
        body = self._state.reply(key)
        if body is not None:
            return search.results_in(body)
        call = search.call(query.text, page, licences=self._request.licences, agent=self._request.agent)
        answered = self._with_retries(lambda: self._send(search, call), _SEARCH)
        if isinstance(answered, NoAnswer):
            if page > 1 and answered.reply is not None and answered.reply.status in _PAST_LAST_PAGE:
                return []
            raise _Stopped(f"{search.host}: {answered.reason}")
        found, body = answered
        self._state.keep_reply(key, body)
        return found

    def _with_retries(self, send: Callable[[], T | NoAnswer], policy: RetryPolicy) -> T | NoAnswer:
        """Call ``send`` until it succeeds or the policy gives up; return its last result."""
        start = time.monotonic()
        for attempt in count(1):
            answered = send()
            if not isinstance(answered, NoAnswer):
                break
            elapsed = time.monotonic() - start
            wait = next_try(answered, attempts=attempt, elapsed=elapsed, policy=policy, chance=self._chance)
            if wait is None:
                break
            time.sleep(wait)
        return answered

    def _send(self, search: Search, call: Call) -> tuple[list[SearchResult], bytes] | NoAnswer:
        self._limiter.wait_turn(threading.Event())
        reply = self._client(call)
        if isinstance(reply, NoAnswer):
            return reply
        failure = failure_of(reply, _error_message(reply.body) if reply.status >= 400 else "")
        if failure is not None:
            return failure
        try:
            return search.results_in(reply.body), reply.body
        except ValueError as error:
            return NoAnswer(str(error)[:300], retry="later")

    def _has_wanted_licence(self, found: SearchResult) -> bool:
        return not self._request.licences or self._request.search is None or found.licence in self._request.licences

    def _outcomes(self, found: Sequence[SearchResult]) -> dict[str, Outcome]:
        """Map each result's URL to its outcome, downloading those that have none or may now succeed."""
        urls = list(dict.fromkeys(result.image for result in found))
        known = {url: self._state.outcomes[url] for url in urls if url in self._state.outcomes}
        missing = [url for url in urls if url not in known or (known[url].again and url not in self._tried)]
        self._tried.update(missing)
        with ThreadPoolExecutor(THREADS) as pool:
            for outcome in pool.map(self._fetch, missing):
                self._state.note(outcome)
                known[outcome.url] = outcome
        return known

    def _fetch(self, url: str) -> Outcome:
        path = self._state.photo(url)
        if path is None:
            content = self._content(url)
            if isinstance(content, NoAnswer):
                return Outcome(url, content.reason[:300], again=content.retry != "never")
            path = self._state.keep_photo(url, content)
        try:
            photo = read_photo(path, options=self._request.photos)
        except PhotoError as error:
            path.unlink()
            return Outcome(url, str(error))
        return Outcome(
            url,
            file=path.relative_to(self._folder).as_posix(),
            sha256=sha256(path.read_bytes()).hexdigest(),
            phash=perceptual_hash(photo.pixels) if self._request.near >= 0 else "",
        )

    def _content(self, url: str) -> bytes | NoAnswer:
        if self._request.search is None:
            path = Path(url)
            most = self._request.limits.most_bytes
            return path.read_bytes() if path.stat().st_size <= most else NoAnswer(f"longer than {most} bytes")
        return self._with_retries(lambda: self._downloads.fetch(url, hosts=self._hosts), _DOWNLOAD)

    def _judge(self, query: Query, rank: int, found: SearchResult, fetched: Mapping[str, Outcome]) -> tuple[str, str]:
        """Return a result's status, and the reason if it is not "ok"; add new photos to the manifest."""
        if not self._has_wanted_licence(found):
            return "excluded", f"licence {found.licence or NOT_STATED} is not wanted ({found.licence_name})"
        outcome = fetched[found.image]
        if outcome.reason:
            excluded = any(outcome.reason.startswith(reason.value) for reason in Reason if reason.status == "excluded")
            return "excluded" if excluded else "failed", outcome.reason
        same = self._by_bytes.get(outcome.sha256)
        if first := same or self._near_duplicate(outcome.phash):
            searches = self._searches[first]
            if query in searches:
                return "excluded", f"{'duplicate' if same else 'near-duplicate'} ({first})"
            searches[query] = rank
            self._photos[first]["also_found_by"] = also_found_by(searches)
            return "ok", f"{FOUND_BEFORE} ({first})"
        self._by_bytes[outcome.sha256] = outcome.file
        if outcome.phash:
            self._hashes = np.append(self._hashes, np.uint64(int(outcome.phash, 16)))
            self._hashed.append(outcome.file)
        self._searches[outcome.file] = {query: rank}
        self._photos[outcome.file] = {
            "photo": outcome.file, "keyword": query.keyword, "modifier": query.modifier or "none", "soc": query.soc,
            "rank": rank, "licence": found.licence or NOT_STATED, "licence_name": found.licence_name,
            "licence_url": found.licence_url, "creator": found.creator, "title": found.title,
            "source": self._request.source, "source_page": found.source_page, "image_url": found.image,
            "file_sha256": outcome.sha256, "also_found_by": "",
        }  # fmt: skip
        return "ok", ""

    def _near_duplicate(self, phash: str) -> str | None:
        """Return the first photo whose perceptual hash differs in at most ``near`` bits."""
        if not phash:
            return None
        distances = np.bitwise_count(self._hashes ^ np.uint64(int(phash, 16)))
        close = np.flatnonzero(distances <= self._request.near)
        return self._hashed[int(close[0])] if len(close) else None

    def _write(self, finished: bool) -> None:
        """Write the manifest, the table of all results, and the credits.

        A command that was interrupted with fewer photos than an earlier one leaves that command's files unchanged.
        """
        import pandas as pd

        manifest = self._folder / "manifest.csv"
        if not finished and manifest.is_file() and manifest.read_bytes().count(b"\n") > len(self._photos) + 1:
            return
        photos = list(self._photos.values())
        write_text(manifest, frame_to_csv(pd.DataFrame(photos, columns=list(COLUMNS))))
        results = [
            (query.keyword, query.modifier or "none", rank, found.image, status, reason)
            for query, rank, found, status, reason in self._rows
        ]
        write_text(self._folder / "results.csv", frame_to_csv(pd.DataFrame(results, columns=list(RESULT_COLUMNS))))
        write_text(self._folder / "ATTRIBUTION.md", attribution(photos))


def perceptual_hash(pixels: "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]") -> str:
    """Return a 64-bit hash as hex digits; hashes of pictures that look alike differ in few bits (``imagehash.phash``).

    Args:
        pixels: (H, W, 3) RGB.
    """
    import imagehash
    from PIL import Image

    return str(imagehash.phash(Image.fromarray(pixels)))


def _of_folder(folder: Path, query: Query) -> Iterator[SearchResult]:
    """Yield the photos in a query's subfolder: ``KEYWORD/MODIFIER``, or ``KEYWORD`` without a modifier."""
    for path in sorted((folder / query.keyword / query.modifier).glob("[!.]*")):
        if path.is_file():
            yield SearchResult(image=str(path), title=path.name)


def _error_message(body: bytes) -> str:
    """Return the service's message in the body of an error reply; empty if there is none."""
    content = json_or_empty(body)
    detail = content.get("detail") or content.get("error")
    if isinstance(detail, dict):
        detail = detail.get("message") or detail.get("info")
    return one_line(str(detail)) if detail else ""
