"""The table of labels in a browser: sorting, filtering and selecting curves, by mouse and keyboard."""

import math
from itertools import pairwise

import pytest
from report_frames import curves_frame, render_page, slope_row, slopes_frame


@pytest.fixture(scope="session")
def thirty_labels():
    """A page with ten findings in both directions, one of them shown by a placebo, and twenty other labels."""
    low = [slope_row(f"low {n}", -0.05 - 0.02 * n) for n in range(5)]
    high = [slope_row(f"high {n}", 0.06 + 0.02 * n, p=0.0001 * (n + 1)) for n in range(5)]
    others = [slope_row(f"other {n}", 0.02 * (-1) ** n + 0.0001 * n, width=0.05, p=0.3 + n / 100) for n in range(20)]
    others[3]["slope_low"] = -math.inf
    placebos = [slope_row("low 2", -0.2, arm="random"), slope_row("high 0", 0.004, p=0.5, arm="random")]
    slopes = slopes_frame(*low, *high, *others, *placebos)
    return render_page(slopes, curves=curves_frame(slopes[slopes["slope_low"] > -math.inf]))


def label_names(page):
    return [text.split(" †")[0] for text in page.locator("table.labels tbody th").all_inner_texts()]


def heading(page, name):
    return page.locator("table.labels thead button").filter(has_text=name).first


def test_script_and_static_page_show_the_same_table(visit, thirty_labels):
    printed = visit(thirty_labels, java_script_enabled=False).locator("table.labels tbody")
    shown = visit(thirty_labels).locator("table.labels tbody")
    assert [line.split() for line in printed.all_inner_texts()] == [line.split() for line in shown.all_inner_texts()]
    bars = [
        body.evaluate("body => [...body.querySelectorAll('svg.bar')].map((bar) => bar.innerHTML)")
        for body in (printed, shown)
    ]
    assert bars[0] == bars[1]
    assert len(bars[0]) == 10


def test_headings_sort_in_both_directions_and_reset(visit, thirty_labels):
    page = visit(thirty_labels)
    at_first = label_names(page)
    assert at_first[:2] == ["high 4", "low 4"]
    slope = heading(page, "Slope")
    slope.click()
    assert label_names(page)[0] == "high 4"
    assert label_names(page)[-1] == "low 4"
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "descending"
    slope.click()
    assert label_names(page)[0] == "low 4"
    assert page.locator("th[aria-sort]").get_attribute("aria-sort") == "ascending"
    slope.click()
    assert label_names(page) == at_first
    assert page.locator("th[aria-sort]").count() == 0
    heading(page, "Label").click()
    assert label_names(page) == sorted(at_first)


def test_infinite_bound_is_sorted_first(visit, thirty_labels):
    page = visit(thirty_labels)
    page.get_by_role("combobox", name="Show").select_option("all")
    heading(page, "95 % interval").click()
    heading(page, "95 % interval").click()
    assert label_names(page)[0] == "other 3"
    assert "−∞ to" in page.locator("table.labels tbody tr").first.inner_text()


def test_filters_by_text_direction_q_and_size(visit, thirty_labels):
    page = visit(thirty_labels)
    status = page.get_by_role("status").first
    assert status.inner_text() == "Shown: 10 of 10 findings."
    page.get_by_role("combobox", name="Show").select_option("all")
    assert status.inner_text() == "Shown: 30 of all 30 tested labels."
    page.get_by_label("Label contains").fill("OTHER")
    assert len(label_names(page)) == 20
    page.get_by_label("Label contains").fill("")
    page.get_by_label("Rises towards").select_option("masculine")
    page.get_by_label("|slope| from").fill("0.1")
    assert label_names(page) == ["high 4", "high 3", "high 2"]
    page.get_by_label("q below").select_option("0.001")
    assert label_names(page) == ["high 3", "high 2"]
    page.get_by_role("button", name="Reset").click()
    assert status.inner_text() == "Shown: 10 of 10 findings."


