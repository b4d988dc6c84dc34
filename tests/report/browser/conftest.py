"""Pages of the report in a real browser, which ``tests/conftest.py`` starts."""

from dataclasses import dataclass, field
from typing import Any

import pytest

SMALL = {"width": 360, "height": 740}
LARGE = {"width": 1280, "height": 900}


@dataclass
class Visit:
    """An open page, what it asked the network for, and what its console complained of."""

    page: Any
    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)


@pytest.fixture
def visit(browser, tmp_path):
    """Open a page's HTML. Whatever a test does, nothing may be fetched and nothing may go wrong in the console."""
    visits, contexts = [], []

    def open_page(html, *, viewport=LARGE, **options):
        file = tmp_path / f"page-{len(visits)}.html"
        file.write_text(html, encoding="utf-8")
        context = browser.new_context(viewport=viewport, reduced_motion="reduce", **options)
        opened = Visit(context.new_page())
        opened.page.on("request", lambda request: opened.requests.append(request.url))
        opened.page.on("console", lambda message: opened.complaints.append(message.text))
        opened.page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        opened.page.on("dialog", lambda dialog: (opened.complaints.append(dialog.message), dialog.dismiss()))
        opened.page.goto(file.as_uri())
        contexts.append(context)
        visits.append(opened)
        return opened.page

    yield open_page
    for context in contexts:
        context.close()
    for opened in visits:
        assert [url for url in opened.requests[1:] if not url.startswith("data:")] == []
        assert opened.complaints == []


@pytest.fixture
def contrast():
    """The lowest contrast of a page's visible text, as WCAG 2 reckons it, and the words it was found in."""
    return lambda page: page.evaluate(CONTRAST)


# For every element with text of its own: its colour on the nearest background that is not transparent.
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
