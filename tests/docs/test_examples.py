"""The examples in the help of commands and of docs/python.md run. Both are in one file, to share a slow fixture."""

import re
import runpy
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pipeline.cli.app import app
from pipeline.review.answers import keep_answer
from pipeline.review.questions import face_questions
from pipeline.run.tables import read_frame

PAGE = Path(__file__).parents[2] / "docs" / "python.md"
# Examples that take minutes, call remote services, or need files of the reader.
NOT_RUN = (
    "audit", "generate", "adapters", "labels", "plan portraits/ --adapter google", "compare runs/may --adapters google",
    "review ",  # a page that waits for answers
    "collect",  # searches of public services
    "captions", "mask photos/",  # files of the reader
    "interactions",  # three sweeps: tests/analyses/test_interactions.py
)  # fmt: skip


def test_examples_of_epilogs_run(epilog_examples, home):
    runner = CliRunner()
    portraits = home / "runs/portraits"
    tables = [read_frame(portraits / f"{name}.parquet") for name in ("photos", "faces")]
    question = face_questions(*tables, unsure=1, sure=0)[0]
    keep_answer(portraits, question, question.choices[0], reviewer="anna")
    for words in epilog_examples:
        if not " ".join(words).startswith(NOT_RUN):
            done = runner.invoke(app, words)
            assert done.exit_code == 0, f"counterslope {' '.join(words)}: {done.output}"
    assert (home / "validity.tex").is_file()
    assert list((home / "paper").glob("*.svg"))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_examples_of_the_python_page_run(home, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 6
    script = home / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(script), run_name="__main__")
    assert set(names["mine"].slopes()["adapter"]) == {"python:__main__:classify", "opencv", "face-attributes"}
    assert r"\toprule" in (home / "table.tex").read_text()
    assert all(file.is_file() for file in names["files"])
    assert "holds no run" in capsys.readouterr().out
