"""The report in a browser: no requests, no foreign scripts, accessible on every screen and on paper."""

import re
from itertools import pairwise

import pytest
from report_frames import EFFECTIVENESS, HOSTILE, HOSTILE_RECORD, render_page, slope_row, slopes_frame

from pipeline.run.record import RunRecord

CHECKS = (
    ("effect", "gender", 0.41, "probability", 0.25, True, "Rise of the judge's probability."),
    ("lightness", "gender", 9.0, "ΔL*", 5.0, False, "Mean change of lightness."),
    ("identity", "gender", float("nan"), "", 0.5, None, "No recogniser was there."),
)
SIZES = {"phone": {"width": 360, "height": 740}, "desktop": {"width": 1280, "height": 900}}


@pytest.fixture(scope="session")
def plain_page():
    slopes = slopes_frame(
        slope_row("smile", -0.12),
        slope_row("long hair", -0.31),
        slope_row("beard", 0.25),
        slope_row("a label of one very long word: Donaudampfschifffahrtsgesellschaftskapitänsmütze", 0.11),
        slope_row("hat", 0.01, width=0.06, p=0.6),
        slope_row("smile", -0.04, arm="random"),
        slope_row("beard", 0.01, width=0.06, p=0.6, arm="random"),
        slope_row("sceptre", reason="too rare"),
    )
    exclusions, record = [("a.jpg", "no face found")], RunRecord(git_commit="0123456789abcdef")
    return render_page(slopes, card=CHECKS, exclusions=exclusions, record=record, effectiveness=EFFECTIVENESS)


@pytest.fixture(scope="session")
def hostile_page():
    names = HOSTILE
    slopes = slopes_frame(
        *(slope_row(label, 0.05 + 0.02 * i, adapter=names[0]) for i, label in enumerate(names)),
        slope_row(names[2], 0.1, adapter=names[0], arm=names[1]),
        slope_row("sceptre", adapter=names[0], reason=names[1]),
    )
    return render_page(
        slopes,
        card=[(names[0], "gender", 0.1, names[1], 0.2, False, names[2]), (names[3], names[4], 1.0, "", 1.0, None, "")],
        exclusions=[(label, names[1]) for label in names],
        record=HOSTILE_RECORD,
        effectiveness=EFFECTIVENESS,
    )


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_contrast_and_fits_the_window(visit, plain_page, contrast, size, scheme):
    page = visit(plain_page, viewport=SIZES[size], color_scheme=scheme)
    page.evaluate("for (const part of document.querySelectorAll('details')) part.open = true")
    assert page.evaluate("document.documentElement.scrollWidth") == SIZES[size]["width"]
    worst = contrast(page)
    assert worst["ratio"] >= 4.5, worst


def test_dark_scheme_has_a_dark_background(visit, plain_page):
    ground = visit(plain_page, color_scheme="dark").evaluate("getComputedStyle(document.body).backgroundColor")
    assert max(map(int, re.findall(r"\d+", ground))) < 60


def test_hostile_names_are_shown_as_text(visit, hostile_page):
    page = visit(hostile_page)
    page.get_by_role("combobox", name="Show").select_option("all")
    page.get_by_label("Label contains").fill("<script>")
    assert page.locator("table.labels tbody th").inner_text() == HOSTILE[0]
    assert page.evaluate("document.querySelectorAll('script:not([type])').length") == 1
    assert page.evaluate("[...document.images].filter((image) => !image.src.startsWith('data:')).length") == 0
    assert not re.search("[\u202a-\u202e\u2066-\u2069]", page.locator("body").inner_text())


def test_content_security_policy_blocks_foreign_scripts_and_requests(browser, plain_page, tmp_path):
    foreign_markup = '<script>window.ran = 1</script><img src="https://example.org/x.png" onerror="window.ran = 2">'
    file = tmp_path / "planted.html"
    file.write_text(plain_page.replace("</main>", foreign_markup + "</main>", 1), encoding="utf-8")
    page = browser.new_page()
    requested = []
    page.route("**/*", lambda route: (requested.append(route.request.url), route.continue_()))
    page.goto(file.as_uri())
    assert page.evaluate("window.ran") is None
    assert requested == [file.as_uri()]
    assert page.locator(".controls").first.is_visible()  # the report's script ran
    page.close()


def test_headings_and_landmarks_are_well_formed(visit, plain_page):
    page = visit(plain_page)
    levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1]))")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(later <= earlier + 1 for earlier, later in pairwise(levels))
    assert page.locator("main").count() == 1
    assert page.locator("header").count() == 1
    assert page.locator("nav[aria-label]").count() == 1
    outside = "[...document.body.children].filter((e) => !e.matches('header, main, footer, a.skip, script')).length"
    assert page.evaluate(outside) == 0


def test_landmark_names_are_unique(visit, plain_page):
    names = visit(plain_page).evaluate(
        """() => [...document.querySelectorAll("section[aria-labelledby], [role=region], nav")]
          .map((e) => e.ariaLabel ?? document.getElementById(e.getAttribute("aria-labelledby")).textContent.trim())"""
    )
    assert len(names) == len(set(names))


def test_controls_and_images_have_accessible_names(visit, plain_page):
    page = visit(plain_page)
    nameless = """() => [...document.querySelectorAll("input, select, button, [role=region], [role=img], img")]
      .filter((e) => !(e.ariaLabel || e.labels?.length || e.textContent.trim() || e.alt || e.ariaLabelledByElements))
      .map((e) => e.outerHTML)"""
    assert page.evaluate(nameless) == []
    unlabelled = """() => [...document.querySelectorAll("label")].filter((label) => !label.textContent.trim()).length"""
    assert page.evaluate(unlabelled) == 0


def test_skip_link_is_the_first_tab_stop(visit, plain_page):
    page = visit(plain_page)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the findings"
    page.keyboard.press("Enter")
    page.wait_for_url("**#findings")


def test_touch_targets_are_large_enough(visit, plain_page):
    page = visit(plain_page, viewport=SIZES["phone"])
    small = """() => [...document.querySelectorAll("button, select, summary, label.pick, nav a")]
      .filter((e) => e.checkVisibility() && e.getBoundingClientRect().height < 24).map((e) => e.outerHTML)"""
    assert page.evaluate(small) == []


def test_print_opens_details_and_hides_controls(visit, plain_page):
    page = visit(plain_page, color_scheme="dark")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.locator("details:not([open])").count() == 0
    assert page.get_by_text("a.jpg").is_visible()
    for unwanted in ("nav", ".controls", "table.labels input", ".skip"):
        assert not page.locator(unwanted).first.is_visible()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]:not(.filters)").count() == 0


def test_filters_are_collapsed_on_a_phone_only(visit, plain_page):
    for size, folded in (("phone", True), ("desktop", False)):
        page = visit(plain_page, viewport=SIZES[size])
        search = page.get_by_label("Label contains").first
        assert search.is_visible() != folded
        if folded:
            page.get_by_text("Sort and filter").first.click()
            assert search.is_visible()


def test_page_prints_to_pdf(visit, plain_page):
    assert visit(plain_page).pdf(format="A4").startswith(b"%PDF")


def test_findings_are_shown_without_scripts(visit, plain_page):
    page = visit(plain_page, java_script_enabled=False)
    assert "“long hair” rises with perceived femininity" in page.locator("#findings").inner_text()
    rows = page.locator("table.labels tbody th").all_inner_texts()
    assert [row.split("†")[0].strip() for row in rows[:3]] == ["long hair", "beard", "smile"]
    assert not page.locator(".controls").first.is_visible()
