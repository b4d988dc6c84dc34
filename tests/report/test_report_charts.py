"""Charts: valid specifications, and SVG that stands alone."""

from itertools import pairwise
from xml.etree import ElementTree as Xml

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.report.charts import curve_chart, effectiveness_chart, interval_chart, spread
from pipeline.report.embedding import to_svg
from pipeline.report.words import poles_of

GENDER = poles_of("gender")


def texts(svg):
    return [element.text for element in Xml.fromstring(svg).iter() if element.tag.endswith("text")]


def draw(chart):
    chart.to_dict()  # validates the specification
    return to_svg(chart, key="c1", title="A chart", description="What is seen")


def test_curves_are_labelled_where_they_end(slopes, straight):
    svg = draw(curve_chart(straight(slopes), GENDER, labels=["smile", "beard", "tie"]))
    assert {"smile", "beard", "tie"} <= set(texts(svg))
    assert any("feminine" in (text or "") for text in texts(svg))


def test_names_of_groups_and_their_counts_are_whole():
    from pipeline.analyses.sections import Dots
    from pipeline.report.charts import chart_of

    groups = ["chief executive officer, woman (1,234 photos)", "registered nurse, man (12 photos)"]
    label = "a label as long as services give them, with a comma"
    rows = pd.DataFrame({"label": label, "series": groups, "value": [0.1, 0.2], "low": 0.0, "high": 0.3})
    words = dict.fromkeys(("title", "description", "caption"), "")
    svg = draw(chart_of(Dots(rows, axis="slope", series=groups, **words)))
    assert {label, *groups} <= set(texts(svg))


def test_infinite_bands_do_not_spoil_a_chart(slopes, straight):
    curves = straight(slopes).assign(z_high=float("inf"), z_low=float("-inf"))
    svg = draw(curve_chart(curves, GENDER, labels=["smile"]))
    assert "NaN" not in svg
    assert "Infinity" not in svg


def test_all_slopes_stand_in_the_interval_chart(slopes):
    tested = slopes[slopes["estimable"]]
    svg = draw(interval_chart(tested, GENDER, highlighted=["smile"]))
    assert set(tested["label"]) <= set(texts(svg))


def test_the_judge_s_probability(slopes):
    frame = pd.DataFrame({"value": [-2, 0, 2], "mean": [0.1, 0.5, 0.9], "low": [0, 0.4, 0.8], "high": [0.2, 0.6, 1]})
    assert "judge: P(masculine)" in texts(draw(effectiveness_chart(frame, GENDER)))


def test_the_svg_scales_and_speaks(slopes):
    root = Xml.fromstring(draw(interval_chart(slopes[slopes["estimable"]], GENDER)))
    assert root.get("role") == "img"
    assert "style" not in root.attrib
    assert root.get("viewBox")
    named = {element.get("id"): element.text for element in root.iter() if element.get("id")}
    assert [named[key] for key in root.get("aria-labelledby").split()] == ["A chart", "What is seen"]


def test_hostile_labels_are_text(hostile, frame, row, straight):
    slopes = frame(*(row(label, 0.1 + 0.01 * i) for i, label in enumerate(hostile)))
    for svg in (
        draw(interval_chart(slopes, GENDER)),
        draw(curve_chart(straight(slopes), GENDER, labels=hostile[:6])),
    ):
        root = Xml.fromstring(svg)
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags <= {"svg", "title", "desc", "g", "path", "line", "text", "rect"}
        assert not [
            name for element in root.iter() for name in element.attrib if name.startswith("on") or "href" in name
        ]
        assert any((text or "").startswith("<script>") for text in texts(svg))


def test_what_cannot_be_drawn_is_an_error(slopes, straight):
    curves = straight(slopes)
    with pytest.raises(ValueError, match="at least one label"):
        curve_chart(curves, GENDER, labels=[])
    with pytest.raises(ValueError, match="no normalised curve for: sceptre"):
        curve_chart(curves, GENDER, labels=["smile", "sceptre"])
    with pytest.raises(ValueError, match="is not an id"):
        to_svg(curve_chart(curves, GENDER, labels=["smile"]), key='x" onload="', title="", description="")


@given(st.lists(st.floats(0, 10), max_size=6).map(sorted))
def test_labels_are_kept_apart_and_inside(places):
    moved = spread(places, gap=1.0, low=0.0, high=10.0)
    assert moved == sorted(moved)
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(moved))
    assert all(-1e-9 <= place <= 10 + 1e-9 for place in moved)


def test_shares_against_others_are_points_over_the_line_of_equality():
    from pipeline.analyses.sections import Scatter
    from pipeline.report.charts import chart_of

    rows = pd.DataFrame({"known": [0.1, 0.9, None], "seen": [0.2, 0.7, 0.5], "seen_low": [0.1, 0.6, 0.4]})
    rows["seen_high"] = rows["seen"] + 0.1
    chart = Scatter(rows, x="known", y="seen", titles=("known", "seen"), title="t", description="d", caption="c")
    drawn = chart_of(chart).to_dict()
    points = next(iter(data for data in drawn["datasets"].values() if "low" in data[0]))
    assert [point["x"] for point in points] == [0.1, 0.9], "a keyword without a reference has no point"
    line = next(iter(data for data in drawn["datasets"].values() if "low" not in data[0]))
    assert all(point["x"] == point["y"] for point in line)
