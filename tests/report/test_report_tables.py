"""The tables of findings and their formats."""

import csv
import io
import json
from xml.etree import ElementTree as Xml

import pandas as pd
from report_frames import HOSTILE, slope_row, slopes_frame

from pipeline.config.attributes import ATTRIBUTES
from pipeline.report.card import CheckResult
from pipeline.report.tables import RENDERERS, slope_tables, to_csv, to_json, to_latex
from pipeline.run.text import visible

to_markdown, to_html, to_text = (RENDERERS[format] for format in ("md", "html", "text"))


def test_findings_are_split_by_direction_and_sorted_by_size(slopes):
    (table,) = slope_tables(slopes)
    assert list(table.negative["label"]) == ["long hair", "smile"]
    assert list(table.positive["label"]) == ["beard"]


def test_thresholds_are_options(slopes):
    (table,) = slope_tables(slopes, max_p=0.0001, min_slope=0.2)
    assert list(table.negative["label"]) == ["long hair"]
    assert table.positive.empty
    (loose,) = slope_tables(slopes, max_p=1, min_slope=0)
    assert set(loose.positive["label"]) == {"beard", "tie", "hat"}


def test_note_has_the_rule_and_the_excluded_labels(slopes):
    (table,) = slope_tables(slopes)
    assert "p < 0.001 and |slope| > 0.03; 3 of 5 tested labels, 400 photos" in table.note
    assert "1 too rare" in table.note
    assert "1 constant" in table.note
    assert "*** q < 0.001" in table.note


def test_note_lists_findings_explained_by_truncation(slopes):
    (table,) = slope_tables(slopes.assign(truncation=slopes["slope"].abs().where(slopes["label"] == "smile", 0.0)))
    assert "Cut-off scores alone could cause the slope of: smile." in table.note
    assert "cuts off" not in slope_tables(slopes)[0].note


def test_tables_per_adapter_and_attribute():
    rows = [
        slope_row("x", 0.1, adapter=adapter, attribute=attribute)
        for adapter in "ba"
        for attribute in ("gender", "race")
    ]
    tables = slope_tables(
        slopes_frame(*rows, slope_row("x", 0.5, arm="random")),
        swept={"race": ATTRIBUTES["race"].with_poles(("Asian", "Indian"))},
    )
    assert [(table.adapter, table.attribute) for table in tables] == [
        ("b", "gender"), ("b", "race"), ("a", "gender"), ("a", "race"),
    ]  # fmt: skip
    assert tables[1].poles.low == "Perceived Asian"


def test_markdown_has_the_published_layout(slopes):
    lines = [" ".join(line.split()) for line in to_markdown(slope_tables(slopes)).splitlines()]
    assert lines[2] == (
        "| Perceived feminine (slope \\< 0): label | Slope | 95 % interval | p | q "
        "| Perceived masculine (slope \\> 0): label | Slope | 95 % interval | p | q |"
    )
    assert lines[4] == (
        "| long hair | −0.310\\*\\*\\* | −0.330 to −0.290 | \\<0.001 | \\<0.001 "
        "| beard | 0.250\\*\\*\\* | 0.230 to 0.270 | \\<0.001 | \\<0.001 |"
    )
    assert lines[5] == "| smile | −0.120\\*\\*\\* | −0.140 to −0.100 | \\<0.001 | \\<0.001 | | | | | |"


def test_latex_has_the_published_layout(slopes):
    text = to_latex(slope_tables(slopes))
    assert r"\toprule" in text
    assert r"\multicolumn{5}{@{}c}{Perceived feminine (slope \textless{} 0)}" in text
    assert r"\multicolumn{5}{c@{}}{Perceived masculine (slope \textgreater{} 0)}" in text
    assert r"Label & Slope & 95 \% interval & $p$ & $q$ & Label" in text
    assert (
        r"long hair & $-$0.310{*}{*}{*} & $-$0.330 to $-$0.290 & \textless{}0.001 & \textless{}0.001 & "
        r"beard & 0.250{*}{*}{*} & 0.230 to 0.270 & \textless{}0.001 & \textless{}0.001 \\"
    ) in text


