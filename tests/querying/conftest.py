from pathlib import Path

import pytest
from fakes.made_run import made_run

from pipeline.run.folder import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "run")
