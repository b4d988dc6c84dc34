"""The sweep viewer in a browser: mouse, keyboard and touch, on a phone, on paper, and without scripts."""

import re

import pytest
from drawn_album import album, hostile_album, sweep, sweep_scores
from report_frames import HOSTILE, render_page, slope_row, slopes_frame

from pipeline.report.viewer import Photo

PHONE = {"width": 360, "height": 740}


def viewer_page(drawn_album):
    return render_page(slopes_frame(slope_row("smile", 0.31), slope_row("beard", -0.12)), album=drawn_album)


@pytest.fixture(scope="module")
def plain_page():
    return viewer_page(album())


def value_text(page):
    return page.locator("#viewer-reading").inner_text()


def score_text(page, label):
    return page.get_by_role("row", name=re.compile(label)).locator(".viewer-score").inner_text()


def shown_grey(page):
    """The mean grey of the visible part of the image, which identifies the version."""
    return page.evaluate(
        """async () => {
          const image = document.getElementById("viewer-image");
          await image.decode();
          const [frame, film] = [image.parentElement, image].map((e) => e.getBoundingClientRect());
          const canvas = document.createElement("canvas");
          canvas.width = canvas.height = 1;
          const scale = image.naturalWidth / film.width;
          const [x, y] = [(frame.left - film.left) * scale, (frame.top - film.top) * scale];
          const [w, h] = [frame.width * scale, frame.height * scale];
          canvas.getContext("2d").drawImage(image, x, y, w, h, 0, 0, 1, 1);
          return canvas.getContext("2d").getImageData(0, 0, 1, 1).data[0];
        }"""
    )


def test_slider_changes_image_and_scores(visit, plain_page):
    page = visit(plain_page)
    assert value_text(page) == "a = 0 · the middle"
    assert shown_grey(page) == pytest.approx(100, abs=4)
    assert score_text(page, "smile") == "0.50"
    page.locator("#viewer-dial").fill("4")
    assert value_text(page) == "a = 2 · more masculine"
    assert shown_grey(page) == pytest.approx(160, abs=4)
    assert score_text(page, "smile") == "0.90"
    assert page.locator("#viewer-image").get_attribute("alt") == (
        "ada.jpg, the edit: perceived gender at a = 2 · more masculine"
    )


def test_label_that_was_not_returned_has_neither_bar_nor_score(visit, plain_page):
    page = visit(plain_page)
    assert score_text(page, "beard") == "0.25"
    page.locator("#viewer-dial").fill("3")
    assert score_text(page, "beard") == "not returned"
    assert score_text(page, "never said") == "not returned"
    fill = page.get_by_role("row", name=re.compile("beard")).locator(".viewer-fill")
    assert fill.bounding_box()["width"] == 0


def test_viewer_works_by_keyboard(visit, plain_page):
    page = visit(plain_page)
    page.get_by_role("searchbox", name="Find a photo by name").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.locator("#viewer-name").inner_text() == "bea.jpg"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert value_text(page) == "a = −1 · more feminine"
    assert page.locator("#viewer-dial").get_attribute("aria-valuetext") == "−1 · more feminine"
    page.keyboard.press("Home")
    assert value_text(page) == "a = −2 · more feminine"


def test_changes_are_announced_to_screen_readers(visit, plain_page):
    page = visit(plain_page)
    page.locator("#viewer-dial").fill("4")
    words = "a = 2 · more masculine. clarity: smile 0.90, beard not returned."
    summary = page.locator("#viewer-summary", has_text=words)
    summary.wait_for(state="attached")
    assert summary.get_attribute("role") == "status"


def test_attribute_and_arm_can_be_selected(visit, plain_page):
    page = visit(plain_page)
    page.get_by_label("Shown").select_option("placebo “random”")
    assert shown_grey(page) == pytest.approx(75, abs=4)
    page.get_by_label("Attribute").select_option("perceived race")
    assert shown_grey(page) == pytest.approx(110, abs=4)
    page.locator("#viewer-dial").fill("0")
    assert value_text(page) == "a = −2 · more Black"
    assert not page.get_by_label("Shown").is_visible()


def test_switching_to_a_placebo_with_fewer_values_keeps_the_value(visit, plain_page):
    page = visit(plain_page)
    page.locator("#viewer-dial").fill("4")  # a = 2, the last of five
    page.get_by_label("Shown").select_option("placebo “random”")
    assert value_text(page) == "a = 2 · more masculine"
    assert page.locator("#viewer-dial").get_attribute("max") == "2"
    assert shown_grey(page) == pytest.approx(45 + 2 * 30, abs=4)
    assert score_text(page, "smile") == "0.90"
    assert "undefined" not in page.locator("#viewer-scores").inner_text()
    page.get_by_label("Shown").select_option("the edit")
    assert value_text(page) == "a = 2 · more masculine"
    assert shown_grey(page) == pytest.approx(40 + 4 * 30, abs=4)


