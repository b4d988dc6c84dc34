from collections.abc import Iterator
from pathlib import Path

import pytest
from unqueried_run import unqueried_run

from pipeline.querying.store import Store
from pipeline.run.folder import Run


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return unqueried_run(tmp_path / "run")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store(tmp_path / "responses.sqlite") as store:
        yield store
