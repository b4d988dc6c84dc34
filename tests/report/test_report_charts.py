"""Charts: valid specifications, and self-contained SVG."""

from html import unescape
from itertools import pairwise
from xml.etree import ElementTree as Xml

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_frames import HOSTILE, curves_frame, slope_row, slopes_frame

from pipeline.analyses.sections import Dots, Scatter
from pipeline.report.charts import bias_heatmap, chart_of, curve_chart, effectiveness_chart, interval_chart, spread
from pipeline.report.embedding import to_svg
from pipeline.report.words import poles_of
from pipeline.statistics.predictability.bias_grid import bias_grid

GENDER = poles_of("gender")


def texts_of(svg):
    return [element.text for element in Xml.fromstring(svg).iter() if element.tag.endswith("text")]


def draw(chart):
    chart.to_dict()  # validates
    return to_svg(chart, key="c1", title="A chart", description="What is seen")


def test_curves_have_labels_and_poles(slopes):
    svg = draw(curve_chart(curves_frame(slopes), GENDER, labels=["smile", "beard", "tie"]))
    assert {"smile", "beard", "tie"} <= set(texts_of(svg))
    assert any("feminine" in (text or "") for text in texts_of(svg))


def test_long_series_names_are_not_cut():
    groups = ["chief executive officer, woman (1,234 photos)", "registered nurse, man (12 photos)"]
    label = "a label as long as services give them, with a comma"
    rows = pd.DataFrame({"label": label, "series": groups, "value": [0.1, 0.2], "low": 0.0, "high": 0.3})
    words = dict.fromkeys(("title", "description", "caption"), "")
    svg = draw(chart_of(Dots(rows, axis="slope", series=groups, **words)))
    assert {label, *groups} <= set(texts_of(svg))


def test_infinite_bands_are_drawn_without_nan(slopes):
    curves = curves_frame(slopes).assign(z_high=float("inf"), z_low=float("-inf"))
    svg = draw(curve_chart(curves, GENDER, labels=["smile"]))
    assert "NaN" not in svg
    assert "Infinity" not in svg


def test_interval_chart_has_every_label(slopes):
    tested = slopes[slopes["estimable"]]
    svg = draw(interval_chart(tested, GENDER, highlighted=["smile"]))
    assert set(tested["label"]) <= set(texts_of(svg))


def test_effectiveness_chart_shows_the_judges_probability(slopes):
    frame = pd.DataFrame({"value": [-2, 0, 2], "mean": [0.1, 0.5, 0.9], "low": [0, 0.4, 0.8], "high": [0.2, 0.6, 1]})
    assert "judge: P(masculine)" in texts_of(draw(effectiveness_chart(frame, GENDER)))


def test_svg_is_scalable_and_accessible(slopes):
    root = Xml.fromstring(draw(interval_chart(slopes[slopes["estimable"]], GENDER)))
    assert root.get("role") == "img"
    assert "style" not in root.attrib
    assert root.get("viewBox")
    texts = {element.get("id"): element.text for element in root.iter() if element.get("id")}
    assert [texts[key] for key in root.get("aria-labelledby").split()] == ["A chart", "What is seen"]


def test_hostile_labels_are_text():
    slopes = slopes_frame(*(slope_row(label, 0.1 + 0.01 * i) for i, label in enumerate(HOSTILE)))
    for chart in (interval_chart(slopes, GENDER), curve_chart(curves_frame(slopes), GENDER, labels=HOSTILE[:6])):
        svg = draw(chart)
        root = Xml.fromstring(svg)
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert tags <= {"svg", "title", "desc", "g", "path", "line", "text", "rect"}
        attributes = {name for element in root.iter() for name in element.attrib}
        assert not [name for name in attributes if name.startswith("on") or "href" in name]
        assert any((text or "").startswith("<script>") for text in texts_of(svg))


def test_invalid_charts_raise(slopes):
    curves = curves_frame(slopes)
    with pytest.raises(ValueError, match="at least one label"):
        curve_chart(curves, GENDER, labels=[])
    with pytest.raises(ValueError, match="no normalised curve for: sceptre"):
        curve_chart(curves, GENDER, labels=["smile", "sceptre"])
    with pytest.raises(ValueError, match="is not an id"):
        to_svg(curve_chart(curves, GENDER, labels=["smile"]), key='x" onload="', title="", description="")


@given(st.lists(st.floats(0, 10), max_size=6).map(sorted))
def test_spread_keeps_labels_apart_and_inside(places):
    moved = spread(places, gap=1.0, low=0.0, high=10.0)
    assert moved == sorted(moved)
    assert all(b - a >= 1 - 1e-9 for a, b in pairwise(moved))
    assert all(-1e-9 <= place <= 10 + 1e-9 for place in moved)


def test_scatter_has_points_and_the_line_of_equality():
    rows = pd.DataFrame({"known": [0.1, 0.9, None], "seen": [0.2, 0.7, 0.5], "seen_low": [0.1, 0.6, 0.4]})
    rows["seen_high"] = rows["seen"] + 0.1
    chart = Scatter(rows, x="known", y="seen", titles=("known", "seen"), title="t", description="d", caption="c")
    drawn = chart_of(chart).to_dict()
    points = next(iter(data for data in drawn["datasets"].values() if "low" in data[0]))
    assert [point["x"] for point in points] == [0.1, 0.9], "a missing value has no point"
    line = next(iter(data for data in drawn["datasets"].values() if "low" not in data[0]))
    assert all(point["x"] == point["y"] for point in line)


def test_heatmap_prints_every_cell():
    grid = bias_grid(dataset_biases=(0.5, 0.75, 1), model_biases=(0.5, 0.75, 1), equalise="none")
    svg = unescape(to_svg(bias_heatmap(grid), key="grid", title="DPA", description="by bias"))
    for printed in (">.33<", ">.20<", ">−.20<", ">−.33<", "bias of the dataset", "DPA, A->T"):
        assert printed in svg


def test_heatmap_leaves_missing_cells_blank():
    grid = pd.DataFrame({"dataset_bias": [0.5, 1.0], "model_bias": [0.5, 0.5], "dpa": [np.nan, -0.2]})
    rows = bias_heatmap(grid).to_dict()["datasets"]
    assert [row["metric"] for part in rows.values() for row in part] == [-0.2]


def test_heatmap_of_a_fine_grid_has_no_numbers():
    biases = tuple(np.linspace(0, 1, 13))
    grid = pd.DataFrame([(d, m, d - m) for d in biases for m in biases], columns=["dataset_bias", "model_bias", "dpa"])
    assert len(bias_heatmap(grid).to_dict()["layer"]) == 1


def test_invalid_heatmaps_raise():
    with pytest.raises(ValueError, match="lacks the column dpa"):
        bias_heatmap(pd.DataFrame({"dataset_bias": [1.0], "model_bias": [1.0]}))
    with pytest.raises(ValueError, match="no value of 'dpa'"):
        bias_heatmap(pd.DataFrame({"dataset_bias": [1.0], "model_bias": [1.0], "dpa": [np.nan]}))
