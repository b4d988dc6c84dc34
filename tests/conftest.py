"""Fixtures of all tests: seeded randomness, the command line, portraits, and a browser.

The browser is the system's chromium, driven by Playwright. Where either is missing, its tests are skipped; with
BROWSER_TESTS=required they fail.
"""

import os
import shutil
import sys

import pytest
from hypothesis import settings

settings.register_profile("suite", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("suite")


# Slow test files are started first, so that no worker process of the suite has to wait for another at the end.
SLOW = {
    f"test_{name}.py"
    for name in (
        "examples", "object_store", "workers_and_kills", "ray_engine", "interactions_of_pixels", "killed_processes",
        "audit", "outside_editor", "large_photos", "planted_truth", "picture_measures", "generate_command",
    )
}  # fmt: skip


def pytest_collection_modifyitems(items):
    items.sort(key=lambda item: item.path.name not in SLOW)


@pytest.fixture(autouse=True)
def _seeded():
    # torch is not imported here, so that tests that do not need it stay fast.
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


@pytest.fixture
def invoke(monkeypatch):
    """Run the command line with arguments of any type; the terminal is wide enough for messages on one line."""
    from typer.testing import CliRunner

    from pipeline.cli.app import app

    monkeypatch.setenv("COLUMNS", "200")
    return lambda *arguments: CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture
def error_of(invoke):
    """The output of a command line that ends with exit code 2, on one line."""

    def run(*arguments):
        result = invoke(*arguments)
        assert result.exit_code == 2, (result.output, result.exception)
        return " ".join(result.output.split())

    return run


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory):
    """Create a folder with ``count`` portraits of the embedded sample, every seventh by default."""
    from pipeline.photos import SAMPLE

    def make(count, *, every=7):
        folder = tmp_path_factory.mktemp("portraits")
        for path in sorted(SAMPLE.glob("*.jpg"))[::every][:count]:
            shutil.copy(path, folder)
        return folder

    return make


@pytest.fixture(scope="module")
def browser():
    """One chromium per module, as Playwright's event loop must not overlap the loops of other tests."""
    executable = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError:
        _skip("Playwright's Python package")
    if executable is None:
        _skip("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()


def _skip(what):
    message = f"the browser tests need {what}, which this machine does not have"
    if os.environ.get("BROWSER_TESTS") == "required":
        pytest.fail(message)
    pytest.skip(message)
