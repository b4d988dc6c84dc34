"""Collection of photos from fake services: selection, licences, credits, and no repeated downloads."""

import csv
import dataclasses
import json
import subprocess
import sys
import time
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest
from fakes.http_server import FakeServer, Response
from fakes.image_search import PER_PAGE, ImageSearch, random_photo

from pipeline.collection.collect import collect
from pipeline.collection.download import DownloadLimits
from pipeline.collection.keywords import Query
from pipeline.collection.plan import CollectionRequest, plan_of
from pipeline.collection.sources import search_of
from pipeline.config.options import ConfigError
from pipeline.photos.listing import find_photos
from pipeline.querying.plan import PlanError


def agree(plan):
    return True


class Web:
    """A fake search service, and the host of its images (path -> content or response)."""

    def __init__(self, service: str = "openverse", **options: str) -> None:
        self.service = service
        self.contents = {f"/{number}.jpg": random_photo(number) for number in range(30)}
        self.paths = {"nurse": [f"/{number}.jpg" for number in range(10)]}
        self.images = FakeServer(lambda request: self._image(request.path))
        self.search = FakeServer(ImageSearch(service, self._urls, **options))

    def __enter__(self):
        self.images.__enter__()
        self.search.__enter__()
        return self

    def __exit__(self, *error):
        self.images.__exit__(*error)
        self.search.__exit__(*error)

    def _urls(self, text):
        return [path if "://" in path else self.images.url + path for path in self.paths.get(text, [])]

    def _image(self, path):
        found = self.contents.get(path)
        if isinstance(found, Response):
            return found
        return Response(200, found, {"Content-Type": "image/jpeg"}) if found else Response(404)

    @property
    def downloads(self):
        return Counter(request.path for request in self.images.requests if request.path != "/robots.txt")

    def request(self, *queries: Query, **changes) -> CollectionRequest:
        host = self.images.url.removeprefix("http://")
        limits = DownloadLimits(private=frozenset([host]), per_second=1000, seconds=3, most_bytes=100_000)
        search = search_of(self.service, config=None, endpoint=self.search.url).model_copy(update={"rate": 10.0})
        settings = {"limits": limits, "per_keyword": 5, "licences": ("by",), "contact": "me@example.org"} | changes
        return CollectionRequest(queries or (Query("nurse"),), search, self.service, **settings)


