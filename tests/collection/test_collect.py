"""Collecting photos from fake services on loopback: selection, licences, credits, and no repeated downloads."""

import csv
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


def agreed(plan):
    return True


class Web:
    """A fake search service and the fake host of its images."""

    def __init__(self, service: str = "openverse", **answers: str) -> None:
        self.service = service
        self.pictures = {f"/{number}.jpg": random_photo(number) for number in range(30)}
        self.paths = {"nurse": [f"/{number}.jpg" for number in range(10)]}
        self.images = FakeServer(lambda request: self._image(request.path))
        self.search = FakeServer(ImageSearch(service, self._addresses, **answers))

    def __enter__(self):
        self.images.__enter__()
        self.search.__enter__()
        return self

    def __exit__(self, *error):
        self.images.__exit__(*error)
        self.search.__exit__(*error)

    def _addresses(self, text):
        return [path if "://" in path else self.images.url + path for path in self.paths.get(text, [])]

    def _image(self, path):
        found = self.pictures.get(path)
        if isinstance(found, Response):
            return found
        return Response(200, found, {"Content-Type": "image/jpeg"}) if found else Response(404)

    @property
    def downloads(self):
        return Counter(one.path for one in self.images.requests if one.path != "/robots.txt")

    def wanted(self, *queries: Query, **changes) -> CollectionRequest:
        host = self.images.url.removeprefix("http://")
        usual = {"per_keyword": 5, "licences": ("by",), "contact": "me@example.org"}
        limits = DownloadLimits(private=frozenset([host]), per_second=1000, seconds=3, most_bytes=100_000)
        search = search_of(self.service, config=None, endpoint=self.search.url)
        search = search.model_copy(update={"rate": 10.0})
        settings = {"limits": limits} | usual | changes
        return CollectionRequest(queries or (Query("nurse"),), search, self.service, **settings)


@pytest.fixture
def web():
    with Web() as found:
        yield found


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("service", PER_PAGE)
def test_each_service_gives_a_manifest_with_credits_that_audits_take(service, tmp_path, monkeypatch):
    monkeypatch.setenv("GOOGLE_SEARCH_KEY", "a-key-of-nobody")
    monkeypatch.setenv("GOOGLE_SEARCH_ENGINE", "an-engine")
    licences = () if service == "google" else ("by",)
    with Web(service) as web:
        found = collect(web.wanted(licences=licences), tmp_path, consent=agreed)
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


def test_nothing_is_sent_without_consent_and_the_plan_counts_what_is_known(web, tmp_path):
    with pytest.raises(PlanError, match="not confirmed"):
        collect(web.wanted(), tmp_path, consent=lambda plan: False)
    assert not web.search.requests
    assert not web.images.requests
    collect(web.wanted(), tmp_path, consent=agreed)
    plan = plan_of(web.wanted(per_keyword=20), tmp_path)
    assert (plan.calls, plan.known) == (0, 1)


def test_google_is_priced_before_it_is_called(monkeypatch, tmp_path):
    monkeypatch.setenv("GOOGLE_SEARCH_KEY", "k" * 20)
    monkeypatch.setenv("GOOGLE_SEARCH_ENGINE", "e" * 20)
    search = search_of("google", config=None, endpoint="http://127.0.0.1:9")
    plan = plan_of(
        CollectionRequest([Query(f"job {n}") for n in range(774)], search, "google", per_keyword=250), tmp_path
    )
    assert (plan.calls, plan.photos) == (7740, 77400)
    assert plan.usd == pytest.approx((7740 - 100) * 0.005)


