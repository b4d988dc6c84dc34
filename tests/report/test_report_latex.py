"""LaTeX tables: their width, and that they compile (if a TeX engine with booktabs is installed)."""

import re
import shutil
import subprocess

import pandas as pd
import pytest
from report_frames import HOSTILE, slope_row, slopes_frame

from pipeline.report.markup import render_frame
from pipeline.report.tables import slope_tables, to_latex

DOCUMENT = r"""\documentclass{article}
\usepackage[margin=2cm]{geometry}
\usepackage{booktabs}
\begin{document}
%s\end{document}
"""
FURTHER_LABELS = (
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
def compile_latex():
    """Compile a document in a folder; return the log."""
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


def test_findings_with_hostile_labels_compile(compile_latex, tmp_path):
    labels = (*HOSTILE, *FURTHER_LABELS)
    rows = [slope_row(label, sign * 0.2, adapter=r"my_api & 100% {x}") for label in labels for sign in (1, -1)]
    log = compile_latex(DOCUMENT % to_latex(slope_tables(slopes_frame(*rows))), tmp_path)
    assert "Missing character" not in log


NAMES = ("frontal face", "a label as long as services give them, with a comma", "Facial expression", "eyeglasses")


def findings():
    """The widest table: findings in both directions, with placebos."""
    slopes = slopes_frame(*(slope_row(label, sign * 0.2) for label in NAMES for sign in (1, -1)))
    net = {"placebo": "random", "net_slope": 0.1, "net_low": 0.05, "net_high": 0.15, "exceeds_placebos": True}
    return slope_tables(slopes.assign(**net))


def test_findings_fit_the_width_of_two_columns():
    text = to_latex(findings())
    assert r"\begin{table*}" in text, "a float across both columns"
    assert r"\footnotesize" in text
    *_, heading = text.split(r"\midrule")[0].strip().splitlines()
    assert "Edit" in heading, "has the net slopes"
    lines = [heading, *text.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()]
    cells = [[re.sub(r"\\\w+|[${}\\]", "", cell).strip() for cell in line.split("&")] for line in lines]
    wrapped = [place for place, kind in enumerate(columns_of(text)) if kind.startswith("p")]
    # 8 pt letters are about 3.9 pt wide, and columns have 3 pt of padding. CVPR's pages are 496 pt wide.
    widths = [3.9 * max(len(line[place]) for line in cells) for place in range(len(cells[0])) if place not in wrapped]
    assert sum(widths) + 6 * len(cells[0]) + 496 * 0.17 * len(wrapped) <= 496


def columns_of(text):
    return re.findall(r"p\{[^}]*\}|[lr]", re.search(r"begin\{tabular\}\{@\{\}(.*)@\{\}\}", text)[1])


def test_findings_over_two_columns_have_no_overfull_line(compile_latex, tmp_path):
    document = DOCUMENT.replace(r"\documentclass{article}", r"\documentclass[twocolumn]{article}")
    assert "Overfull" not in compile_latex(document % to_latex(findings()), tmp_path)


def test_frame_with_hostile_text_compiles(compile_latex, tmp_path):
    labels = (*HOSTILE, *FURTHER_LABELS)
    table = pd.DataFrame({"label_of_%$": labels, "p": 0.2, "slope": -0.1, "photos": range(len(labels)), "ok": True})
    text = render_frame(table, "latex", title=" ".join(labels))
    assert "Missing character" not in compile_latex(DOCUMENT % text, tmp_path)


def test_table_without_rows_compiles(compile_latex, tmp_path):
    without_findings = to_latex(slope_tables(slopes_frame(slope_row("hat", 0.01, p=0.5))))
    empty = render_frame(pd.DataFrame({"label": [], "p": []}), "latex", title="Nothing")
    compile_latex(DOCUMENT % (without_findings + empty), tmp_path)