@pytest.fixture
def web():
    with Web() as web:
        yield web


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("service", PER_PAGE)
def test_each_service_gives_a_manifest_with_credits(service, tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_SEARCH_KEY", "a-key-of-nobody")
    monkeypatch.setenv("GOOGLE_SEARCH_ENGINE", "an-engine")
    licences = () if service == "google" else ("by",)
    with Web(service) as web:
        found = collect(web.request(licences=licences), tmp_path, consent=agree)
        assert "counterslope/" in web.search.requests[0].headers["user-agent"]
    assert found.photos == 5
    manifest = rows(tmp_path / "manifest.csv")
    assert [row["rank"] for row in manifest] == ["1", "2", "3", "4", "5"]
    assert {row["keyword"] for row in manifest} == {"nurse"}
    assert all((tmp_path / row["photo"]).is_file() for row in manifest)
    assert len(find_photos([tmp_path / "manifest.csv"])) == 5
    credits = (tmp_path / "ATTRIBUTION.md").read_text()
    if service == "google":
        assert {row["licence"] for row in manifest} == {"not stated"}
    else:
        assert {row["licence"] for row in manifest} == {"by"}
        assert "Ann O." in credits
        assert "<b>" not in credits


def test_search_needs_consent_and_plan_counts_known_searches(web, tmp_path):
    with pytest.raises(PlanError, match="not confirmed"):
        collect(web.request(), tmp_path, consent=lambda plan: False)
    assert not web.search.requests
    assert not web.images.requests
    collect(web.request(), tmp_path, consent=agree)
    plan = plan_of(web.request(per_keyword=20), tmp_path)
    assert (plan.calls, plan.known) == (0, 1)


def test_plan_prices_google_searches(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_SEARCH_KEY", "k" * 20)
    monkeypatch.setenv("GOOGLE_SEARCH_ENGINE", "e" * 20)
    search = search_of("google", config=None, endpoint="http://127.0.0.1:9")
    queries = [Query(f"job {n}") for n in range(774)]
    plan = plan_of(CollectionRequest(queries, search, "google", per_keyword=250), tmp_path)
    assert (plan.calls, plan.photos) == (7740, 77400)
    assert plan.usd == pytest.approx((7740 - 100) * 0.005)


@pytest.mark.parametrize(
    ("licences", "message"), [(("by",), "--licence any"), ((), "GOOGLE_SEARCH")], ids=["licence", "key"]
)
def test_google_needs_licence_any_and_a_key(monkeypatch, tmp_path, licences, message):
    monkeypatch.delenv("GOOGLE_SEARCH_KEY", raising=False)
    search = search_of("google", config=None, endpoint="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match=message):
        collect(CollectionRequest([Query("nurse")], search, "google", licences=licences), tmp_path, consent=agree)


def test_second_collection_sends_no_request(web, tmp_path):
    collect(web.request(), tmp_path, consent=agree)
    before = len(web.search.requests), len(web.images.requests), (tmp_path / "manifest.csv").read_bytes()
    collect(web.request(), tmp_path, consent=agree)
    assert before == (len(web.search.requests), len(web.images.requests), (tmp_path / "manifest.csv").read_bytes())


def test_larger_collection_keeps_earlier_photos(web, tmp_path):
    collect(web.request(), tmp_path, consent=agree)
    found = collect(web.request(per_keyword=8), tmp_path, consent=agree)
    assert found.photos == 8
    assert set(web.downloads.values()) == {1}


def test_duplicates_and_near_duplicates_are_excluded(web, tmp_path):
    web.contents["/copy.jpg"] = web.contents["/0.jpg"]
    web.contents["/large.jpg"] = random_photo(0, size=(256, 256))
    web.paths["nurse"] = ["/0.jpg", "/copy.jpg", "/large.jpg", "/1.jpg", "/0.jpg"]
    web.paths["female nurse"] = ["/1.jpg", "/2.jpg"]
    found = collect(web.request(Query("nurse"), Query("nurse", "female")), tmp_path, consent=agree)
    manifest = rows(tmp_path / "manifest.csv")
    assert [row["keyword"] for row in manifest] == ["nurse"] * 3
    assert [row["modifier"] for row in manifest] == ["none", "none", "female"]
    also_found_by = json.loads(manifest[1]["also_found_by"])
    assert also_found_by == [{"keyword": "nurse", "modifier": "female", "soc": "", "rank": 1}]
    shared = {("ok", "found by an earlier search"): 1}
    assert found.counts == {("ok", ""): 3, ("excluded", "duplicate"): 2, ("excluded", "near-duplicate"): 1} | shared
    assert found.short == 2
    assert web.downloads["/1.jpg"] == 1


def test_photo_of_an_earlier_search_counts_for_its_keyword(web, tmp_path):
    web.paths["pilot"] = ["/0.jpg", "/20.jpg", "/21.jpg"]
    found = collect(web.request(Query("nurse"), Query("pilot"), per_keyword=2), tmp_path, consent=agree)
    assert (found.photos, found.short) == (3, 0)
    assert web.downloads["/21.jpg"] == 0


def test_near_duplicates_can_be_kept(web, tmp_path):
    web.contents["/large.jpg"] = random_photo(0, size=(256, 256))
    web.paths["nurse"] = ["/0.jpg", "/large.jpg"]
    assert collect(web.request(near=-1), tmp_path, consent=agree).photos == 2


def test_photos_with_other_licences_are_not_downloaded(tmp_path):
    with Web("wikimedia", licence="CC BY-NC-ND 4.0") as web:
        found = collect(web.request(licences=("cc0",)), tmp_path, consent=agree)
        assert found.photos == 0
        assert not web.images.requests


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (Response(200, b"<html>sorry</html>", {"Content-Type": "image/jpeg"}), "not an image"),
        (random_photo(1, size=(9000, 6000), format="PNG"), "oversized"),
        (random_photo(1)[:400], "truncated"),
        (Response(200, b"\xff\xd8\xff" + bytes(200_000)), "longer than 100000 bytes"),
        (Response(404), "HTTP 404"),
        (Response(302, b"", {"Location": "http://169.254.169.254/latest/meta-data/"}), "not a host that the search"),
        (Response(302, b"", {"Location": "file:///etc/passwd"}), "not an address of http"),
        (Response(302, b"", {"Location": "/again.jpg"}), "redirects"),
    ],
)  # fmt: skip
def test_hostile_file_is_refused_and_replaced_by_the_next_result(web, tmp_path, content, reason):
    web.contents["/bad.jpg"] = content
    web.contents["/again.jpg"] = Response(302, b"", {"Location": "/again.jpg"})
    web.paths["nurse"] = ["/bad.jpg", "/1.jpg"]
    request = web.request(per_keyword=1)
    if reason == "oversized":
        limits = dataclasses.replace(request.limits, seconds=5, most_bytes=50_000_000)
        request = dataclasses.replace(request, limits=limits)
    assert collect(request, tmp_path, consent=agree).photos == 1
    results = rows(tmp_path / "results.csv")
    assert reason in results[0]["reason"]
    assert results[0]["status"] in ("failed", "excluded")
    assert results[1]["status"] == "ok"
    assert len(list((tmp_path / "photos").iterdir())) == 1


def test_robots_txt_is_obeyed(web, tmp_path):
    web.contents["/robots.txt"] = Response(200, b"User-agent: *\nDisallow: /0\n", {"Content-Type": "text/plain"})
    found = collect(web.request(), tmp_path, consent=agree)
    assert found.photos == 5
    assert web.downloads["/0.jpg"] == 0
    assert sum(request.path == "/robots.txt" for request in web.images.requests) == 1


def test_refused_search_stops_and_keeps_the_manifest(web, tmp_path):
    web.paths["male nurse"] = ["/7.jpg"]
    web.search.fault = lambda number: Response(401, {"detail": "the token has run out"}) if number > 1 else None
    found = collect(web.request(Query("nurse"), Query("nurse", "male")), tmp_path, consent=agree)
    assert "the token has run out" in found.stopped
    assert len(rows(tmp_path / "manifest.csv")) == 5
    web.search.fault = lambda number: None
    found = collect(web.request(Query("nurse"), Query("nurse", "male")), tmp_path, consent=agree)
    assert not found.stopped
    assert len(rows(tmp_path / "manifest.csv")) == 6


def test_downloads_refused_for_now_are_retried(web, tmp_path):
    web.contents["/robots.txt"] = Response(503)
    assert collect(web.request(), tmp_path, consent=agree).photos == 0
    assert not web.downloads
    web.contents["/robots.txt"] = Response(404)
    assert collect(web.request(), tmp_path, consent=agree).photos == 5


def test_interrupted_collection_keeps_the_manifest(web, tmp_path):
    collect(web.request(), tmp_path, consent=agree)

    @contextmanager
    def watch(stage, total):
        def advance(count, note=""):
            raise KeyboardInterrupt

        yield advance

    with pytest.raises(KeyboardInterrupt):
        collect(web.request(), tmp_path, consent=agree, watch=watch)
    assert len(rows(tmp_path / "manifest.csv")) == 5


def test_missing_result_page_ends_the_search(web, tmp_path):
    web.paths["nurse"] = [f"/{number}.jpg" for number in range(20)]
    web.search.fault = lambda number: Response(404, {"detail": "Invalid page."}) if number > 1 else None
    found = collect(web.request(per_keyword=30), tmp_path, consent=agree)
    assert (found.photos, found.stopped, found.short) == (20, "", 1)


def test_folder_belongs_to_one_collection(web, tmp_path):
    web.paths["pilot"] = ["/20.jpg"]
    collect(web.request(), tmp_path / "out", consent=agree)
    with pytest.raises(ConfigError, match="it also searched for 'nurse'"):
        collect(web.request(Query("pilot")), tmp_path / "out", consent=agree)
    with pytest.raises(ConfigError, match="another collection"):
        collect(web.request(licences=("by", "cc0")), tmp_path / "out", consent=agree)
    assert collect(web.request(Query("nurse"), Query("pilot")), tmp_path / "out", consent=agree).photos == 6
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="not empty"):
        collect(web.request(), tmp_path / "mine", consent=agree)