def test_a_service_that_names_no_licence_is_only_searched_with_any(monkeypatch, tmp_path):
    search = search_of("google", config=None, endpoint="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="--licence any"):
        collect(CollectionRequest([Query("nurse")], search, "google", licences=("by",)), tmp_path, consent=agreed)


def test_a_missing_key_is_named_before_anything_is_sent(monkeypatch, tmp_path):
    monkeypatch.delenv("GOOGLE_SEARCH_KEY", raising=False)
    search = search_of("google", config=None, endpoint="http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="GOOGLE_SEARCH"):
        collect(CollectionRequest([Query("nurse")], search, "google"), tmp_path, consent=agreed)


def test_the_same_command_again_fetches_nothing(web, tmp_path):
    collect(web.wanted(), tmp_path, consent=agreed)
    before = (len(web.search.requests), len(web.images.requests), (tmp_path / "manifest.csv").read_bytes())
    collect(web.wanted(), tmp_path, consent=agreed)
    assert (len(web.search.requests), len(web.images.requests), (tmp_path / "manifest.csv").read_bytes()) == before


def test_more_photos_are_added_to_those_that_are_there(web, tmp_path):
    collect(web.wanted(), tmp_path, consent=agreed)
    found = collect(web.wanted(per_keyword=8), tmp_path, consent=agreed)
    assert found.photos == 8
    assert set(web.downloads.values()) == {1}


def test_duplicates_and_near_duplicates_are_left_out_and_named(web, tmp_path):
    web.pictures["/copy.jpg"] = web.pictures["/0.jpg"]
    web.pictures["/large.jpg"] = random_photo(0, size=(256, 256))
    web.paths["nurse"] = ["/0.jpg", "/copy.jpg", "/large.jpg", "/1.jpg", "/0.jpg"]
    web.paths["female nurse"] = ["/1.jpg", "/2.jpg"]
    found = collect(web.wanted(Query("nurse"), Query("nurse", "female")), tmp_path, consent=agreed)
    manifest = rows(tmp_path / "manifest.csv")
    assert [(row["keyword"], row["modifier"]) for row in manifest] == [
        ("nurse", "none"), ("nurse", "none"), ("nurse", "female"),
    ]  # fmt: skip
    assert json.loads(manifest[1]["also_found_by"]) == [
        {"keyword": "nurse", "modifier": "female", "soc": "", "rank": 1}
    ]
    shared = {("ok", "found by an earlier search"): 1}
    assert found.counts == {("ok", ""): 3, ("excluded", "duplicate"): 2, ("excluded", "near-duplicate"): 1} | shared
    assert found.short == 2
    assert web.downloads["/1.jpg"] == 1


def test_a_photo_that_was_found_before_counts_towards_what_is_wanted_of_a_keyword(web, tmp_path):
    web.paths["pilot"] = ["/0.jpg", "/20.jpg", "/21.jpg"]
    found = collect(web.wanted(Query("nurse"), Query("pilot"), per_keyword=2), tmp_path, consent=agreed)
    assert (found.photos, found.short) == (3, 0)
    assert web.downloads["/21.jpg"] == 0


def test_near_duplicates_stay_where_they_are_wanted(web, tmp_path):
    web.pictures["/large.jpg"] = random_photo(0, size=(256, 256))
    web.paths["nurse"] = ["/0.jpg", "/large.jpg"]
    assert collect(web.wanted(near=-1), tmp_path, consent=agreed).photos == 2


def test_other_licences_are_left_out_and_not_downloaded(tmp_path):
    with Web("wikimedia", licence="CC BY-NC-ND 4.0") as web:
        found = collect(web.wanted(licences=("cc0",)), tmp_path, consent=agreed)
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
def test_hostile_files_are_refused_with_a_reason_and_the_next_result_is_taken(web, tmp_path, content, reason):
    big = isinstance(content, bytes) and len(content) > 100_000
    web.pictures["/bad.jpg"] = content
    web.pictures["/again.jpg"] = Response(302, b"", {"Location": "/again.jpg"})
    web.paths["nurse"] = ["/bad.jpg", "/1.jpg"]
    wanted = web.wanted(per_keyword=1)
    if big:
        limits = DownloadLimits(private=wanted.limits.private, per_second=1000, seconds=5, most_bytes=50_000_000)
        wanted = CollectionRequest(wanted.queries, wanted.search, "openverse", 1, ("by",), limits=limits)
    assert collect(wanted, tmp_path, consent=agreed).photos == 1
    results = rows(tmp_path / "results.csv")
    assert reason in results[0]["reason"]
    assert results[0]["status"] in ("failed", "excluded")
    assert results[1]["status"] == "ok"
    assert len(list((tmp_path / "photos").iterdir())) == 1


def test_robots_txt_is_kept_to(web, tmp_path):
    web.pictures["/robots.txt"] = Response(200, b"User-agent: *\nDisallow: /0\n", {"Content-Type": "text/plain"})
    found = collect(web.wanted(), tmp_path, consent=agreed)
    assert found.photos == 5
    assert web.downloads["/0.jpg"] == 0
    assert sum(one.path == "/robots.txt" for one in web.images.requests) == 1


def test_a_service_that_refuses_ends_the_work_and_what_is_there_stays(web, tmp_path):
    web.paths["male nurse"] = ["/7.jpg"]
    web.search.fault = lambda number: Response(401, {"detail": "the token has run out"}) if number > 1 else None
    found = collect(web.wanted(Query("nurse"), Query("nurse", "male")), tmp_path, consent=agreed)
    assert "the token has run out" in found.stopped
    assert len(rows(tmp_path / "manifest.csv")) == 5
    web.search.fault = lambda number: None
    found = collect(web.wanted(Query("nurse"), Query("nurse", "male")), tmp_path, consent=agreed)
    assert not found.stopped
    assert len(rows(tmp_path / "manifest.csv")) == 6


def test_what_failed_for_now_is_tried_by_the_next_command_and_an_earlier_manifest_is_not_shortened(web, tmp_path):
    web.pictures["/robots.txt"] = Response(503)
    assert collect(web.wanted(), tmp_path, consent=agreed).photos == 0
    assert not web.downloads
    web.pictures["/robots.txt"] = Response(404)
    assert collect(web.wanted(), tmp_path, consent=agreed).photos == 5

    @contextmanager
    def watch(stage, total):
        def advance(count, note=""):
            raise KeyboardInterrupt

        yield advance

    with pytest.raises(KeyboardInterrupt):
        collect(web.wanted(), tmp_path, consent=agreed, watch=watch)
    assert len(rows(tmp_path / "manifest.csv")) == 5


def test_a_page_after_the_last_one_ends_a_search(web, tmp_path):
    web.paths["nurse"] = [f"/{number}.jpg" for number in range(20)]
    web.search.fault = lambda number: Response(404, {"detail": "Invalid page."}) if number > 1 else None
    found = collect(web.wanted(per_keyword=30), tmp_path, consent=agreed)
    assert (found.photos, found.stopped, found.short) == (20, "", 1)


def test_a_folder_is_of_one_collection_which_may_grow(web, tmp_path):
    web.paths["pilot"] = ["/20.jpg"]
    collect(web.wanted(), tmp_path / "out", consent=agreed)
    with pytest.raises(ConfigError, match="it also searched for 'nurse'"):
        collect(web.wanted(Query("pilot")), tmp_path / "out", consent=agreed)
    with pytest.raises(ConfigError, match="another collection"):
        collect(web.wanted(licences=("by", "cc0")), tmp_path / "out", consent=agreed)
    assert collect(web.wanted(Query("nurse"), Query("pilot")), tmp_path / "out", consent=agreed).photos == 6
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match="not empty"):
        collect(web.wanted(), tmp_path / "mine", consent=agreed)


def test_photos_of_a_folder_by_keyword(tmp_path):
    (tmp_path / "mine" / "nurse" / "female").mkdir(parents=True)
    for number in range(3):
        (tmp_path / "mine" / "nurse" / f"{number}.jpg").write_bytes(random_photo(number))
    (tmp_path / "mine" / "nurse" / "female" / "a.jpg").write_bytes(random_photo(9))
    wanted = CollectionRequest([Query("nurse"), Query("nurse", "female")], None, "folder", folder=tmp_path / "mine")
    assert collect(wanted, tmp_path / "out", consent=agreed).photos == 4


def test_any_rest_search_by_configuration(web, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "a-secret-of-mine")
    path = tmp_path / "search.toml"
    path.write_text(
        f'url = "{web.search.url}"\nresults = "results"\nimage = "url"\nlicence = "license"\ncount = 5\nrate = 10.0\n'
        'query = {q = "{query}", page = "{page}", page_size = "{count}"}\nheaders = {Authorization = "Key ${MY_KEY}"}\n'
    )
    search = search_of("http", config=path, endpoint=None)
    wanted = web.wanted()
    wanted = CollectionRequest(wanted.queries, search, "http", 7, ("by",), limits=wanted.limits)
    assert collect(wanted, tmp_path / "out", consent=agreed).photos == 7
    assert web.search.requests[0].headers["authorization"] == "Key a-secret-of-mine"
    assert not any(b"a-secret-of-mine" in file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())


def test_a_key_in_the_configuration_is_refused(tmp_path):
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
wanted = CollectionRequest([Query("nurse")], search, "openverse", 20, ("by",), limits=limits)
collect(wanted, Path({out!r}), consent=lambda plan: True)
"""


def test_a_killed_collection_goes_on_and_keeps_what_it_has(web, tmp_path):
    web.paths["nurse"] = [f"/{number}.jpg" for number in range(30)]
    slow = {path: Response(200, content, seconds=0.05) for path, content in web.pictures.items()}
    web.pictures = slow
    code = CHILD.format(
        path=sys.path, search=web.search.url, host=web.images.url.removeprefix("http://"), out=str(tmp_path)
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    end = time.monotonic() + 60
    while len(web.downloads) < 6 and time.monotonic() < end:
        time.sleep(0.01)
    child.kill()
    child.wait()
    there = len(list((tmp_path / "photos").glob("*.jpg")))
    assert 0 < there < 20
    collect(web.wanted(per_keyword=20), tmp_path, consent=agreed)
    assert len(rows(tmp_path / "manifest.csv")) == 20
    # Only what was on its way when the process ended is fetched again.
    assert sum(web.downloads.values()) - len(web.downloads) <= 4
    assert len(web.search.requests) == 1
    assert all(json.loads(line)["url"] for line in (tmp_path / "downloads.jsonl").read_text().splitlines() if line)


@pytest.mark.parametrize("address", ["http://169.254.169.254/latest/meta-data", "http://127.0.0.1/a.jpg", "ftp://x/a"])
def test_a_search_that_names_private_addresses_is_not_followed(web, tmp_path, address):
    web.paths["nurse"] = [address, "/1.jpg"]
    assert collect(web.wanted(per_keyword=1), tmp_path, consent=agreed).photos == 1
    refused = rows(tmp_path / "results.csv")[0]
    assert refused["status"] == "failed"
    assert "private or special network" in refused["reason"] or "not an address of http" in refused["reason"]


def test_the_command_shows_the_plan_and_writes_the_manifest(web, tmp_path, invoke):
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
