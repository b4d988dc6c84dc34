"""Data that are no part of the repository; what needs them is skipped by name where they are not there."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("COUNTERSLOPE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
COMPAS = FOLDER / "compas-scores-two-years.csv"


def needs(file: Path) -> pytest.MarkDecorator:
    """Marks a test that reads this file."""
    return pytest.mark.skipif(not file.is_file(), reason=f"{file.name} is not here (COUNTERSLOPE_DATA)")