def test_photos_are_collected_from_a_folder(tmp_path):
    (tmp_path / "mine" / "nurse" / "female").mkdir(parents=True)
    for number in range(3):
        (tmp_path / "mine" / "nurse" / f"{number}.jpg").write_bytes(random_photo(number))
    (tmp_path / "mine" / "nurse" / "female" / "a.jpg").write_bytes(random_photo(9))
    request = CollectionRequest([Query("nurse"), Query("nurse", "female")], None, "folder", folder=tmp_path / "mine")
    assert collect(request, tmp_path / "out", consent=agree).photos == 4


def test_rest_search_is_configured_by_file(web, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "a-secret-of-mine")
    path = tmp_path / "search.toml"
    path.write_text(
        f'url = "{web.search.url}"\nresults = "results"\nimage = "url"\nlicence = "license"\ncount = 5\nrate = 10.0\n'
        'query = {q = "{query}", page = "{page}", page_size = "{count}"}\nheaders = {Authorization = "Key ${MY_KEY}"}\n'
    )
    search = search_of("http", config=path, endpoint=None)
    request = dataclasses.replace(web.request(per_keyword=7), search=search, source="http")
    assert collect(request, tmp_path / "out", consent=agree).photos == 7
    assert web.search.requests[0].headers["authorization"] == "Key a-secret-of-mine"
    assert not any(b"a-secret-of-mine" in file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())