def test_search_reports_matches_outside_the_findings(visit, thirty_labels):
    page = visit(thirty_labels)
    page.get_by_label("Label contains").fill("other")
    assert page.get_by_role("status").first.inner_text() == "Shown: 0 of 10 findings. 20 of all 30 tested labels match."


def test_curves_are_selected_by_checkboxes(visit, thirty_labels):
    page = visit(thirty_labels)
    drawn = lambda: page.locator("figure.curves [data-series]:not([display])").count()  # noqa: E731
    assert drawn() == 6
    ticked = page.locator("table.labels input:checked")
    assert ticked.count() == 6
    last = page.get_by_label("Draw the curve of low 0")
    last.check()
    assert drawn() == 6  # the oldest selection is dropped
    assert ticked.count() == 6
    assert "low 0" in page.locator("figure.curves svg > desc").text_content()
    last.uncheck()
    assert drawn() == 5


def test_curve_labels_do_not_overlap(visit, thirty_labels):
    page = visit(thirty_labels)
    while page.locator("table.labels input:checked").count():
        page.locator("table.labels input:checked").first.click()
    for n in range(5):
        page.get_by_label(f"Draw the curve of high {n}").check()
    places = page.evaluate(
        """() => [...document.querySelectorAll("figure.curves [data-series]:not([display]) text")]
          .map((name) => name.getBoundingClientRect().top).sort((a, b) => a - b)"""
    )
    assert len(places) == 5
    assert all(later - earlier > 10 for earlier, later in pairwise(places))


def test_table_works_by_keyboard(visit, thirty_labels):
    page = visit(thirty_labels)
    page.get_by_role("combobox", name="Show").focus()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Tab")
    page.keyboard.type("low")
    assert label_names(page) == [f"low {n}" for n in (4, 3, 2, 1, 0)]
    heading(page, "Slope").focus()
    page.keyboard.press("Enter")
    assert label_names(page) == [f"low {n}" for n in range(5)]
    assert page.evaluate("document.activeElement.textContent") == "Slope"
    box = page.get_by_label("Draw the curve of low 0")
    was = box.is_checked()
    box.focus()
    page.keyboard.press("Space")
    assert box.is_checked() is not was


def test_placebo_is_shown_next_to_the_edit(visit, thirty_labels):
    page = visit(thirty_labels)
    row = page.locator("table.labels tbody tr").filter(has_text="low 2")
    assert "†" in row.inner_text()
    assert "−0.200" in row.locator("td.placebo").inner_text()
    assert row.locator("svg .placebo").count() == 1


def test_all_columns_are_shown_on_demand(visit, thirty_labels):
    page = visit(thirty_labels)
    wide = page.get_by_role("columnheader", name="Permutation p")
    assert not wide.is_visible()
    page.get_by_label("all figures").check()
    assert wide.is_visible()


def test_two_thousand_labels_are_paged_and_filtered_quickly(visit):
    html = render_page(
        slopes_frame(*(slope_row(f"label {n}", 0.2 - 0.0001 * n, p=1e-6 if n < 300 else 0.4) for n in range(2000)))
    )
    page = visit(html)
    assert len(label_names(page)) == 200
    page.get_by_role("button", name="Show 100 more").click()
    assert len(label_names(page)) == 300
    page.get_by_role("combobox", name="Show").select_option("all")
    assert len(label_names(page)) == 200
    milliseconds = page.evaluate(
        """() => {
          const box = document.querySelector("[data-control=text]");
          const start = performance.now();
          box.value = "label 19";
          box.dispatchEvent(new Event("input"));
          document.body.getBoundingClientRect();
          return performance.now() - start;
        }"""
    )
    assert len(label_names(page)) == 111
    assert milliseconds < 2000  # some 20 on an idle machine


def test_without_findings_the_steepest_labels_are_shown(visit):
    page = visit(render_page(slopes_frame(*(slope_row(f"label {n}", 0.001 * n, width=0.06, p=0.6) for n in range(30)))))
    assert page.get_by_role("status").first.inner_text() == "Shown: 20 of 20 steepest labels."
    assert label_names(page)[0] == "label 29"
