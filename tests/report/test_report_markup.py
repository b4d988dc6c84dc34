"""Tables as text, Markdown, LaTeX, HTML, CSV and JSON."""

import io
import json
from pathlib import Path
from xml.etree import ElementTree as Xml

import pandas as pd
import pytest

from pipeline.report.markup import FORMATS, chosen_format, render_frame


@pytest.fixture
def table() -> pd.DataFrame:
    return pd.DataFrame(
        {
            "label": ["a|b", "=1+1"],
            "slope": [-0.12345, float("nan")],
            "p": [1e-6, 0.2],
            "photos": [1234, 5],
            "photos_for_width": [1200.0, float("inf")],
            "estimable": [True, False],
        }
    )


def unpadded(line: str) -> str:
    """A row of a Markdown table without alignment."""
    return " ".join(line.split())


def test_csv_and_json_keep_full_precision(table):
    csv = pd.read_csv(io.StringIO(render_frame(table, "csv")))
    assert csv["slope"][0] == -0.12345
    assert csv["label"][1] == "'=1+1", "not a spreadsheet formula"
    rows = json.loads(render_frame(table, "json"))
    assert rows[0] == {
        "label": "a|b", "slope": -0.12345, "p": 1e-6, "photos": 1234, "photos_for_width": 1200.0, "estimable": True,
    }  # fmt: skip
    assert rows[1]["slope"] is None
    assert rows[1]["photos_for_width"] is None


def test_markdown_rounds_and_escapes(table):
    lines = [unpadded(line) for line in render_frame(table, "md", title="Slopes").splitlines()]
    assert lines[0] == "**Slopes**"
    assert lines[2] == "| label | slope | p | photos | photos for width | estimable |"
    assert lines[4] == "| a\\|b | −0.123 | \\<0.001 | 1,234 | 1,200 | yes |"
    assert lines[5].startswith("| =1+1 | – | 0.200 | 5 | ∞ | no |")


def test_latex_is_one_table(table):
    text = render_frame(table, "latex", title="50 % of _all_")
    assert r"\caption{50 \% of \_all\_}" in text
    assert r"\begin{tabular}{@{}lrrrrl@{}}" in text
    assert text.count(r"\\") == 3


def test_text_is_aligned(table):
    title, empty, *lines = render_frame(table, "text", title="Slopes").splitlines()
    assert (title, empty) == ("Slopes", "")
    assert len({line.index("yes") for line in lines if "yes" in line}) == 1
    assert len(lines) == 3


@pytest.mark.parametrize("format", [*FORMATS, "text"])
def test_empty_table_is_rendered(table, format):
    assert render_frame(table.iloc[:0], format)


def test_unknown_format_raises(table):
    with pytest.raises(ValueError, match="there is no format 'xml'"):
        render_frame(table, "xml")


def test_html_is_one_table_in_ascii(table):
    text = render_frame(table, "html", title="50 % <b>. µ")
    assert text.isascii()
    parsed = Xml.fromstring(text)
    assert "".join(parsed.find("caption").itertext()) == "50 % <b>. µ"
    first = [cell.text for cell in parsed.find("tbody/tr").findall("td")]
    assert first == ["a|b", "−0.123", "<0.001", "1,234", "1,200", "yes"]
    assert [cell.get("scope") for cell in parsed.findall("thead/tr/th")] == ["col"] * 6


def test_selected_columns_apply_to_text_formats_only(table):
    short = table[["label"]]
    assert unpadded(render_frame(table, "md", printed=short).splitlines()[0]) == "| label |"
    assert render_frame(table, "csv", printed=short) == render_frame(table, "csv")


@pytest.mark.parametrize(
    ("format", "file", "chosen"),
    [
        (None, None, "text"),
        ("md", None, "md"),
        (None, "a.TEX", "latex"),
        ("csv", "a.tex", "csv"),
        (None, "a.txt", "text"),
    ],
)
def test_format_is_given_or_follows_from_the_extension(format, file, chosen):
    assert chosen_format(format, file and Path(file)) == chosen


def test_unknown_extension_raises():
    with pytest.raises(ValueError, match=r"the ending of table.docx is not one of"):
        chosen_format(None, Path("table.docx"))
