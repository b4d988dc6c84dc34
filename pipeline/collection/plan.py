"""What is collected, what that comes to in searches, money and time, and whether the source can give it."""

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
class Wanted:
    """What is collected.

    Attributes:
        queries: every keyword with every modifier.
        search: where; None for photos of a folder.
        source: its name.
        per_keyword: photos of each query.
        licences: codes that are taken; empty: any, also what is not stated.
        near: bits in which perceptual hashes of near-duplicates differ at most; negative: none is looked for.
        folder: for photos that are there already: a folder with one subfolder a keyword.
        contact: whom services and hosts may write to.
        limits: what a download may take.
        photos: how large a photo may be.
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
        """The text by which services and hosts know the program."""
        from importlib.metadata import version

        return f"{AGENT}/{version('counterslope')} ({self.contact or 'no contact given'})"


@dataclass(frozen=True)
class CollectionPlan:
    """What a collection comes to, before anything is sent.

    Attributes:
        queries: what is searched for, each with its pages of results.
        photos: that are taken at most.
        calls: of the search service if every result can be used; pages that were answered before are left out.
        most_calls: if so many cannot be used that every page is needed.
        known: pages that were answered before.
        host: where the searches go; empty for a folder.
        usd, most_usd: what these calls cost, those taken off that are free on one day.
        seconds: ``calls`` at the service's rate.
        days: ``calls`` at the service's daily limit.
        note: what else to know about the service.
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


def plan_of(wanted: Wanted, folder: Path) -> CollectionPlan:
    """What collecting comes to; nothing is sent or written."""
    queries, search = len(wanted.queries), wanted.search
    if search is None:
        return CollectionPlan(queries, queries * wanted.per_keyword)
    state, pages = CollectionFolder(folder), search.pages(search.most)
    first, known = 0, 0  # pages that are not known: those needed at least, and all
    for query in wanted.queries:
        keys = (search_key(search, query.text, page, licences=wanted.licences) for page in range(1, pages + 1))
        missing = [state.reply(key) is None for key in keys]
        first += sum(missing[: search.pages(wanted.per_keyword)])
        known += missing.count(False)
    most = queries * pages - known

    def cost(calls: int) -> float:
        return max(0, calls - search.free) * search.usd_per_1000 / 1000

    return CollectionPlan(
        queries=queries,
        photos=queries * min(wanted.per_keyword, search.most),
        calls=first,
        most_calls=most,
        known=known,
        host=search.host,
        usd=cost(first),
        most_usd=cost(most),
        seconds=first / search.rate,
        days=max(1, -(-first // search.per_day)) if search.per_day else 1,
        note=search.note,
    )


def check_source(wanted: Wanted) -> None:
    """Refuse what the source cannot give, before anything is sent.

    Raises:
        ConfigError: an option, a package or an environment variable is missing; the message says which.
    """
    search = wanted.search
    if wanted.near >= 0 and find_spec("imagehash") is None:
        raise ConfigError(
            "near-duplicates are found with imagehash: uv pip install 'counterslope[collect]', or --near-duplicates -1"
        )
    if search is None:
        if wanted.folder is None or not wanted.folder.is_dir():
            raise ConfigError("--source folder needs --from FOLDER, with one subfolder a keyword")
        return
    if search.contact and not wanted.contact:
        raise ConfigError(f"{search.host} wants to know whom to write to: give --contact with an e-mail or web address")
    if wanted.licences and not search.states_licences:
        raise ConfigError(
            f"the source {wanted.source} names no licence of an image: collect with --licence any, and settle the "
            "rights by the source pages in the manifest before you share anything"
        )
    search.call("", 1, licences=wanted.licences, agent=wanted.agent)  # the environment's variables are there


def search_key(search: Search, text: str, page: int, *, licences: Sequence[str]) -> dict[str, object]:
    """All that a kept reply depends on, but for credentials."""
    return {
        "url": search.url, "query": dict(search.query), "text": text, "page": page, "count": search.count,
        "licences": list(licences),
    }  # fmt: skip


def claim(wanted: Wanted, folder: Path) -> None:
    """Write into a collection's folder what it is of; more keywords and more photos of each may be added later.

    Raises:
        ConfigError: the folder holds another collection, or something else.
    """
    path = folder / "collection.json"
    own = {
        "source": wanted.source,
        "address": wanted.search.url if wanted.search else str(wanted.folder),
        "licences": list(wanted.licences),
        "searched_for": [query.text for query in wanted.queries],
    }
    if path.is_file():
        before = json.loads(path.read_text(encoding="utf-8"))
        left_out = set(before.pop("searched_for")) - set(own["searched_for"])
        if before != {name: own[name] for name in before} or left_out:
            what = f"it also searched for {min(left_out)!r}" if left_out else f"it is of {before}"
            raise ConfigError(
                f"{folder} holds another collection ({what}): add to it, or name another folder with --out"
            )
    elif {file.name for file in folder.iterdir()} - {".lock"}:
        raise ConfigError(f"{folder} is not empty and holds no collection: name another folder with --out")
    write_text(path, json.dumps(own, indent=2, ensure_ascii=False) + "\n")
