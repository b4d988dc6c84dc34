"""The sweep viewer as it is used: by mouse, keyboard and finger, on a phone, on paper, without scripts."""

import re

import pandas as pd
import pytest
from drawn_album import album, scored, sweep
from test_report_viewer import hostile_album

from pipeline.report.page import render
from pipeline.report.viewer import Photo
from pipeline.run.record import RunRecord

PHONE = {"width": 360, "height": 740}


@pytest.fixture(scope="module")
def page_of(frame, row, straight):
    slopes = frame(row("smile", 0.31), row("beard", -0.12))
    card = pd.DataFrame(columns=["name", "attribute", "figure", "unit", "threshold", "passed", "words"])
    left_out = pd.DataFrame(columns=["photo", "reason"])

    def make(shown):
        return render(
            slopes=slopes, curves=straight(slopes), card=card, record=RunRecord(), exclusions=left_out, album=shown
        )

    return make


@pytest.fixture(scope="module")
def everyday(page_of):
    return page_of(album())


def reading(page):
    return page.locator("#viewer-reading").inner_text()


def score(page, label):
    return page.get_by_role("row", name=re.compile(label)).locator(".viewer-score").inner_text()


def grey(page):
    """The mean grey of what is seen of the picture: every version in the album has its own."""
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


def test_dragging_the_dial_moves_image_and_scores(visit, everyday):
    page = visit(everyday)
    assert reading(page) == "a = 0 · the middle"
    assert grey(page) == pytest.approx(100, abs=4)
    assert score(page, "smile") == "0.50"
    page.locator("#viewer-dial").fill("4")
    assert reading(page) == "a = 2 · more masculine"
    assert grey(page) == pytest.approx(160, abs=4)
    assert score(page, "smile") == "0.90"
    assert page.locator("#viewer-image").get_attribute("alt") == (
        "ada.jpg, the edit: perceived gender at a = 2 · more masculine"
    )


def test_a_label_that_was_not_returned_has_no_bar_and_no_zero(visit, everyday):
    page = visit(everyday)
    assert score(page, "beard") == "0.25"
    page.locator("#viewer-dial").fill("3")
    assert score(page, "beard") == "not returned"
    assert score(page, "never said") == "not returned"
    fill = page.get_by_role("row", name=re.compile("beard")).locator(".viewer-fill")
    assert fill.bounding_box()["width"] == 0


def test_all_of_it_by_keyboard(visit, everyday):
    page = visit(everyday)
    page.get_by_role("searchbox", name="Find a photo by name").focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight")
    assert page.locator("#viewer-name").inner_text() == "bea.jpg"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    assert reading(page) == "a = −1 · more feminine"
    assert page.locator("#viewer-dial").get_attribute("aria-valuetext") == "−1 · more feminine"
    page.keyboard.press("Home")
    assert reading(page) == "a = −2 · more feminine"


def test_what_changed_is_spoken_once_it_stands_still(visit, everyday):
    page = visit(everyday)
    page.locator("#viewer-dial").fill("4")
    words = "a = 2 · more masculine. clarity: smile 0.90, beard not returned."
    summary = page.locator("#viewer-summary", has_text=words)
    summary.wait_for(state="attached")
    assert summary.get_attribute("role") == "status"


def test_another_attribute_and_the_placebo_of_the_same_photo(visit, everyday):
    page = visit(everyday)
    page.get_by_label("Shown").select_option("placebo “random”")
    assert grey(page) == pytest.approx(75, abs=4)
    page.get_by_label("Attribute").select_option("perceived race")
    assert grey(page) == pytest.approx(110, abs=4)
    page.locator("#viewer-dial").fill("0")
    assert reading(page) == "a = −2 · more Black"
    assert not page.get_by_label("Shown").is_visible()


def test_a_placebo_at_fewer_values_keeps_the_value_its_picture_and_its_labels(visit, everyday):
    page = visit(everyday)
    page.locator("#viewer-dial").fill("4")  # a = 2, the last of five
    page.get_by_label("Shown").select_option("placebo “random”")
    assert reading(page) == "a = 2 · more masculine"
    assert page.locator("#viewer-dial").get_attribute("max") == "2"
    assert grey(page) == pytest.approx(45 + 2 * 30, abs=4)
    assert score(page, "smile") == "0.90"
    assert "undefined" not in page.locator("#viewer-scores").inner_text()
    page.get_by_label("Shown").select_option("the edit")
    assert reading(page) == "a = 2 · more masculine"
    assert grey(page) == pytest.approx(40 + 4 * 30, abs=4)


def test_failures_are_named(visit, everyday):
    page = visit(everyday)
    page.get_by_role("checkbox", name="Only the 2 with a failed check").check()
    assert page.locator("#viewer-count").inner_text() == "2 photos"
    page.locator("#viewer-strip").get_by_text("bea.jpg").click()
    assert "clipped pixels of the mask: 40.0 %, threshold 5 %" in page.locator("#viewer-missed").inner_text()
    page.locator("#viewer-strip").get_by_text("cleo.jpg").click()
    page.locator("#viewer-dial").fill("0")
    assert page.get_by_text("No answer for this version: HTTP 503").is_visible()
    assert score(page, "smile") == "no answer"
    page.locator("#viewer-dial").fill("1")
    assert score(page, "smile") == "0.30"


