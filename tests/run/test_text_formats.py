"""Formatting of numbers, and escaping of text."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline.run import formats
from pipeline.run.text import csv_text, latex_text, markdown_text, visible


@pytest.mark.parametrize(
    ("number", "printed"),
    [(-0.1204, "−0.120"), (0.12, "0.120"), (-0.0001, "0.000"), (math.nan, "–"), (None, "–"), (-math.inf, "−∞"),
     (12345.6, "12,345.600")],
)  # fmt: skip
def test_decimals_have_three_digits_and_typographic_signs(number, printed):
    assert formats.decimal(number) == printed


def test_plus_sign_is_optional():
    assert formats.decimal(0.12, sign=True) == "+0.120"
    assert formats.decimal(0.0, sign=True) == "0.000"


@pytest.mark.parametrize(
    ("p", "printed"), [(1e-9, "<0.001"), (0.0, "<0.001"), (0.001, "0.001"), (0.25, "0.250"), (math.nan, "–")]
)
def test_small_p_is_printed_as_a_bound(p, printed):
    assert formats.p_value(p) == printed


def test_p_in_sentences():
    assert formats.p_equals("q", 0.0001) == "q < 0.001"
    assert formats.p_equals("q", 0.0421) == "q = 0.042"


def test_intervals_are_joined_by_to():
    assert formats.interval(-0.2, -0.1) == "−0.200 to −0.100"
    assert formats.interval(math.nan, 1.0) == "–"


@pytest.mark.parametrize(("q", "marks"), [(0.0009, "***"), (0.001, "**"), (0.01, "*"), (0.05, ""), (math.nan, "")])
def test_stars_by_q(q, marks):
    assert formats.stars(q) == marks


def test_shares_below_one_are_not_rounded_to_one():
    assert formats.measured(1.0, "share") == "100 %"
    assert formats.measured(0.99996, "share") == "99.996 %"
    assert formats.measured(0.9999999999, "share") != "100 %"
    assert formats.measured(-1.234, "ΔL*") == "−1.23 ΔL*"
    assert formats.measured(math.nan, "share") == "–"


@pytest.mark.parametrize(
    ("figure", "limit", "unit", "printed"),
    [
        (0.8496, 0.85, "share", ("84.96 %", "85 %")),
        (0.84999996, 0.85, "share", ("84.999996 %", "85 %")),
        (0.8049, 0.8, "AUC", ("0.805 AUC", "0.8 AUC")),
        (0.3999, 0.4, "probability", ("0.3999", "0.4")),
        (-0.05002, 0.05, "probability", ("−0.05002", "0.05")),
        (0.45682, 0.45668, "share", ("45.68 %", "45.67 %")),
        (0.5, 0.4, "share", ("50.0 %", "40 %")),
        (25.96, 26.0, "dB", ("25.96 dB", "26 dB")),
        (0.4, 0.4, "probability", ("0.40", "0.4")),
        (math.inf, 26.0, "dB", ("∞ dB", "26 dB")),
        (None, 0.4, "", ("–", "0.4")),
        (1.0, math.nan, "share", ("100 %", "–")),
    ],
)
def test_figure_next_to_its_threshold_has_enough_digits(figure, limit, unit, printed):
    assert formats.next_to_threshold(figure, limit, unit) == printed


def test_durations():
    assert [formats.duration(s) for s in (0.42, 12, 185, 7620)] == ["0.4 s", "12 s", "3 min 05 s", "2 h 07 min"]


def test_invisible_characters_are_replaced_by_code_points():
    assert visible("a\u202eb\nc\x00\ud800") == "a[U+202E]b[U+000A]c[U+0000][U+D800]"
    assert visible("e\u0301 中文 👩\u200d🚀") == "e\u0301 中文 👩\u200d🚀"


@pytest.mark.parametrize("label", ["=1+1", "+1", "-1", "@x", " =1", "＝1"])
def test_csv_escapes_spreadsheet_formulas(label):
    assert csv_text(label) == "'" + label


def test_markdown_escapes_special_characters():
    assert markdown_text("a|b*c_<i>") == r"a\|b\*c\_\<i\>"


def test_latex_escapes_special_characters():
    assert latex_text(r"\&%$#_{}~^") == (r"\textbackslash{}\&\%\$\#\_\{\}\textasciitilde{}\textasciicircum{}")
    assert latex_text("é ß − –") == r"\'{e} \ss{} $-$ --"
    assert latex_text("a--b") == "a-{}-b"
    assert latex_text("中") == "{[}U+4E2D{]}"


@given(st.text())
def test_latex_is_ascii_with_balanced_braces(text):
    escaped = latex_text(text)
    assert escaped.isascii()
    assert escaped.isprintable()
    bare = escaped.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")


@given(st.text())
def test_csv_cells_have_neither_line_breaks_nor_formulas(text):
    cell = csv_text(text)
    assert len(cell.splitlines()) <= 1
    assert not cell.lstrip().startswith(("=", "+", "-", "@"))
