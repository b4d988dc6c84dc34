"""Where images are searched: three services and any REST search, all described by one record of addresses and paths.

How often they are called and what is downloaded is decided in ``collect``; the paths are JMESPath (jmespath.org).
"""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, model_validator

from adapters.base import AdapterError
from adapters.credentials import checked_url, planted_secret
from adapters.http_client import Call
from adapters.json_labels import at, check_path
from pipeline.collection.licences import licence_code
from pipeline.config.flags import Section
from pipeline.config.options import ConfigError

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_GAP = re.compile(r"\{(query|count|page|start|offset|licences)\}")
_TAG = re.compile(r"<[^>]*>")
_PATHS = ("results", "image", "source_page", "title", "creator", "licence", "licence_url", "error")
_LONGEST = 500  # characters of a field that a service sent


@dataclass(frozen=True)
class Found:
    """One result of a search, as the service describes it; ``licence`` is its code, empty where it names none."""

    image: str
    source_page: str = ""
    title: str = ""
    creator: str = ""
    licence: str = ""
    licence_name: str = ""
    licence_url: str = ""


class Search(Section):
    """A REST search for images by configuration.

    In ``query`` and ``headers``, ``{query}`` is what is searched for, ``{count}`` results a page, ``{page}`` (from 1),
    ``{start}`` (first result, from 1), ``{offset}`` (from 0), ``{licences}`` the codes that are wanted, with commas; a
    parameter of which nothing is left is not sent. ``${NAME}`` is an environment variable, and only its name is kept.
    """

    name: str = "http"
    url: str
    query: Mapping[str, str] = Field(default_factory=dict)
    headers: Mapping[str, str] = Field(default_factory=dict)
    results: str
    image: str
    source_page: str | None = None
    title: str | None = None
    creator: str | None = None
    licence: str | None = None
    licence_url: str | None = None
    error: str | None = Field(None, description="the path of the words for an error that comes with status 200")
    count: int = Field(20, ge=1, le=1000, description="results a page")
    most: int = Field(1000, ge=1, description="results of one search at most, all pages together")
    rate: float = Field(1.0, gt=0, le=10, description="searches per second")
    per_day: int | None = Field(None, ge=1, description="searches a day that the service allows")
    usd_per_1000: float = Field(0.0, ge=0)
    free: int = Field(0, ge=0, description="searches a day that cost nothing")
    ends: date | None = None
    note: str = ""
    contact: bool = Field(False, description="the service wants to know whom to write to")

    @model_validator(mode="after")
    def _usable(self) -> "Search":
        for path in _PATHS:
            check_path(getattr(self, path), option=path)
        checked_url(self.url, adapter=self.name, option="url", credential=bool(self.variables))
        planted = planted_secret({"query": dict(self.query), "headers": dict(self.headers)})
        if planted:
            raise ValueError(f"{planted} looks like a credential: name an environment variable, as in ${{MY_KEY}}")
        if not any("{query}" in text for text in self.query.values()):
            raise ValueError("no parameter in 'query' holds {query}")
        return self

    @property
    def host(self) -> str:
        """Where searches go."""
        return urlsplit(self.url).netloc

    @property
    def variables(self) -> list[str]:
        """The environment variables that are sent."""
        texts = [*self.query.values(), *self.headers.values()]
        return sorted({name for text in texts for name in _VARIABLE.findall(text)})

    @property
    def states_licences(self) -> bool:
        """Whether results say under which licence they are."""
        return self.licence is not None or self.licence_url is not None

    def pages(self, wanted: int) -> int:
        """The most calls of one search that is to give so many results."""
        return -(-min(wanted, self.most) // self.count)

    def call(self, text: str, page: int, *, licences: Sequence[str], agent: str) -> Call:
        """The call for one page of results (from 1).

        Raises:
            ConfigError: an environment variable is not set.
        """
        offset = (page - 1) * self.count
        gaps = {
            "query": text, "count": str(min(self.count, self.most - offset)), "page": str(page),
            "start": str(offset + 1), "offset": str(offset), "licences": ",".join(licences),
        }  # fmt: skip
        values = {name: os.environ.get(name, "").strip() for name in self.variables}
        missing = [name for name, value in values.items() if not value]
        if missing:
            raise ConfigError(f"the source {self.name!r} needs the environment variable {missing[0]}")

        def filled(template: str) -> str:
            known = _GAP.sub(lambda gap: gaps[gap[1]], _VARIABLE.sub("\0\\1\0", template))
            return re.sub("\0(\\w+)\0", lambda name: values[name[1]], known)

        query = {name: filled(template) for name, template in self.query.items()}
        headers = {name: filled(template) for name, template in self.headers.items()}
        return Call(
            self.url,
            headers={"Accept": "application/json", "User-Agent": agent, **headers},
            method="GET",
            query={name: value for name, value in query.items() if value},
            secrets=tuple(values.values()),
        )

    def found(self, body: bytes) -> list[Found]:
        """The results of a reply, in its order; one without an address of an image is left out.

        Raises:
            ValueError: the reply is no JSON, or the service's own error.
        """
        try:
            content = json.loads(body)
        except RecursionError as error:
            raise ValueError("the reply is no JSON that can be read") from error
        if words := at(self.error, content):
            raise ValueError(_plain(words))
        rows = at(self.results, content)
        return [self._found(row) for row in rows if at(self.image, row)] if isinstance(rows, list) else []

    def _found(self, row: Any) -> Found:
        name, url = _plain(at(self.licence, row)), _plain(at(self.licence_url, row))
        return Found(
            image=str(at(self.image, row)),
            source_page=_plain(at(self.source_page, row)),
            title=_plain(at(self.title, row)),
            creator=_plain(at(self.creator, row)),
            licence=licence_code(name, url),
            licence_name=name,
            licence_url=url,
        )


def search_of(name: str, *, config: Path | None, endpoint: str | None) -> Search:
    """The record of a source by its name.

    Args:
        name: of ``SOURCES``, or ``http``.
        config: for ``http``: a TOML file with the fields of ``Search``.
        endpoint: an address in place of the service's own, one that speaks its protocol.

    Raises:
        ConfigError: the file cannot be read or does not fit, or the service is no longer there.
    """
    changes = {} if endpoint is None else {"url": endpoint}
    try:
        if name == "http":
            if config is None:
                raise ConfigError(
                    "--source http needs --from FILE.toml, the description of the search (docs/collecting.md)"
                )
            return Search.model_validate(tomllib.loads(config.read_text(encoding="utf-8")) | changes)
        search = SOURCES[name]
        if name == "openverse" and os.environ.get("OPENVERSE_TOKEN"):
            search = _OPENVERSE_REGISTERED
        search = Search.model_validate(search.model_dump() | changes)
    except (OSError, tomllib.TOMLDecodeError, AdapterError) as error:
        raise ConfigError(f"the search {config or endpoint} cannot be used: {error}") from error
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, one['loc']))} {one['msg']}".strip() for one in error.errors(include_url=False)]
        raise ConfigError(f"the search {config or name} does not fit: {'; '.join(wrong)}") from error
    if search.ends is not None and search.ends <= date.today() and endpoint is None:
        raise ConfigError(f"{search.host} ended this service on {search.ends}: choose another --source")
    return search


