"""Plain files of labels and predictions, one row a photo: CSV, TSV or Parquet, and their columns as 0 and 1.

What is measured on them is in ``metrics.amplifying`` and ``pipeline.statistics``. A run's own tables are ``records``'.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

ENDINGS = (".csv", ".tsv", ".parquet")
MOST_GROUPS = 1000


class InputError(ValueError):
    """A file of labels or predictions cannot be used; the message names file and column, and says how to mend it."""


def read_predictions(path: Path) -> "pd.DataFrame":
    """A file of labels and predictions; text stays text, and what is missing is missing.

    Raises:
        InputError: it is of another kind, cannot be read, holds no row, or two columns of one name.
    """
    import pandas as pd
    from pandas.errors import EmptyDataError, ParserError
    from pyarrow import ArrowInvalid

    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{path} is no file of predictions: its name must end in {', '.join(ENDINGS)}")
    try:
        if ending == ".parquet":
            frame = pd.read_parquet(path)
            names = frame.columns.to_series()
        else:
            # A person called "NA" or "None" is a person.
            options: dict[str, Any] = {"sep": "\t" if ending == ".tsv" else ",", "keep_default_na": False}
            frame = pd.read_csv(path, na_values=[""], **options)
            names = pd.read_csv(path, header=None, nrows=1, dtype=str, **options).iloc[0]
    except (OSError, UnicodeDecodeError, ParserError, EmptyDataError, ArrowInvalid) as error:
        raise InputError(f"{path} cannot be read: {error}") from error
    if names.duplicated().any():
        raise InputError(f"{path} has two columns called {names[names.duplicated()].iloc[0]!r}: rename one")
    if frame.empty:
        raise InputError(f"{path} holds no row")
    return frame


def indicators(
    frame: "pd.DataFrame", columns: Sequence[str], *, table: str, names: Sequence[str] | None = None
) -> "pd.DataFrame":
    """Columns of numbers as they are, or one column of names as a column of 0 and 1 for each name.

    A row whose name is missing has 0 everywhere: it belongs to no group.

    Args:
        frame: of which.
        columns: one column of names, or one or more of numbers.
        table: what the frame is called in errors, e.g. the file.
        names: the names that may occur, in their order (those of the labels, for predictions); else those that do,
            sorted.

    Raises:
        InputError: a column that is not there, is missing somewhere, holds text beside numbers or an unknown name.
    """
    import pandas as pd

    for column in columns:
        if column not in frame.columns:
            known = ", ".join(map(repr, frame.columns))
            raise InputError(f"{table} has no column {column!r}; its columns are {known}")
    text = [column for column in columns if not pd.api.types.is_numeric_dtype(frame[column])]
    if text and len(columns) > 1:
        raise InputError(f"column {text[0]!r} of {table} must hold numbers where several columns are named")
    if not text:
        for column in columns:
            missing = frame[column].isna().to_numpy()
            if missing.any():
                raise InputError(f"column {column!r} of {table} has no value in row {int(missing.argmax()) + 1}")
        return frame[list(columns)].astype("float64")
    values = frame[text[0]]
    found = sorted({str(value) for value in values.dropna()})
    groups = found if names is None else [str(name) for name in names]
    unknown = [name for name in found if name not in groups]
    if unknown:
        raise InputError(f"column {text[0]!r} of {table} has {unknown[0]!r}, which is none of {', '.join(groups)}")
    if not 1 <= len(groups) <= MOST_GROUPS:
        raise InputError(f"column {text[0]!r} of {table} must name 1 to {MOST_GROUPS} groups, not {len(groups)}")
    texts = values.map(lambda value: None if pd.isna(value) else str(value))
    return pd.DataFrame({name: (texts == name).astype("int8") for name in groups})


def share_table(path: Path, *, task: str, share: str) -> dict[str, float]:
    """Task -> a group's share in it, 0-1, from a table such as labour statistics; shares may be in per cent.

    Raises:
        InputError: a column is missing or holds no shares, or a task is named twice.
    """
    frame = read_predictions(path)
    names = indicators(frame, [share], table=str(path))[share]
    if task not in frame.columns:
        raise InputError(f"{path} has no column {task!r}; its columns are {', '.join(map(repr, frame.columns))}")
    scale = 100 if names.max() > 1 else 1
    wrong = (names < 0) | (names > scale)
    if wrong.any():
        raise InputError(f"column {share!r} of {path} must hold shares in 0-1 or 0-100, not {names[wrong].iloc[0]:g}")
    tasks = frame[task].astype(str)
    if tasks.duplicated().any():
        raise InputError(f"column {task!r} of {path} names {tasks[tasks.duplicated()].iloc[0]!r} twice")
    return dict(zip(tasks, (names / scale).tolist(), strict=True))
