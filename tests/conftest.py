"""What every test shares: seeded randomness, and no time limits for single examples (machines differ in speed).

And a real browser, Debian's chromium driven by Playwright. Without either its tests are skipped by name; with
BROWSER_TESTS=required that is a failure.
"""

import os
import shutil
import sys

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")


# Few tests that take long, begun first: begun last, one process of the suite would wait for the other.
LONG = {
    f"test_{name}.py"
    for name in (
        "examples", "object_store", "workers_and_kills", "ray_engine", "interactions_of_pixels", "killing", "audit",
        "outside_editor", "large_photos", "planted_truth", "picture_measures", "generate_command",
    )
}  # fmt: skip


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in LONG)


@pytest.fixture(autouse=True)
def _seeded():
    # Only where a test's own imports have loaded torch: light tests stay light.
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def invoke(monkeypatch):
    """The command line: words of any kind in, its result out; a terminal so wide that no message is broken."""
    from typer.testing import CliRunner

    from pipeline.cli.app import app

    monkeypatch.setenv("COLUMNS", "200")
    return lambda *words: CliRunner().invoke(app, list(map(str, words)))


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory):
    """Makes folders with so many portraits of the embedded sample, taken from all over it."""
    from pipeline.photos import SAMPLE

    def make(count, *, every=7):
        folder = tmp_path_factory.mktemp("portraits")
        for path in sorted(SAMPLE.glob("*.jpg"))[::every][:count]:
            shutil.copy(path, folder)
        return folder

    return make


@pytest.fixture(scope="module")
def browser():
    """One chromium for a module: Playwright's event loop must not outlive it and meet other tests' loops."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        _absent("Playwright's Python package")
    if executable is None:
        _absent("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def _absent(what):
    lacking = f"the browser tests need {what}, which this machine does not have"
    if os.environ.get("BROWSER_TESTS") == "required":
        pytest.fail(lacking)
    pytest.skip(lacking)