def hosts_of(found: Iterable[Found]) -> set[str]:
    """The hosts, with their ports where they are named, from which results are downloaded."""
    hosts = set()
    for one in found:
        try:
            parts = urlsplit(one.image)
            hosts |= {parts.netloc.lower()} if parts.scheme in ("http", "https") else set()
        except ValueError:
            continue
    return hosts


def _plain(value: Any) -> str:
    """A field on one line, without markup."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return " ".join(unescape(_TAG.sub(" ", text)).split())[:_LONGEST]


_OPENVERSE = Search(
    name="openverse",
    url="https://api.openverse.org/v1/images/",
    query={"q": "{query}", "page": "{page}", "page_size": "{count}", "license": "{licences}", "mature": "false"},
    results="results",
    image="url",
    source_page="foreign_landing_url",
    title="title",
    creator="creator",
    licence="license",
    licence_url="license_url",
    count=20,
    most=240,
    rate=1 / 3,
    per_day=200,
    note="without a token; with OPENVERSE_TOKEN 10,000 searches a day. Its terms forbid scraping the catalogue",
)
_OPENVERSE_REGISTERED = _OPENVERSE.model_copy(
    update={
        "headers": {"Authorization": "Bearer ${OPENVERSE_TOKEN}"}, "count": 50, "most": 1000, "rate": 1.0,
        "per_day": 10_000, "note": "with a token (it holds for some hours). Its terms forbid scraping the catalogue",
    }
)  # fmt: skip
SOURCES: dict[str, Search] = {
    "openverse": _OPENVERSE,
    "wikimedia": Search(
        name="wikimedia",
        url="https://commons.wikimedia.org/w/api.php",
        query={
            "action": "query", "format": "json", "formatversion": "2", "generator": "search", "gsrnamespace": "6",
            "gsrsearch": "filetype:bitmap {query}", "gsrlimit": "{count}", "gsroffset": "{offset}", "prop": "imageinfo",
            "iiprop": "url|size|mime|extmetadata", "iiurlwidth": "1280", "maxlag": "5",
            "iiextmetadatafilter": "LicenseShortName|LicenseUrl|Artist",
        },
        results="sort_by(query.pages, &index)",
        image="imageinfo[0].thumburl || imageinfo[0].url",
        source_page="imageinfo[0].descriptionurl",
        title="title",
        creator="imageinfo[0].extmetadata.Artist.value",
        licence="imageinfo[0].extmetadata.LicenseShortName.value",
        licence_url="imageinfo[0].extmetadata.LicenseUrl.value",
        error="error.info",
        count=50,
        most=1000,
        rate=1.0,
        contact=True,
        note="one request at a time; images of at most 1280 pixels across",
    ),
    "google": Search(
        name="google",
        url="https://customsearch.googleapis.com/customsearch/v1",
        query={
            "key": "${GOOGLE_SEARCH_KEY}", "cx": "${GOOGLE_SEARCH_ENGINE}", "q": "{query}", "searchType": "image",
            "num": "{count}", "start": "{start}",
        },
        results="items",
        image="link",
        source_page="image.contextLink",
        title="title",
        creator="displayLink",
        count=10,
        most=100,
        rate=1.0,
        per_day=10_000,
        usd_per_1000=5.0,
        free=100,
        ends=date(2027, 1, 1),
        note="closed to new customers, ends on 2027-01-01; names no licences; at most 100 results a search",
    ),
}  # fmt: skip