def test_key_in_the_configuration_is_refused(tmp_path):
    path = tmp_path / "search.toml"
    path.write_text(
        'url = "https://x.org"\nresults = "r"\nimage = "u"\n'
        '[query]\nq = "{query}"\napi_key = "sk-0123456789abcdef0123"\n'
    )
    with pytest.raises(ConfigError, match="environment variable"):
        search_of("http", config=path, endpoint=None)


CHILD = """
import sys
sys.path[:] = {path!r}
from pathlib import Path
from pipeline.collection.collect import collect
from pipeline.collection.download import DownloadLimits
from pipeline.collection.keywords import Query
from pipeline.collection.plan import CollectionRequest
from pipeline.collection.sources import search_of
search = search_of("openverse", config=None, endpoint={search!r})
limits = DownloadLimits(private=frozenset([{host!r}]), per_second=1000)
request = CollectionRequest([Query("nurse")], search, "openverse", 20, ("by",), limits=limits)
collect(request, Path({out!r}), consent=lambda plan: True)
"""


def test_killed_collection_is_continued(web, tmp_path):
    web.paths["nurse"] = [f"/{number}.jpg" for number in range(30)]
    web.contents = {path: Response(200, content, seconds=0.05) for path, content in web.contents.items()}
    host = web.images.url.removeprefix("http://")
    code = CHILD.format(path=sys.path, search=web.search.url, host=host, out=str(tmp_path))
    child = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 60
    while len(web.downloads) < 6 and time.monotonic() < end:
        time.sleep(0.01)
    child.kill()
    child.wait()
    assert 0 < len(list((tmp_path / "photos").glob("*.jpg"))) < 20
    collect(web.request(per_keyword=20), tmp_path, consent=agree)
    assert len(rows(tmp_path / "manifest.csv")) == 20
    # Only downloads that were in flight at the kill are repeated.
    assert sum(web.downloads.values()) - len(web.downloads) <= 4
    assert len(web.search.requests) == 1
    assert all(json.loads(line)["url"] for line in (tmp_path / "downloads.jsonl").read_text().splitlines() if line)


@pytest.mark.parametrize("address", ["http://169.254.169.254/latest/meta-data", "http://127.0.0.1/a.jpg", "ftp://x/a"])
def test_private_addresses_of_results_are_refused(web, tmp_path, address):
    web.paths["nurse"] = [address, "/1.jpg"]
    assert collect(web.request(per_keyword=1), tmp_path, consent=agree).photos == 1
    refused = rows(tmp_path / "results.csv")[0]
    assert refused["status"] == "failed"
    assert "private or special network" in refused["reason"] or "not an address of http" in refused["reason"]


def test_command_shows_the_plan_and_writes_the_manifest(web, tmp_path, invoke):
    (tmp_path / "jobs.csv").write_text("keyword\nnurse\n")
    words = [
        "collect", tmp_path / "jobs.csv", "--out", tmp_path / "out", "--endpoint", web.search.url,
        "--per-keyword", "3", "--allow-host", web.images.url.removeprefix("http://"), "--host-rate", "20", "-q",
    ]  # fmt: skip
    done = invoke(*words)
    assert done.exit_code == 2
    assert "not confirmed" in done.output
    assert "1 search term, at most 3 photos" in done.stderr
    done = invoke(*words, "--yes")
    assert done.exit_code == 0, done.output
    assert len(rows(tmp_path / "out" / "manifest.csv")) == 3
    assert invoke(*words, "--yes", "--licence", "mine").exit_code == 2
