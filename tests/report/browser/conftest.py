"""Fixtures that open the report in the browser of ``tests/conftest.py``."""

from dataclasses import dataclass, field
from typing import Any

import pytest

DESKTOP = {"width": 1280, "height": 900}


@dataclass
class Visit:
    """An open page with its network requests and console messages."""

    page: Any
    requests: list[str] = field(default_factory=list)
    messages: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser, tmp_path):
    """Open HTML in a page. The test fails if the page makes a request or prints to the console."""
    visits, contexts = [], []

    def open_page(html, *, viewport=DESKTOP, **options):
        file = tmp_path / f"page-{len(visits)}.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
        visited = Visit(context.new_page())
        visited.page.on("request", lambda request: visited.requests.append(request.url))
        visited.page.on("console", lambda message: visited.messages.append(message.text))
        visited.page.on("pageerror", lambda error: visited.messages.append(str(error)))
        visited.page.on("dialog", lambda dialog: (visited.messages.append(dialog.message), dialog.dismiss()))
        visited.page.goto(file.as_uri())
        contexts.append(context)
        visits.append(visited)
        return visited.page

    yield open_page
    for context in contexts:
        context.close()
    for visited in visits:
        assert [url for url in visited.requests[1:] if not url.startswith("data:")] == []
        assert visited.messages == []


@pytest.fixture
def contrast():
    """Measure the lowest contrast (WCAG 2) of a page's visible text; return it with the text."""
    return lambda page: page.evaluate(CONTRAST)


# The colour of each element that has text, against the nearest background that is not transparent.
CONTRAST = """() => {
  const channel = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = parts(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  let worst = { ratio: 21, words: "" };
  for (const e of document.querySelectorAll("body *")) {
    const words = [...e.childNodes].filter((n) => n.nodeType === 3).map((n) => n.data.trim()).join(" ").trim();
    if (!words || !e.checkVisibility() || e.closest("script, style, title, desc, noscript, .aside")) continue;
    const style = getComputedStyle(e);
    const colour = parts(e instanceof SVGElement ? style.fill : style.color);
    const [a, b] = [luminance(colour), luminance(ground(e))].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < worst.ratio) worst = { ratio, words };
  }
  return worst;
}"""
