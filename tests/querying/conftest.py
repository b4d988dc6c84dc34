from collections.abc import Iterator
from pathlib import Path

import pytest
from fakes.made_run import made_run

from pipeline.querying.store import Store
from pipeline.run.folder import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return made_run(tmp_path / "run")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "responses.sqlite") as opened:
        yield opened