def test_csv_round_trip(slopes):
    (table,) = slope_tables(slopes)
    back = pd.read_csv(io.StringIO(to_csv([table])))
    assert list(back["label"]) == ["long hair", "smile", "beard"]
    assert list(back["direction"]) == ["perceived feminine"] * 2 + ["perceived masculine"]
    called = pd.concat([table.negative, table.positive])
    for column in ("slope", "slope_low", "slope_high", "p", "q", "ols_p", "rd_slope", "inner_p", "y_c"):
        assert list(back[column]) == list(called[column])


def test_json_is_strict_and_keeps_labels():
    unbounded = slope_row("endless", 0.3) | {"slope_high": float("inf")}
    (table,) = json.loads(to_json(slope_tables(slopes_frame(unbounded, *(slope_row(label, 0.2) for label in HOSTILE)))))
    assert table["findings"][0]["slope_high"] is None
    assert {found["label"] for found in table["findings"]} == {"endless", *HOSTILE}


def test_table_without_findings():
    tables = slope_tables(slopes_frame(slope_row("hat", 0.01, p=0.5)))
    assert "No label meets the rule." in to_latex(tables)
    assert "No label meets the rule." in to_markdown(tables)
    assert to_csv(tables).count("\n") == 1
    assert json.loads(to_json(tables))[0]["findings"] == []


def test_table_without_estimable_labels():
    tables = slope_tables(slopes_frame(slope_row("hat", reason="too rare")))
    for text in (to_latex(tables), to_markdown(tables)):
        assert "No label could be tested." in text
        assert "meets the rule" not in text


def test_empty_frame_has_no_tables():
    assert slope_tables(slopes_frame()) == ()


def test_hostile_labels_are_escaped_in_csv():
    tables = slope_tables(slopes_frame(*(slope_row(label, 0.2) for label in HOSTILE)))
    lines = list(csv.reader(io.StringIO(to_csv(tables))))
    assert len(lines) == 1 + len(HOSTILE)
    assert {len(line) for line in lines} == {len(lines[0])}
    assert not any(line[4].startswith(("=", "+", "-", "@", "＝")) for line in lines)


def test_hostile_labels_are_escaped_in_markdown():
    lines = to_markdown(slope_tables(slopes_frame(*(slope_row(label, 0.2) for label in HOSTILE)))).splitlines()[4:]
    assert len(lines) == len(HOSTILE)
    for line in lines:
        assert line.replace("\\\\", "").replace("\\|", "").count("|") == 11
        assert "<script" not in line.replace("\\<", "")
        assert "https:" not in line


def test_hostile_labels_are_escaped_in_html():
    text = to_html(slope_tables(slopes_frame(*(slope_row(label, 0.2) for label in HOSTILE))))
    assert text.isascii()
    parsed = Xml.fromstring(text)
    allowed = {"table", "caption", "strong", "thead", "tbody", "tr", "th", "td"}
    assert {element.tag for element in parsed.iter()} <= allowed
    lines = parsed.findall("tbody/tr")
    # Slopes of equal size are sorted by the text of the label.
    assert [line.findall("td")[5].text for line in lines] == [visible(label) for label in sorted(HOSTILE)]
    assert "p < 0.001 and |slope| > 0.03" in "".join(parsed.find("caption").itertext())


def test_text_has_both_directions(slopes):
    lines = to_text(slope_tables(slopes)).splitlines()
    assert lines[2].startswith("Perceived feminine (slope < 0)")
    assert lines[2].index("Perceived masculine") == lines[3].rindex("Label")


def test_captions_warn_of_failed_checks(slopes):
    card = [CheckResult("effect", "gender", "0.10", "0.4", "fails", "")]
    for render in (to_latex, to_markdown, to_html, to_text):
        assert "The validity card fails for gender" in render(slope_tables(slopes, card=card))
        assert "validity card" not in render(slope_tables(slopes))
