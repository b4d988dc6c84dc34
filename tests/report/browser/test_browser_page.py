"""The page in a real browser: it speaks to nobody, runs nothing foreign, and can be read by everyone, anywhere."""

import re
from itertools import pairwise

import pandas as pd
import pytest

from pipeline.report.page import render
from pipeline.run.record import RunRecord

CARD = ["name", "attribute", "figure", "unit", "threshold", "passed", "words"]
LIGHTS = (
    ("effect", "gender", 0.41, "probability", 0.25, True, "Rise of the judge's probability."),
    ("lightness", "gender", 9.0, "ΔL*", 5.0, False, "Mean change of lightness."),
    ("identity", "gender", float("nan"), "", 0.5, None, "No recogniser was there."),
)
SIZES = {"phone": (360, 740), "desk": (1280, 900)}


def page_of(slopes, curves, **more):
    return render(
        slopes=slopes,
        curves=curves,
        card=pd.DataFrame(more.pop("card", LIGHTS), columns=CARD),
        record=more.pop("record", RunRecord(git_commit="0123456789abcdef")),
        exclusions=pd.DataFrame(more.pop("exclusions", [("a.jpg", "no face found")]), columns=["photo", "reason"]),
        effectiveness=pd.DataFrame(
            {"attribute": "gender", "value": [-2, 0, 2], "mean": [0.1, 0.5, 0.9], "low": 0.0, "high": 1.0}
        ),
        **more,
    )


@pytest.fixture(scope="session")
def everyday(frame, row, straight):
    slopes = frame(
        row("smile", -0.12),
        row("long hair", -0.31),
        row("beard", 0.25),
        row("a label of one very long word: Donaudampfschifffahrtsgesellschaftskapitänsmütze", 0.11),
        row("hat", 0.01, width=0.06, p=0.6),
        row("smile", -0.04, arm="random"),
        row("beard", 0.01, width=0.06, p=0.6, arm="random"),
        row("sceptre", reason="too rare"),
    )
    return page_of(slopes, straight(slopes))


@pytest.fixture(scope="session")
def hostile_page(frame, row, straight, hostile, hostile_record):
    bad = hostile
    slopes = frame(
        *(row(label, 0.05 + 0.02 * i, adapter=bad[0]) for i, label in enumerate(bad)),
        row(bad[2], 0.1, adapter=bad[0], arm=bad[1]),
        row("sceptre", adapter=bad[0], reason=bad[1]),
    )
    return page_of(
        slopes,
        straight(slopes),
        card=[(bad[0], "gender", 0.1, bad[1], 0.2, False, bad[2]), (bad[3], bad[4], 1.0, "", 1.0, None, "")],
        exclusions=[(label, bad[1]) for label in bad],
        record=hostile_record,
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_stands_out_and_nothing_is_wider_than_the_window(visit, everyday, contrast, size, scheme):
    width, height = SIZES[size]
    page = visit(everyday, viewport={"width": width, "height": height}, color_scheme=scheme)
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == width
    worst = contrast(page)
    assert worst["ratio"] >= 4.5, worst


def test_dark_is_dark(visit, everyday):
    ground = visit(everyday, color_scheme="dark").evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground))) < 60


def test_hostile_names_are_shown_and_run_nothing(visit, hostile_page, hostile):
    page = visit(hostile_page)
    page.get_by_role("combobox", name="Show").select_option("all")
    page.get_by_label("Label contains").fill("<script>")
    assert page.locator("table.labels tbody th").inner_text() == hostile[0]
    assert page.evaluate("document.querySelectorAll('script:not([type])').length") == 1
    assert page.evaluate("[...document.images].filter((image) => !image.src.startsWith('data:')).length") == 0
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", page.locator("body").inner_text())


def test_the_policy_stops_a_foreign_script_and_a_foreign_address(browser, everyday, tmp_path):
    planted = '<script>window.ran = 1</script><img src="https://example.org/x.png" onerror="window.ran = 2">'
    file = tmp_path / "planted.html"
    file.write_text(everyday.replace("</main>", planted + "</main>", 1), encoding="utf-8")
    page = browser.new_page()
    asked = []
    page.route("**/*", lambda route: (asked.append(route.request.url), route.continue_()))
    page.goto(file.as_uri())
    assert page.evaluate("window.ran") is None
    assert asked == [file.as_uri()]
    assert page.locator(".controls").first.is_visible()  # our own script did run
    page.close()


def test_landmarks_and_headings_are_in_order(visit, everyday):
    page = visit(everyday)
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert page.locator("main").count() == 1
    assert page.locator("header").count() == 1
    assert page.locator("nav[aria-label]").count() == 1
    outside = "[...document.body.children].filter((e) => !e.matches('header, main, footer, a.skip, script')).length"
    assert page.evaluate(outside) == 0


def test_no_two_landmarks_have_one_name(visit, everyday):
    names = visit(everyday).evaluate(
        """() => [...document.querySelectorAll("section[aria-labelledby], [role=region], nav")]
          .map((e) => e.ariaLabel ?? document.getElementById(e.getAttribute("aria-labelledby")).textContent.trim())"""
    )
    assert len(names) == len(set(names))


def test_every_control_and_picture_has_a_name(visit, everyday):
    page = visit(everyday)
    nameless = """() => [...document.querySelectorAll("input, select, button, [role=region], [role=img], img")]
      .filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim() || e.alt || e.ariaLabelledByElements))
      .map((e) => e.outerHTML)"""
    assert page.evaluate(nameless) == []
    unlabelled = """() => [...document.querySelectorAll("label")].filter((label) => !label.textContent.trim()).length"""
    assert page.evaluate(unlabelled) == 0


def test_the_first_stop_of_the_keyboard_leads_to_the_findings(visit, everyday):
    page = visit(everyday)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    page.keyboard.press("Enter")
    page.wait_for_url("**#findings")


def test_what_can_be_touched_is_large_enough(visit, everyday):
    page = visit(everyday, viewport={"width": 360, "height": 740})
    small = """() => [...document.querySelectorAll("button, select, summary, label.pick, nav a")]
      .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML)"""
    assert page.evaluate(small) == []


def test_on_paper_everything_is_open_and_there_are_no_controls(visit, everyday):
    page = visit(everyday, color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("details:not([open])").count() == 0
    assert page.get_by_text("a.jpg").is_visible()
    for unwanted in ("nav", ".controls", "table.labels input", ".skip"):
        assert not page.locator(unwanted).first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]:not(.filters)").count() == 0


def test_filters_are_folded_on_a_phone_and_open_on_a_desk(visit, everyday):
    for size, folded in (("phone", True), ("desk", False)):
        width, height = SIZES[size]
        page = visit(everyday, viewport={"width": width, "height": height})
        search = page.get_by_label("Label contains").first
        assert search.is_visible() != folded
        if folded:
            page.get_by_text("Sort and filter").first.click()
            assert search.is_visible()


def test_it_prints_as_a_document(visit, everyday):
    assert visit(everyday).pdf(format="A4").startswith(b"%PDF")


def test_without_its_script_the_findings_are_still_there(visit, everyday):
    page = visit(everyday, java_script_enabled=False)
    assert "“long hair” rises with perceived femininity" in page.locator("#findings").inner_text()
    rows = page.locator("table.labels tbody th").all_inner_texts()
    assert [row.split("†")[0].strip() for row in rows[:3]] == ["long hair", "beard", "smile"]
    assert not page.locator(".controls").first.is_visible()
