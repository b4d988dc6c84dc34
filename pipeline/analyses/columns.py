"""Columns of a plain file, looked at before anything is made of them. How a file is read is in ``predictions``."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipeline.analyses.predictions import InputError

if TYPE_CHECKING:
    import pandas as pd


def complete_columns(frame: "pd.DataFrame", columns: Sequence[str], *, table: str) -> "pd.DataFrame":
    """Some columns of a frame, as they are.

    Args:
        frame: of which.
        columns: their names.
        table: what the frame is called in errors, e.g. the file.

    Raises:
        InputError: one is not there, or has no value in some row.
    """
    for column in columns:
        if column not in frame.columns:
            known = ", ".join(map(repr, frame.columns))
            raise InputError(f"{table} has no column {column!r}; its columns are {known}")
        missing = frame[column].isna().to_numpy()
        if missing.any():
            raise InputError(f"column {column!r} of {table} has no value in row {int(missing.argmax()) + 1}")
    return frame[list(columns)]
