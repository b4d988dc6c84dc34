"""The report's further sections on the page: in order, escaped, readable by a machine that reads aloud."""

import re
import xml.etree.ElementTree as Xml

import pandas as pd
import pytest
from section_frames import NAN, amplification_frame, comparison_rows, local_frames, representation_rows

from pipeline.analyses.base import Kept
from pipeline.analyses.registry import analysis, sections
from pipeline.analyses.sections import Dots
from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.charts import chart_of
from pipeline.report.page import render
from pipeline.report.sections import section_views
from pipeline.run.record import RunRecord

CARD = pd.DataFrame(
    [("effectiveness", "gender", 0.2, "", 0.9, False, "")],
    columns=["name", "attribute", "figure", "unit", "threshold", "passed", "words"],
)
ABOUT = {
    "amplification": {"base": "a table", "level": 0.95},
    "representation": {"by": "keyword", "notes": []},
    "comparison": {"other": "june", "only_first": 0, "only_second": 0},
}


@pytest.fixture
def page(slopes, straight):
    def made(tables, *, stale=None, pictures=None):
        return render(
            slopes=slopes,
            curves=straight(slopes),
            card=CARD,
            record=RunRecord(),
            exclusions=pd.DataFrame(columns=["photo", "reason"]),
            sections=sections(tables, about=ABOUT, stale=stale or {}, swept=ATTRIBUTES),
            pictures=pictures or {},
        )

    return made


def tables(label="smile"):
    statistics, clusters, exemplars = local_frames((0.3, 0.01, True), label=label)
    return {
        "adapter_comparison": comparison_rows((label, 0.2, 0.05, 0.001)),
        "comparison": comparison_rows((label, 0.1, 0.05, 0.001), first="may: a", second="june: a"),
        "amplification": amplification_frame((label, 0.05, 0.01, 0.09)),
        "local_statistics": statistics,
        "local_clusters": clusters,
        "local_exemplars": exemplars,
        "representation": representation_rows((label, 0.9), ("other", 0.2)),
    }


def test_sections_stand_in_their_order_with_headings_and_captions(page):
    html = page(tables(), pictures={"feminine-1.jpg": b"RIFF"})
    found = re.findall(r'<section class="extra" id="extra-([a-z-]+)"', html)
    assert found == ["classifiers", "runs", "amplification", "local", "representation"]
    ids = re.findall(r'\bid="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    sheets = re.findall(r'<table class="sheet">.*?</table>', html, re.DOTALL)
    assert len(sheets) == 5
    for sheet in sheets:
        assert "<caption" in sheet
        assert sheet.count('<th scope="row">') == sheet.count("<tr>") - 1
    assert 'alt="feminine-1.jpg"' in html
    assert "data:image/webp;base64," in html


def test_a_failed_card_stands_over_what_it_concerns(page):
    (section,) = re.findall(r'<section class="extra" id="extra-amplification".*?</h3>', page(tables()), re.DOTALL)
    assert "Read with care" in section
    assert "effectiveness" in section


def test_a_banner_stands_once_over_each_section_and_its_reasons_once_on_the_first_screen(page):
    html = page(tables())
    parts = re.split(r'<section class="(?=extra"|block")', html)[1:]
    assert len(parts) == 6, "the slopes of one classifier, and five sections"
    assert [part.count("Read with care") for part in parts] == [1, 1, 1, 1, 0, 0], "local bias and shares are of photos"
    first = html[: html.index('<section class="block"')]
    assert first.count("Read with care") == first.count("effectiveness (0.20, threshold 0.9)") == 1


def test_empty_tables_have_no_section_and_stale_ones_are_named(page):
    empty = {name: frame[:0] for name, frame in tables().items()}
    assert '<section class="extra"' not in page(empty)
    html = page({}, stale={"comparison": "labels.parquet has changed since"})
    assert "comparison: labels.parquet has changed since; run counterslope compare again." in html


def test_nothing_hostile_gets_out_of_its_place(page, hostile):
    named = [tables(label=name) for name in hostile]
    html = page({name: pd.concat([each[name] for each in named], ignore_index=True) for name in named[0]})
    assert html.count("&lt;img src=x") > 5
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    assert "\u202e" not in html


def test_a_chart_survives_missing_and_infinite_ends():
    rows = pd.DataFrame(
        {
            "label": ["a", "b", "a"],
            "value": [0.1, -0.2, 0.0],
            "low": [NAN, -float("inf"), -0.1],
            "high": [NAN, 0.1, 0.1],
        }
    )
    words = {"axis": "slope", "title": "", "description": "", "caption": ""}
    chart = chart_of(Dots(rows, **words)).to_dict()
    data = next(values for values in chart["datasets"].values() if "sure" in values[0])
    assert [row["low"] <= row["value"] <= row["high"] for row in data] == [True] * 3
    assert [row["sure"] for row in data] == [True, False, False]
    with pytest.raises(ValueError, match="at least 1 row"):
        chart_of(Dots(rows[:0], **words))


def test_hostile_names_stay_text_in_charts_and_cells(hostile):
    labels = comparison_rows(*((name, 0.1, 0.02, 0.001) for name in hostile), first=hostile[0], second=hostile[1])
    found = analysis("comparison").sections(Kept({"adapter_comparison": labels}, {}, ATTRIBUTES))
    ((chart, _),) = section_views(found, card=(), pictures={})[0]["parts"][0]["charts"]
    svg = Xml.fromstring(chart)
    assert not [element for element in svg.iter() if element.tag.endswith(("script", "img", "style"))]
    tasks = amplification_frame(*((name, 0.1, 0.0, 0.2) for name in hostile), adapter=hostile[2])
    about = {"base": "a table", "level": 0.95}
    found = analysis("amplification").sections(Kept({"amplification": tasks}, about, ATTRIBUTES))
    ((table,),) = [part["tables"] for part in section_views(found, card=(), pictures={})[0]["parts"]]
    assert len(table.rows) == len(hostile)
