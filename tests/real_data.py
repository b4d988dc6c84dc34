"""Data outside the repository (COUNTERSLOPE_DATA); tests that need them are skipped where they are missing."""

import os
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("COUNTERSLOPE_DATA", Path(__file__).resolve().parents[2] / "shared" / "data"))
COMPAS = FOLDER / "compas-scores-two-years.csv"


def needs(file: Path) -> pytest.MarkDecorator:
    """Mark a test that reads this file."""
    return pytest.mark.skipif(not file.is_file(), reason=f"{file.name} is missing (COUNTERSLOPE_DATA)")