def test_failed_checks_and_missing_answers_are_explained(visit, plain_page):
    page = visit(plain_page)
    page.get_by_role("checkbox", name="Only the 2 with a failed check").check()
    assert page.locator("#viewer-count").inner_text() == "2 photos"
    page.locator("#viewer-strip").get_by_text("bea.jpg").click()
    assert "clipped pixels of the mask: 40.0 %, threshold 5 %" in page.locator("#viewer-missed").inner_text()
    page.locator("#viewer-strip").get_by_text("cleo.jpg").click()
    page.locator("#viewer-dial").fill("0")
    assert page.get_by_text("No answer for this version: HTTP 503").is_visible()
    assert score_text(page, "smile") == "no answer"
    page.locator("#viewer-dial").fill("1")
    assert score_text(page, "smile") == "0.30"


def test_link_restores_photo_and_step(visit, plain_page):
    page = visit(plain_page)
    page.get_by_role("slider").press("End")
    link = page.evaluate("location.hash")
    assert link.startswith("#viewer:photo=")
    shown = value_text(page), page.locator("#viewer-name").inner_text()
    page.evaluate("location.hash = '#findings'")
    page.get_by_role("slider").press("Home")
    page.evaluate(f"location.hash = {link!r}")
    page.wait_for_function("() => document.querySelector('#viewer-dial').value !== '0'")
    assert (value_text(page), page.locator("#viewer-name").inner_text()) == shown


def test_photos_are_filtered_by_name(visit, plain_page):
    page = visit(plain_page)
    page.get_by_role("searchbox", name="Find a photo by name").fill("CLEO")
    assert page.locator("#viewer-count").inner_text() == "1 photo"
    assert page.locator(".viewer-photo:visible").count() == 1


def test_mask_outline_is_drawn_on_demand(visit, plain_page):
    page = visit(plain_page)
    assert not page.locator("#viewer-edge").is_visible()
    page.get_by_label("Outline of the mask").check()
    drawn, frame = (page.locator(f"#viewer-{name}").bounding_box() for name in ("edge", "frame"))
    assert drawn == pytest.approx(frame, abs=1)
    assert page.locator(".viewer-edge-over").get_attribute("d").startswith("M64 40L192 40")


def test_image_reacts_to_touch(visit, plain_page):
    page = visit(plain_page, viewport=PHONE, has_touch=True)
    frame = page.locator("#viewer-frame")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    assert value_text(page) == "a = 2 · more masculine"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_viewer_fits_a_phone_with_contrast(visit, plain_page, contrast, scheme):
    page = visit(plain_page, viewport=PHONE, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for name in ("frame", "dial", "scores"):
        box = page.locator(f"#viewer-{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    worst = contrast(page)
    assert worst["ratio"] >= 4.5, worst


def test_contact_sheets_replace_the_viewer_without_scripts_and_in_print(visit, plain_page):
    page = visit(plain_page, java_script_enabled=False)
    assert page.locator("#viewer-plain img").count() == 4
    assert page.locator("#viewer-plain").is_visible()
    assert not page.locator("#viewer-live").is_visible()
    page = visit(plain_page)
    assert not page.locator("#viewer-plain img").first.is_visible(), "opens with a click"
    page.get_by_text("Contact sheet: perceived gender, 3 faces of different groups").click()
    assert page.locator("#viewer-plain img").first.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#viewer-plain img").last.is_visible()
    assert not page.locator("#viewer-live").is_visible()


def test_hostile_names_are_shown_as_text(visit):
    page = visit(viewer_page(hostile_album(HOSTILE)))
    assert page.locator("#viewer-name").inner_text() == HOSTILE[0]
    for number in range(len(HOSTILE)):
        page.locator(".viewer-photo").nth(number).click()
        page.locator("#viewer-dial").fill("1")
    assert page.locator("#viewer-scores img, #viewer-scores script, #viewer-strip script").count() == 0
    assert HOSTILE[1] in page.locator("#viewer-scores").inner_text()


def test_only_visible_thumbnails_are_loaded(visit):
    shared_sweep = sweep()
    photos = [Photo(f"{number:04d}.jpg", "", (), [shared_sweep]) for number in range(1000)]
    page = visit(viewer_page(album(photos=photos, total=1000)))
    page.locator("#viewer-strip").scroll_into_view_if_needed()
    page.locator(".viewer-thumb img[src]").first.wait_for()
    assert page.locator(".viewer-thumb img[src]").count() < 60
    page.locator(".viewer-photo input").last.focus()
    page.locator(".viewer-photo").last.locator("img[src]").wait_for()
    assert sweep_scores().labels[0] in page.locator("#viewer-scores").inner_text()


def test_initial_photo_is_scrolled_into_view(visit):
    shared_sweep = sweep()
    photos = [Photo(f"{number:02d}.jpg", "", (), [shared_sweep]) for number in range(40)]
    page = visit(viewer_page(album(photos=photos, total=40, first=30)))
    chosen, strip = (page.locator(name).bounding_box() for name in (".viewer-photo:has(:checked)", "#viewer-strip"))
    assert strip["x"] <= chosen["x"] <= strip["x"] + strip["width"] - chosen["width"]
    assert page.evaluate("scrollY") == 0, "the page is not scrolled"
