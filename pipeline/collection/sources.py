"""Image search services: records of three services, and any REST search by configuration.

The paths into replies are JMESPath (jmespath.org). Rates, retries and downloads are in ``collect``.
"""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
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
from adapters.templates import filled, variables_in
from pipeline.collection.licences import licence_code
from pipeline.config.flags import Section
from pipeline.config.options import ConfigError

_TAG = re.compile(r"<[^>]*>")
_PATHS = ("results", "image", "source_page", "title", "creator", "licence", "licence_url", "error")
_MAX_FIELD = 500  # characters of a field of a reply


@dataclass(frozen=True)
class SearchResult:
    """One search result as the service describes it; ``licence`` is its code, empty if unknown."""

    image: str
    source_page: str = ""
    title: str = ""
    creator: str = ""
    licence: str = ""
    licence_name: str = ""
    licence_url: str = ""


class Search(Section):
    """A REST search for images by configuration.

    Placeholders in ``query`` and ``headers``: ``{query}`` the search text, ``{count}`` results per page, ``{page}``
    (from 1), ``{start}`` the first result (from 1), ``{offset}`` the same from 0, ``{licences}`` the accepted codes
    separated by commas. Parameters that end up empty are not sent. ``${NAME}`` is an environment variable, of which
    only the name is stored.
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
    error: str | None = Field(None, description="the path of an error message in replies of status 200")
    count: int = Field(20, ge=1, le=1000, description="results per page")
    most: int = Field(1000, ge=1, description="maximum results of one search over all pages")
    rate: float = Field(1.0, gt=0, le=10, description="searches per second")
    per_day: int | None = Field(None, ge=1, description="searches per day that the service allows")
    usd_per_1000: float = Field(0.0, ge=0)
    free: int = Field(0, ge=0, description="free searches per day")
    ends: date | None = None
    note: str = ""
    contact: bool = Field(False, description="the service requires a contact in the User-Agent header")

    @model_validator(mode="after")
    def _usable(self) -> "Search":
        for path in _PATHS:
            check_path(getattr(self, path), option=path)
        checked_url(self.url, adapter=self.name, option="url", credential=bool(self.variables))
        planted = planted_secret({"query": dict(self.query), "headers": dict(self.headers)})
        if planted:
            raise ValueError(f"{planted} looks like a credential: name an environment variable, as in ${{MY_KEY}}")
        if not any("{query}" in text for text in self.query.values()):
            raise ValueError("no parameter in 'query' contains {query}")
        return self

    @property
    def host(self) -> str:
        """The service's host."""
        return urlsplit(self.url).netloc

    @property
    def variables(self) -> list[str]:
        """The environment variables in the query and the headers."""
        return variables_in([self.query, self.headers])

    @property
    def states_licences(self) -> bool:
        """Whether results state their licence."""
        return self.licence is not None or self.licence_url is not None

    def pages(self, wanted: int) -> int:
        """Return the number of pages that hold the first ``wanted`` results."""
        return -(-min(wanted, self.most) // self.count)

    def call(self, text: str, page: int, *, licences: Sequence[str], agent: str) -> Call:
        """Build the call for one page of results (from 1).

        Raises:
            ConfigError: an environment variable is not set.
        """
        offset = (page - 1) * self.count
        fields = {
            "query": text, "count": str(min(self.count, self.most - offset)), "page": str(page),
            "start": str(offset + 1), "offset": str(offset), "licences": ",".join(licences),
        }  # fmt: skip
        values = {name: os.environ.get(name, "").strip() for name in self.variables}
        missing = [name for name, value in values.items() if not value]
        if missing:
            raise ConfigError(f"the source {self.name!r} needs the environment variable {missing[0]}")

        query, headers = (filled(template, values, fields) for template in (self.query, self.headers))
        return Call(
            self.url,
            headers={"Accept": "application/json", "User-Agent": agent, **headers},
            method="GET",
            query={name: value for name, value in query.items() if value},
            secrets=tuple(values.values()),
        )

    def results_in(self, body: bytes) -> list[SearchResult]:
        """Return the results in a reply, in order; results without an image URL are left out.

        Raises:
            ValueError: the reply is not JSON, or holds an error message of the service.
        """
        try:
            content = json.loads(body)
        except RecursionError as error:
            raise ValueError("the reply is JSON that is nested too deeply") from error
        if message := at(self.error, content):
            raise ValueError(_plain(message))
        rows = at(self.results, content)
        return [self._result(row) for row in rows if at(self.image, row)] if isinstance(rows, list) else []

    def _result(self, row: Any) -> SearchResult:
        name, url = _plain(at(self.licence, row)), _plain(at(self.licence_url, row))
        return SearchResult(
            image=str(at(self.image, row)),
            source_page=_plain(at(self.source_page, row)),
            title=_plain(at(self.title, row)),
            creator=_plain(at(self.creator, row)),
            licence=licence_code(name, url),
            licence_name=name,
            licence_url=url,
        )


def search_of(name: str, *, config: Path | None, endpoint: str | None) -> Search:
    """Return the record of a source.

    Args:
        name: a key of ``SOURCES``, or ``http``.
        config: for ``http``: a TOML file with the fields of ``Search``.
        endpoint: a URL to use in place of the service's own; it must speak the same protocol.

    Raises:
        ConfigError: the file cannot be read or is not valid, or the service has ended.
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
        problems = [f"{'.'.join(map(str, each['loc']))} {each['msg']}".strip() for each in error.errors()]
        raise ConfigError(f"the search {config or name} is not valid: {'; '.join(problems)}") from error
    if search.ends is not None and search.ends <= date.today() and endpoint is None:
        raise ConfigError(f"{search.host} ended this service on {search.ends}: choose another --source")
    return search


def hosts_of(found: Iterable[SearchResult]) -> set[str]:
    """Return the hosts, with ports if given, of the results' images."""
    hosts = set()
    for result in found:
        with suppress(ValueError):
            parts = urlsplit(result.image)
            hosts |= {parts.netloc.lower()} if parts.scheme in ("http", "https") else set()
    return hosts


def _plain(value: Any) -> str:
    """Convert a field to one line of text without markup."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return " ".join(unescape(_TAG.sub(" ", text)).split())[:_MAX_FIELD]


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
    note="without a token; with OPENVERSE_TOKEN 10,000 searches per day. Its terms forbid scraping the catalogue",
)
_OPENVERSE_REGISTERED = _OPENVERSE.model_copy(
    update={
        "headers": {"Authorization": "Bearer ${OPENVERSE_TOKEN}"}, "count": 50, "most": 1000, "rate": 1.0,
        "per_day": 10_000, "note": "the token expires after hours. Its terms forbid scraping the catalogue",
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
        note="one request at a time; images at most 1280 pixels wide",
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
        note="closed to new customers, ends on 2027-01-01; states no licences; at most 100 results per search",
    ),
}  # fmt: skip
