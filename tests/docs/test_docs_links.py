"""Relative links of the documentation lead to existing files and headings."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("models/weights/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"`((?:scripts|tests|pipeline|models|adapters)/[\w/]+\.\w+)`")


def prose(page):
    return FENCED.sub("", page.read_text(encoding="utf-8"))


def anchors(page):
    """The anchors of headings on GitHub: lower case, without punctuation, hyphens for spaces."""
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_links_lead_to_files_and_headings(page):
    for link in LINK.findall(prose(page)):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name} links to {link}"
        if heading:
            assert heading in anchors(target), f"{page.name} links to {link}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_named_files_exist(page):
    for name in FILE.findall(prose(page)):
        assert (ROOT / name).exists(), f"{page.name} names {name}"


def test_index_links_every_page():
    linked = set(LINK.findall(prose(ROOT / "docs" / "README.md")))
    assert {page.name for page in (ROOT / "docs").glob("*.md")} - {"README.md"} <= linked