def test_a_link_leads_to_a_face_an_attribute_and_a_step(visit, everyday):
    page = visit(everyday)
    page.get_by_role("slider").press("End")
    link = page.evaluate("location.hash")
    assert link.startswith("#viewer:photo=")
    shown = reading(page), page.locator("#viewer-name").inner_text()
    page.evaluate("location.hash = '#findings'")
    page.get_by_role("slider").press("Home")
    page.evaluate(f"location.hash = {link!r}")
    page.wait_for_function("() => document.querySelector('#viewer-dial').value !== '0'")
    assert (reading(page), page.locator("#viewer-name").inner_text()) == shown


def test_photos_are_found_by_name(visit, everyday):
    page = visit(everyday)
    page.get_by_role("searchbox", name="Find a photo by name").fill("CLEO")
    assert page.locator("#viewer-count").inner_text() == "1 photo"
    assert page.locator(".viewer-photo:visible").count() == 1


def test_the_outline_is_drawn_when_asked_for(visit, everyday):
    page = visit(everyday)
    assert not page.locator("#viewer-edge").is_visible()
    page.get_by_label("Outline of the mask").check()
    drawn, frame = (page.locator(f"#viewer-{name}").bounding_box() for name in ("edge", "frame"))
    assert drawn == pytest.approx(frame, abs=1)
    assert page.locator(".viewer-edge-over").get_attribute("d").startswith("M64 40L192 40")


def test_a_finger_drags_the_picture_itself(visit, everyday):
    page = visit(everyday, viewport=PHONE, has_touch=True)
    frame = page.locator("#viewer-frame")
    frame.scroll_into_view_if_needed()
    box = frame.bounding_box()
    page.touchscreen.tap(box["x"] + box["width"] - 3, box["y"] + box["height"] / 2)
    assert reading(page) == "a = 2 · more masculine"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_it_whole_and_legibly(visit, everyday, contrast, scheme):
    page = visit(everyday, viewport=PHONE, color_scheme=scheme)
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]
    for name in ("frame", "dial", "scores"):
        box = page.locator(f"#viewer-{name}").bounding_box()
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= PHONE["width"]
    worst = contrast(page)
    assert worst["ratio"] >= 4.5, worst


def test_without_scripts_and_in_print_there_are_plain_sweeps(visit, everyday):
    page = visit(everyday, java_script_enabled=False)
    assert page.locator("#viewer-plain img").count() == 4
    assert page.locator("#viewer-plain").is_visible()
    assert not page.locator("#viewer-live").is_visible()
    page = visit(everyday)
    assert not page.locator("#viewer-plain img").first.is_visible(), (
        "on the screen the contact sheet opens with a click"
    )
    page.get_by_text("Contact sheet: perceived gender, 3 faces of different groups").click()
    assert page.locator("#viewer-plain img").first.is_visible()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    assert page.locator("#viewer-plain img").last.is_visible()
    assert not page.locator("#viewer-live").is_visible()


def test_hostile_names_are_text_and_nothing_runs(visit, page_of, hostile):
    page = visit(page_of(hostile_album(hostile)))
    assert page.locator("#viewer-name").inner_text() == hostile[0]
    for number in range(len(hostile)):
        page.locator(".viewer-photo").nth(number).click()
        page.locator("#viewer-dial").fill("1")
    assert page.locator("#viewer-scores img, #viewer-scores script, #viewer-strip script").count() == 0
    assert hostile[1] in page.locator("#viewer-scores").inner_text()


def test_a_thousand_photos_load_only_the_pictures_in_sight(visit, page_of):
    one = sweep()
    photos = [Photo(f"{number:04d}.jpg", "", (), [one]) for number in range(1000)]
    page = visit(page_of(album(photos=photos, total=1000)))
    page.locator("#viewer-strip").scroll_into_view_if_needed()
    page.locator(".viewer-thumb img[src]").first.wait_for()
    assert page.locator(".viewer-thumb img[src]").count() < 60
    page.locator(".viewer-photo input").last.focus()
    page.locator(".viewer-photo").last.locator("img[src]").wait_for()
    assert scored().labels[0] in page.locator("#viewer-scores").inner_text()


def test_the_photo_that_it_opens_on_is_in_sight_among_the_others(visit, page_of):
    one = sweep()
    photos = [Photo(f"{number:02d}.jpg", "", (), [one]) for number in range(40)]
    page = visit(page_of(album(photos=photos, total=40, first=30)))
    chosen, strip = (page.locator(name).bounding_box() for name in (".viewer-photo:has(:checked)", "#viewer-strip"))
    assert strip["x"] <= chosen["x"] <= strip["x"] + strip["width"] - chosen["width"]
    assert page.evaluate("scrollY") == 0, "the page still opens at its top"
