"""Figures for papers: names, captions, formats and fonts."""

import re
import shutil
import subprocess
from xml.etree import ElementTree as Xml

import pandas as pd
import pytest
from report_frames import HOSTILE, curves_frame, slope_row, slopes_frame

from pipeline.report.card import CheckResult
from pipeline.report.figures import attribute_figures, draw, finding_figures
from pipeline.report.tables import slope_tables

FAILED = CheckResult("effect", "gender", "0.10", "0.4", "fails", "")


def figures_of(slopes, **options):
    (table,) = slope_tables(slopes, card=options.pop("card", ()))
    return finding_figures(table, slopes=slopes, curves=curves_frame(slopes), **options)


def test_curves_and_intervals_have_names_and_captions(slopes):
    curves, intervals = figures_of(slopes)
    assert [curves.name, intervals.name] == ["clarity-gender-curves", "clarity-gender-intervals"]
    assert "“long hair”, “smile”, “beard”" in curves.caption
    assert "95 % intervals" in curves.caption
    assert "p < 0.001 and |slope| > 0.03" in intervals.caption
    assert "on 400 photos" in intervals.caption


def test_selected_labels_are_drawn(slopes):
    curves, _ = figures_of(slopes, labels=["tie", "of another classifier"])
    assert "selected labels: “tie”" in curves.caption
    (only,) = figures_of(slopes, labels=["of another classifier"])
    assert only.name.endswith("intervals")


def test_caption_without_findings_bounds_the_effect():
    figures = figures_of(slopes_frame(slope_row("hat", 0.01, width=0.06, p=0.6)))
    assert all("no evidence of an effect larger than 0.070" in figure.caption for figure in figures)
    assert figures_of(slopes_frame(slope_row("hat", reason="too rare"))) == []


def test_caption_warns_of_failed_checks(slopes):
    for figure in figures_of(slopes, card=[FAILED]):
        assert "The validity card fails for gender: effect (0.10, threshold 0.4)" in figure.caption


def test_figures_of_an_attribute():
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
def test_figures_are_reproducible(slopes, format):
    first, second = ([draw(figure.chart, format) for figure in figures_of(slopes)] for _ in range(2))
    assert first == second
    assert all(content.startswith({"pdf": b"%PDF", "svg": b"<svg", "png": b"\x89PNG"}[format]) for content in first)


def test_hostile_labels_are_text_in_figures():
    slopes = slopes_frame(*(slope_row(label, 0.1 + 0.01 * i) for i, label in enumerate(HOSTILE)))
    for figure in figures_of(slopes):
        root = Xml.fromstring(draw(figure.chart, "svg"))
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert "script" not in tags
        assert "image" not in tags
        assert "\u202e" not in figure.caption
        assert draw(figure.chart, "pdf").startswith(b"%PDF")


@pytest.mark.skipif(shutil.which("pdffonts") is None, reason="no pdffonts (poppler) on this machine")
def test_fonts_are_embedded_in_the_pdf(slopes, tmp_path):
    for figure in figures_of(slopes):
        (tmp_path / "figure.pdf").write_bytes(draw(figure.chart, "pdf"))
        listed = subprocess.run(["pdffonts", "figure.pdf"], cwd=tmp_path, capture_output=True, text=True, check=True)
        fonts = listed.stdout.splitlines()[2:]
        assert fonts
        assert all(re.search(r"\s(yes)\s+(yes)\s+(yes)\s+\d+", line) for line in fonts), listed.stdout
