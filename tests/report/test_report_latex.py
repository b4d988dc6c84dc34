"""LaTeX compiles as it is, whatever labels hold; where a TeX engine with booktabs is installed."""

import re
import shutil
import subprocess

import pandas as pd
import pytest

from pipeline.report.markup import render_frame
from pipeline.report.tables import slope_tables, to_latex

DOCUMENT = r"""\documentclass{article}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\begin{document}
%s\end{document}
"""
WORSE = (
    "\U0001f469\u200d\U0001f680 emoji",
    "\u05e9\u05dc\u05d5\u05dd \u0627\u0644",
    "{[]}",
    "a" * 300,
    "\u0301\u0301",
    "%",
    "\\",
)


def has_booktabs():
    found = shutil.which("kpsewhich") and subprocess.run(["kpsewhich", "booktabs.sty"], capture_output=True, text=True)
    return bool(found and found.stdout.strip())


@pytest.fixture(scope="module")
def compiled():
    """Compiles a document in a folder; its log."""
    if shutil.which("pdflatex") is None or not has_booktabs():
        pytest.skip("no TeX engine (pdflatex) with booktabs on this machine")

    def run(text, folder):
        (folder / "table.tex").write_text(text, encoding="utf-8")
        done = subprocess.run(
            ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "table.tex"],
            cwd=folder, capture_output=True, timeout=300,
        )  # fmt: skip
        log = done.stdout.decode(errors="replace")
        assert done.returncode == 0, log[-2000:]
        assert (folder / "table.pdf").is_file()
        return log

    return run


def test_findings_with_hostile_labels(compiled, frame, row, hostile, tmp_path):
    labels = (*hostile, *WORSE)
    rows = [row(label, sign * 0.2, adapter=r"my_api & 100% {x}") for label in labels for sign in (1, -1)]
    log = compiled(DOCUMENT % to_latex(slope_tables(frame(*rows))), tmp_path)
    assert "Missing character" not in log


NAMES = ("frontal face", "a label as long as services give them, with a comma", "Facial expression", "eyeglasses")
NET = ("placebo", "net_slope", "net_low", "net_high", "exceeds_placebos")


def findings(frame, row):
    """Both sides full, with placebos: the widest table that there is."""
    rows = [row(label, sign * 0.2) for label in NAMES for sign in (1, -1)]
    rows = [
        each | {"placebo": "random", "net_slope": 0.1, "net_low": 0.05, "net_high": 0.15, "exceeds_placebos": True}
        for each in rows
    ]
    return slope_tables(frame(*rows).assign(**{name: [each[name] for each in rows] for name in NET}))


def test_findings_fit_the_width_of_two_columns(frame, row):
    text = to_latex(findings(frame, row))
    assert r"\begin{table*}" in text, "a float over both columns"
    assert r"\footnotesize" in text
    *_, heading = text.split(r"\midrule")[0].strip().splitlines()
    assert "Edit" in heading, "with what placebos leave"
    lines = [heading, *text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()]
    cells = [[re.sub(r"\\\w+|[${}\\]", "", cell).strip() for cell in line.split("&")] for line in lines]
    wrapped = [place for place, kind in enumerate(columns_of(text)) if kind.startswith("p")]
    # 8 pt letters are about 3.9 pt wide; 3 pt stand on both sides of each column. CVPR's pages are 496 pt wide.
    each = [3.9 * max(len(line[place]) for line in cells) for place in range(len(cells[0])) if place not in wrapped]
    assert sum(each) + 6 * len(cells[0]) + 496 * 0.17 * len(wrapped) <= 496


def columns_of(text):
    return re.findall(r"p\{[^}]*\}|[lr]", re.search(r"begin\{tabular\}\{@\{\}(.*)@\{\}\}", text)[1])


def test_findings_compile_over_two_columns_without_an_overfull_line(compiled, frame, row, tmp_path):
    document = DOCUMENT.replace(r"\documentclass{article}", r"\documentclass[twocolumn]{article}")
    assert "Overfull" not in compiled(document % to_latex(findings(frame, row)), tmp_path)


def test_any_frame_with_hostile_text(compiled, hostile, tmp_path):
    labels = (*hostile, *WORSE)
    table = pd.DataFrame({"label_of_%$": labels, "p": 0.2, "slope": -0.1, "photos": range(len(labels)), "ok": True})
    text = render_frame(table, "latex", title=" ".join(labels))
    assert "Missing character" not in compiled(DOCUMENT % text, tmp_path)


def test_a_table_without_rows(compiled, frame, row, tmp_path):
    nothing = to_latex(slope_tables(frame(row("hat", 0.01, p=0.5))))
    empty = render_frame(pd.DataFrame({"label": [], "p": []}), "latex", title="Nothing")
    compiled(DOCUMENT % (nothing + empty), tmp_path)
