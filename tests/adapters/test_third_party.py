"""The example package of docs/adapters.md adds a classifier that is listed and audited."""

import json
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from fakes.http_server import FakeServer, Request, Response
from typer.testing import CliRunner, Result
from unqueried_run import PHOTOS, STEPS, unqueried_run

import pipeline
from pipeline.cli.app import app

ROOT = Path(pipeline.__file__).parents[1]
PAGE = (ROOT / "docs" / "adapters.md").read_text(encoding="utf-8")
KEY = "planted-greenhouse-key"


def block(language: str, start: str) -> str:
    return next(part.split("```")[0] for part in PAGE.split(f"```{language}\n")[1:] if part.startswith(start))


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the installed package."""
    site = tmp_path_factory.mktemp("site")
    (site / "greenhouse.py").write_text(block("python", "# greenhouse.py"))
    project = tomllib.loads(block("toml", "# pyproject.toml"))["project"]
    record = site / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    record.mkdir()
    (record / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
    for group, entries in project["entry-points"].items():
        lines = "".join(f"{name} = {value}\n" for name, value in entries.items())
        (record / "entry_points.txt").write_text(f"[{group}]\n{lines}")
    return site


@pytest.fixture(scope="module")
def server() -> Iterator[FakeServer]:
    def tag(request: Request) -> Response:
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return Response(401, {"error": "who are you"})
        return Response(200, {"tags": [{"name": "plant", "percent": 80}, {"name": "pot", "percent": 12.5}]})

    with FakeServer(tag) as serving:
        yield serving


@pytest.fixture
def counterslope(site: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command line with the package installed, without tables and report."""
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("pipeline.stages.audit._estimate", lambda work, **_: None)

    def invoke(*words: str, key: str = KEY) -> Result:
        monkeypatch.setenv("GREENHOUSE_KEY", key)
        return CliRunner().invoke(app, words)

    return invoke


def test_example_is_short():
    assert len(block("python", "# greenhouse.py").splitlines()) < 60


def test_example_is_listed_and_described(counterslope):
    rows = {row["name"]: row for row in json.loads(counterslope("adapters", "--json").stdout)}
    assert rows["greenhouse"]["remote"]
    assert rows["greenhouse"]["usd_per_1000"] == 2.0
    response = counterslope("adapters", "info", "greenhouse", key="").stdout
    for part in (
        "keeps images for 24 hours",
        "GREENHOUSE_KEY",
        "another address than the service's",
        "up to 4,000,000",
    ):
        assert part in response


def test_doctor_names_refused_key_without_showing_it(counterslope, server):
    option = f"greenhouse.endpoint={server.url}"
    good = counterslope("adapters", "doctor", "greenhouse", "--adapter-option", option, "--yes")
    assert good.exit_code == 0, good.stdout + good.stderr
    assert "2 labels: plant 0.8, pot 0.125" in good.stdout
    words = ("adapters", "doctor", "greenhouse", "--adapter-option", option, "--yes", "--json")
    bad = counterslope(*words, key="a-wrong-secret")
    assert bad.exit_code == 1
    findings = {check["name"]: check["finding"] for check in json.loads(bad.stdout)["checks"]}
    assert "check GREENHOUSE_KEY" in findings["canary"]
    assert "a-wrong-secret" not in bad.stdout + bad.stderr
    assert KEY not in good.stdout + good.stderr


def test_doctor_without_consent_sends_no_portrait(counterslope, server):
    before = sum(request.method == "POST" for request in server.requests)
    done = counterslope("adapters", "doctor", "greenhouse", "--adapter-option", f"greenhouse.endpoint={server.url}")
    assert done.exit_code == 0
    assert "no portrait was sent" in done.stdout
    assert sum(request.method == "POST" for request in server.requests) == before


def test_example_is_audited(counterslope, server, tmp_path):
    run = unqueried_run(tmp_path / "run")
    endpoint = f"greenhouse.endpoint={server.url}"
    done = counterslope("query", str(run.folder), "--adapter", "greenhouse", "--adapter-option", endpoint, "--yes")
    assert done.exit_code == 0, done.stderr
    labels = pq.read_table(tmp_path / "run" / "labels.parquet").to_pylist()
    assert {(row["adapter"], row["label"], row["score"]) for row in labels} == {
        ("greenhouse", "plant", 0.8), ("greenhouse", "pot", 0.125),
    }  # fmt: skip
    assert len(labels) == PHOTOS * STEPS * 2
    assert all(KEY.encode() not in path.read_bytes() for path in (tmp_path / "run").rglob("*") if path.is_file())
