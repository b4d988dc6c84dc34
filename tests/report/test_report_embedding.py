"""Data and charts embedded in the page."""

import base64
import hashlib
import json
import re
from xml.etree import ElementTree as Xml

import pytest
from hypothesis import given
from hypothesis import strategies as st
from report_frames import HOSTILE, curves_frame, slope_row, slopes_frame

from pipeline.report.embedding import SHOWN, as_data_block, curve_figure, source_hash
from pipeline.report.words import poles_of
from pipeline.run.text import visible

SVG = "{http://www.w3.org/2000/svg}"
BLOCK = re.compile(r'<script type="application/json" id="data">(.*)</script>', re.DOTALL)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


def as_visible(value):
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, list):
        return [as_visible(item) for item in value]
    if isinstance(value, dict):
        return {visible(name): as_visible(item) for name, item in value.items()}
    return value


@given(values)
def test_data_block_round_trip(value):
    content = BLOCK.fullmatch(as_data_block(value, id="data"))[1]
    assert json.loads(content) == as_visible(value)
    assert not re.search("[<>&\u2028\u2029]", content)
    content.encode("utf-8")


def test_data_block_with_hostile_text_has_no_end_tag():
    content = BLOCK.fullmatch(as_data_block(list(HOSTILE), id="data"))[1]
    assert "</" not in content
    assert "<!--" not in content


def test_nan_in_a_data_block_raises():
    with pytest.raises(ValueError, match="not JSON compliant"):
        as_data_block([float("nan")], id="data")


@pytest.mark.parametrize("bad", ["", "1a", 'a" onload="', "A", "a b"])
def test_invalid_id_raises(bad):
    with pytest.raises(ValueError, match="is not an id"):
        as_data_block(1, id=bad)


def test_source_hash_is_that_of_a_content_security_policy():
    digest = base64.b64encode(hashlib.sha256("é".encode()).digest()).decode()
    assert source_hash("é") == f"'sha256-{digest}'"


def test_curve_figure_has_a_group_per_label_and_shows_six():
    names = [f"label {n}" for n in range(9)]
    curves = curves_frame(slopes_frame(*(slope_row(name, 0.3 - 0.03 * n) for n, name in enumerate(names))))
    root = Xml.fromstring(curve_figure(curves, names, poles_of("gender"), shown=SHOWN, key="c", title="Curves"))
    groups = [group for group in root.iter(f"{SVG}g") if group.get("data-series")]
    assert [group.get("display") for group in groups] == [None] * SHOWN + ["none"] * 3
    assert [group.find(f"{SVG}text").text for group in groups] == names
    assert groups[0].find(f"{SVG}title").text == "label 0: z from 0.40 to 1.60"
    assert root.find(f"{SVG}desc").text.count("z from") == SHOWN
    for group in groups:
        kinds = [mark.tag.removeprefix(SVG) for mark in group]
        assert sorted(kinds) == ["line", *["path"] * 7, "text", "title"]
        assert {mark.get("stroke", "currentColor") for mark in group} == {"currentColor"}
    outside = [e for e in root.iter() if e.tag == f"{SVG}text" and e.text in names]
    assert len(outside) == 9


def test_curve_figure_with_hostile_labels_has_only_graphics():
    slopes = slopes_frame(*(slope_row(label, 0.1 + 0.01 * n) for n, label in enumerate(HOSTILE)))
    root = Xml.fromstring(
        curve_figure(curves_frame(slopes), HOSTILE, poles_of("gender"), shown=3, key="c", title="Curves")
    )
    tags = {element.tag.removeprefix(SVG) for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "g", "path", "line", "text", "rect"}
