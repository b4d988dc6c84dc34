"""docs/python.md: every example runs, in the order of the page, and leaves what it says."""

import re
import runpy
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "python.md"


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_example_of_the_page_runs(at_home, capsys):
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)
    assert len(blocks) >= 6
    script = at_home / "page.py"
    script.write_text("\n".join(blocks), encoding="utf-8")
    names = runpy.run_path(str(script), run_name="__main__")
    assert set(names["mine"].slopes()["adapter"]) == {"python:__main__:classify", "opencv", "face-attributes"}
    assert r"\toprule" in (at_home / "table.tex").read_text()
    assert all(file.is_file() for file in names["files"])
    assert "holds no run" in capsys.readouterr().out
