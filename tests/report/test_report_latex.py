"""LaTeX compiles as it is, whatever labels hold; where a TeX engine with booktabs is installed."""

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


def test_any_frame_with_hostile_text(compiled, hostile, tmp_path):
    labels = (*hostile, *WORSE)
    table = pd.DataFrame({"label_of_%$": labels, "p": 0.2, "slope": -0.1, "photos": range(len(labels)), "ok": True})
    text = render_frame(table, "latex", title=" ".join(labels))
    assert "Missing character" not in compiled(DOCUMENT % text, tmp_path)


def test_a_table_without_rows(compiled, frame, row, tmp_path):
    nothing = to_latex(slope_tables(frame(row("hat", 0.01, p=0.5))))
    empty = render_frame(pd.DataFrame({"label": [], "p": []}), "latex", title="Nothing")
    compiled(DOCUMENT % (nothing + empty), tmp_path)
