"""The request for a collection, its cost in searches, US$ and time, and checks of both before anything is sent."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from pipeline.collection.download import AGENT, DownloadLimits
from pipeline.collection.keywords import Query
from pipeline.collection.sources import Search
from pipeline.collection.state import CollectionFolder
from pipeline.config.options import ConfigError, PhotoOptions
from pipeline.run.files import write_text


@dataclass(frozen=True)
class CollectionRequest:
    """What to collect.

    Attributes:
        queries: every keyword with every modifier.
        search: the search service; None for photos of a local folder.
        source: the source's name.
        per_keyword: number of photos per query.
        licences: accepted codes; empty: any licence, including none stated.
        near: maximum Hamming distance (bits) of near-duplicates' perceptual hashes; negative: near-duplicates are kept.
        folder: for photos of a local folder: the folder with one subfolder per keyword.
        contact: e-mail or web address in the User-Agent header.
        limits: limits of each download.
        photos: limits of a photo's size.
    """

    queries: Sequence[Query]
    search: Search | None
    source: str
    per_keyword: int = 250
    licences: tuple[str, ...] = ()
    near: int = 2
    folder: Path | None = None
    contact: str = ""
    limits: DownloadLimits = field(default_factory=DownloadLimits)
    photos: PhotoOptions = field(default_factory=PhotoOptions)

    @property
    def agent(self) -> str:
        """The User-Agent header."""
        from importlib.metadata import version

        return f"{AGENT}/{version('counterslope')} ({self.contact or 'no contact given'})"


@dataclass(frozen=True)
class CollectionPlan:
    """Cost of a collection, computed before anything is sent.

    Attributes:
        queries: number of queries.
        photos: maximum number of photos.
        calls: search requests to send if every result is usable.
        most_calls: search requests to send if so few results are usable that every page is needed.
        known: pages of results that were stored by an earlier command; no request is counted for them.
        host: the search service's host; empty for a local folder.
        usd, most_usd: cost of ``calls`` and ``most_calls`` after one day's free allowance.
        seconds: duration of ``calls`` at the service's rate.
        days: duration of ``calls`` at the service's daily limit.
        note: further facts about the service.
    """

    queries: int
    photos: int
    calls: int = 0
    most_calls: int = 0
    known: int = 0
    host: str = ""
    usd: float = 0.0
    most_usd: float = 0.0
    seconds: float = 0.0
    days: int = 1
    note: str = ""


Consent = Callable[[CollectionPlan], bool]


def plan_of(request: CollectionRequest, folder: Path) -> CollectionPlan:
    """Compute the cost of a collection; nothing is sent or written."""
    queries, search = len(request.queries), request.search
    if search is None:
        return CollectionPlan(queries, queries * request.per_keyword)
    state, pages = CollectionFolder(folder), search.pages(search.most)
    least, known = 0, 0  # requests needed at least; stored pages
    for query in request.queries:
        keys = (search_key(search, query.text, page, licences=request.licences) for page in range(1, pages + 1))
        missing = [state.reply(key) is None for key in keys]
        least += sum(missing[: search.pages(request.per_keyword)])
        known += missing.count(False)
    most = queries * pages - known

    def cost(calls: int) -> float:
        return max(0, calls - search.free) * search.usd_per_1000 / 1000

    return CollectionPlan(
        queries=queries,
        photos=queries * min(request.per_keyword, search.most),
        calls=least,
        most_calls=most,
        known=known,
        host=search.host,
        usd=cost(least),
        most_usd=cost(most),
        seconds=least / search.rate,
        days=max(1, -(-least // search.per_day)) if search.per_day else 1,
        note=search.note,
    )


def check_source(request: CollectionRequest) -> None:
    """Check that the source can satisfy the request, before anything is sent.

    Raises:
        ConfigError: an option, a package or an environment variable is missing; the message names it.
    """
    search = request.search
    if request.near >= 0 and find_spec("imagehash") is None:
        raise ConfigError(
            "near-duplicates are found with imagehash: uv pip install 'counterslope[collect]', or --near-duplicates -1"
        )
    if search is None:
        if request.folder is None or not request.folder.is_dir():
            raise ConfigError("--source folder needs --from FOLDER, with one subfolder per keyword")
        return
    if search.contact and not request.contact:
        raise ConfigError(f"{search.host} requires a contact: give --contact with an e-mail or web address")
    if request.licences and not search.states_licences:
        raise ConfigError(
            f"the source {request.source} does not state images' licences: collect with --licence any, and clear the "
            "rights by the source pages in the manifest before you share anything"
        )
    search.call("", 1, licences=request.licences, agent=request.agent)  # raises if an environment variable is missing


def search_key(search: Search, text: str, page: int, *, licences: Sequence[str]) -> dict[str, object]:
    """Return everything that a stored reply depends on, without credentials."""
    return {
        "url": search.url, "query": dict(search.query), "text": text, "page": page, "count": search.count,
        "licences": list(licences),
    }  # fmt: skip


def claim(request: CollectionRequest, folder: Path) -> None:
    """Record in the collection's folder what it holds; a later command may add keywords and photos.

    Raises:
        ConfigError: the folder holds another collection, or something else.
    """
    path = folder / "collection.json"
    own = {
        "source": request.source,
        "address": request.search.url if request.search else str(request.folder),
        "licences": list(request.licences),
        "searched_for": [query.text for query in request.queries],
    }
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        left_out = set(before.pop("searched_for")) - set(own["searched_for"])
        if before != {name: own[name] for name in before} or left_out:
            what = f"it also searched for {min(left_out)!r}" if left_out else f"it was made with {before}"
            raise ConfigError(
                f"{folder} holds another collection ({what}): use the same options and keywords, which you may extend, "
                "or give another folder with --out"
            )
    elif {file.name for file in folder.iterdir()} - {".lock"}:
        raise ConfigError(f"{folder} is not empty and holds no collection: give another folder with --out")
    write_text(path, json.dumps(own, indent=2, ensure_ascii=False) + "\n")
