"""The sections of the analyses on the page."""

import re
import xml.etree.ElementTree as Xml

import pandas as pd
import pytest
from report_frames import HOSTILE, render_page
from section_frames import NAN, amplification_frame, comparison_rows, local_frames, representation_rows

from pipeline.analyses.base import Kept
from pipeline.analyses.registry import analysis, sections
from pipeline.analyses.sections import Dots
from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.charts import chart_of
from pipeline.report.views import section_views

CARD = [("effectiveness", "gender", 0.2, "", 0.9, False, "")]
ABOUT = {
    "amplification": {"base": "a table", "level": 0.95},
    "representation": {"by": "keyword", "notes": []},
    "comparison": {"other": "june", "only_first": 0, "only_second": 0},
}


@pytest.fixture
def page_of(slopes):
    def render(tables, *, stale=None, pictures=None):
        found = sections(tables, about=ABOUT, stale=stale or {}, swept=ATTRIBUTES)
        return render_page(slopes, card=CARD, sections=found, pictures=pictures or {})

    return render


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


def test_sections_are_ordered_with_headings_and_captions(page_of):
    html = page_of(tables(), pictures={"feminine-1.jpg": b"RIFF"})
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


def test_section_warns_of_failed_checks(page_of):
    (section,) = re.findall(r'<section class="extra" id="extra-amplification".*?</h3>', page_of(tables()), re.DOTALL)
    assert "Read with care" in section
    assert "effectiveness" in section


def test_warning_is_shown_once_per_section_and_its_reasons_once(page_of):
    html = page_of(tables())
    parts = re.split(r'<section class="(?=extra"|block")', html)[1:]
    assert len(parts) == 6, "the slopes of one classifier, and five sections"
    assert [part.count("Read with care") for part in parts] == [1, 1, 1, 1, 0, 0], (
        "local bias and representation are of photos"
    )
    first = html[: html.index('<section class="block"')]
    assert first.count("Read with care") == first.count("effectiveness (0.20, threshold 0.9)") == 1


def test_empty_tables_have_no_section_and_stale_tables_are_listed(page_of):
    empty = {name: frame[:0] for name, frame in tables().items()}
    assert '<section class="extra"' not in page_of(empty)
    html = page_of({}, stale={"comparison": "labels.parquet has changed since"})
    assert "comparison: labels.parquet has changed since; run counterslope compare again." in html


def test_hostile_names_are_escaped_in_sections(page_of):
    runs = [tables(label=name) for name in HOSTILE]
    html = page_of({name: pd.concat([run[name] for run in runs], ignore_index=True) for name in runs[0]})
    assert html.count("&lt;img src=x") > 5
    assert "<img src=x" not in html
    assert "<script>alert" not in html
    assert "\u202e" not in html


def test_chart_with_missing_and_infinite_ends():
    ends = {"low": [NAN, -float("inf"), -0.1], "high": [NAN, 0.1, 0.1]}
    rows = pd.DataFrame({"label": ["a", "b", "a"], "value": [0.1, -0.2, 0.0], **ends})
    words = {"axis": "slope", "title": "", "description": "", "caption": ""}
    chart = chart_of(Dots(rows, **words)).to_dict()
    data = next(values for values in chart["datasets"].values() if "sure" in values[0])
    assert [row["low"] <= row["value"] <= row["high"] for row in data] == [True] * 3
    assert [row["sure"] for row in data] == [True, False, False]
    with pytest.raises(ValueError, match="at least 1 row"):
        chart_of(Dots(rows[:0], **words))


def test_hostile_names_are_text_in_charts_and_cells():
    labels = comparison_rows(*((name, 0.1, 0.02, 0.001) for name in HOSTILE), first=HOSTILE[0], second=HOSTILE[1])
    found = analysis("comparison").sections(Kept({"adapter_comparison": labels}, {}, ATTRIBUTES))
    ((chart, _),) = section_views(found, card=(), pictures={})[0]["parts"][0]["charts"]
    svg = Xml.fromstring(chart)
    assert not [element for element in svg.iter() if element.tag.endswith(("script", "img", "style"))]
    tasks = amplification_frame(*((name, 0.1, 0.0, 0.2) for name in HOSTILE), adapter=HOSTILE[2])
    about = {"base": "a table", "level": 0.95}
    found = analysis("amplification").sections(Kept({"amplification": tasks}, about, ATTRIBUTES))
    ((table,),) = [part["tables"] for part in section_views(found, card=(), pictures={})[0]["parts"]]
    assert len(table.rows) == len(HOSTILE)
