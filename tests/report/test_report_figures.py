"""Figures for papers: the same bytes each time, fonts inside, names and captions that stand alone."""

import re
import shutil
import subprocess
from xml.etree import ElementTree as Xml

import pandas as pd
import pytest

from pipeline.report.card import CheckResult
from pipeline.report.figures import attribute_figures, draw, finding_figures
from pipeline.report.tables import slope_tables

FAILED = CheckResult("effect", "gender", "0.10", "0.4", "fails", "")


def drawn(slopes, straight, **options):
    (table,) = slope_tables(slopes, card=options.pop("card", ()))
    return finding_figures(table, slopes=slopes, curves=straight(slopes), **options)


def test_curves_and_intervals_with_captions(slopes, straight):
    curves, intervals = drawn(slopes, straight)
    assert [curves.name, intervals.name] == ["clarity-gender-curves", "clarity-gender-intervals"]
    assert "“long hair”, “smile”, “beard”" in curves.caption
    assert "95 % intervals" in curves.caption
    assert "p < 0.001 and |slope| > 0.03" in intervals.caption
    assert "on 400 photos" in intervals.caption


def test_chosen_labels_are_drawn(slopes, straight):
    curves, _ = drawn(slopes, straight, labels=["tie", "of another classifier"])
    assert "selected labels: “tie”" in curves.caption
    (only,) = drawn(slopes, straight, labels=["of another classifier"])
    assert only.name.endswith("intervals")


def test_without_findings_the_caption_says_what_is_not_there(frame, row, straight):
    figures = drawn(frame(row("hat", 0.01, width=0.06, p=0.6)), straight)
    assert all("no evidence of an effect larger than 0.070" in figure.caption for figure in figures)
    assert drawn(frame(row("hat", reason="too rare")), straight) == []


def test_the_caption_warns_of_a_failed_card(slopes, straight):
    for figure in drawn(slopes, straight, card=[FAILED]):
        assert "The validity card fails for gender: effect (0.10, threshold 0.4)" in figure.caption


def test_what_the_edit_did():
    judged = pd.DataFrame({"value": [-2, 0, 2], "mean": [0.1, 0.5, 0.9], "low": [0, 0.4, 0.8], "high": [0.2, 0.6, 1]})
    groups = [f"group {number}" for number in range(8)]
    light = pd.DataFrame([{"group": g, "photos": 5 + i, "value": a, "change": a / 9}
                          for i, g in enumerate(groups) for a in (-2.0, 0.0, 2.0)])  # fmt: skip
    effect, lightness = attribute_figures("gender", effectiveness=judged, lightness=light)
    assert (effect.name, lightness.name) == ("gender-effectiveness", "gender-lightness")
    assert "from 0.10 to 0.90" in effect.caption
    assert "the 6 largest of 8 source groups" in lightness.caption
    shown = draw(lightness.chart, "svg").decode()
    assert "group 7 (12)" in shown
    assert "group 0 (5)" not in shown
    assert attribute_figures("gender", effectiveness=judged[:0], lightness=light[:0]) == []


@pytest.mark.parametrize("format", ["pdf", "svg", "png"])
def test_the_same_figure_gives_the_same_bytes(slopes, straight, format):
    first, second = ([draw(figure.chart, format) for figure in drawn(slopes, straight)] for _ in range(2))
    assert first == second
    assert all(content.startswith({"pdf": b"%PDF", "svg": b"<svg", "png": b"\x89PNG"}[format]) for content in first)


def test_text_stays_text_and_is_escaped(hostile, frame, row, straight):
    slopes = frame(*(row(label, 0.1 + 0.01 * i) for i, label in enumerate(hostile)))
    for figure in drawn(slopes, straight):
        root = Xml.fromstring(draw(figure.chart, "svg"))
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert "script" not in tags
        assert "image" not in tags
        assert "\u202e" not in figure.caption
        assert draw(figure.chart, "pdf").startswith(b"%PDF")


def test_an_unknown_format_is_refused(slopes, straight):
    with pytest.raises(ValueError, match="there is no format 'gif' for figures; choose from pdf, svg, png"):
        draw(drawn(slopes, straight)[0].chart, "gif")


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="no pdffonts (poppler) on this machine")
def test_fonts_are_inside_the_pdf(slopes, straight, tmp_path):
    for figure in drawn(slopes, straight):
        (tmp_path / "figure.pdf").write_bytes(draw(figure.chart, "pdf"))
        listed = subprocess.run(["pdffonts", "figure.pdf"], cwd=tmp_path, capture_output=True, text=True, check=True)
        fonts = listed.stdout.splitlines()[2:]
        assert fonts
        assert all(re.search(r"\s(yes)\s+(yes)\s+(yes)\s+\d+", line) for line in fonts), listed.stdout
