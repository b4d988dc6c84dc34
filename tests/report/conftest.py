"""The table of slopes that most of the report's tests use."""

import pytest
from report_frames import slope_row, slopes_frame


@pytest.fixture
def slopes():
    """Two negative findings, a positive one, a slope below the threshold, an uncertain one, and two not estimable."""
    return slopes_frame(
        slope_row("smile", -0.12),
        slope_row("long hair", -0.31),
        slope_row("beard", 0.25, p=0.0004),
        slope_row("tie", 0.02, width=0.01),
        slope_row("hat", 0.01, width=0.06, p=0.6),
        slope_row("sceptre", reason="too rare"),
        slope_row("person", reason="constant"),
    )
