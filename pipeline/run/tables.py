"""The tables of a run: their columns, and how they are read and written, as Parquet and as CSV.

Every other file that needs a column's name or a status takes it from here.
"""

import csv
import io
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from models.attributes import RACES
from pipeline.run.files import atomic_write
from pipeline.run.record import RunError
from pipeline.run.text import csv_text, from_csv_text

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

Status = Literal["ok", "failed", "excluded"]

# Column -> Arrow type. ``step`` counts from 1 to K; ``value`` is the attribute value a; scores are in 0-1.
PHOTOS = {
    "photo": "string",  # path relative to the input folder
    "path": "string",  # where the file was when it was read
    "sha256": "string",  # of the file's bytes
    "width": "int32",  # pixels, upright
    "height": "int32",
    "status": "string",
    "reason": "string",
}
FACES = {
    "photo": "string",
    "status": "string",
    "reason": "string",
    "faces_found": "int32",
    "left": "double",  # the box, in pixels of the upright photo
    "top": "double",
    "right": "double",
    "bottom": "double",
    "score": "double",
    "rotation": "double",  # degrees in the image plane
    "landmarks": "list<double>",  # x, y of left eye, right eye, nose, left and right mouth corner
    "gender": "double",  # estimates on the dial's scale, -1..1
    **{f"race_{race}": "double" for race in RACES},  # estimated probabilities
    "age": "double",  # years
    "young": "double",  # -1..1
    "smiling": "double",  # -1..1
    "skin_l": "double",  # median CIELAB L* of the skin, where a sweep reads it
}
COUNTERFACTUALS = {
    "attribute": "string",  # gender, race; gender@Black on faces that are edited to perceived Black as well
    "arm": "string",  # edit, or the placebo's name
    "photo": "string",
    "step": "int32",
    "value": "double",
    "status": "string",
    "reason": "string",
    "file": "string",  # relative to the run's folder
    "sha256": "string",  # of the file's bytes: exactly what a classifier is sent
    "mask": "string",  # the mask's file: 0 where nothing may change
    "mask_share": "double",  # of the photo's pixels that may change
    "background_kept": "double",  # share of the pixels outside the mask that equal the photo's
    "clipped_share": "double",  # of the mask's pixels that hit black or white
    "mask_line": "double",  # share of the mask's outline at which the change steps and the photo does not
    "lightness": "double",  # mean CIELAB L* inside the mask
    "null_psnr": "double",  # dB, of the decoded null edit inside the mask
    "null_ssim": "double",
    "cycles_psnr": "double",  # the same after ten null edits of one another; in reconstruction mode
    "cycles_ssim": "double",
    "identity": "double",  # cosine similarity to the null edit, where a recognition network is there
    "skin_l": "double",  # median CIELAB of the face's skin; this and the next four of edits alone
    "skin_a": "double",
    "skin_b": "double",
    "neck_gap": "double",  # CIELAB difference between what the face's skin and that of neck and ears moved by
    "concentration": "double",  # share of the squared change of L* in the densest 5 % of the mask
    "asymmetry": "double",  # of the change of L*: 0 alike on both sides, 2 on one side alone
    "grey_masculine": "double",  # the second judge's, which sees no colour
    **{f"grey_race_{race}": "double" for race in RACES},
    "grey_age": "double",
    "grey_young": "double",
    "grey_smiling": "double",
    "judge_masculine": "double",  # the judge's probabilities
    **{f"judge_race_{race}": "double" for race in RACES},
    "judge_age": "double",
    "judge_young": "double",
    "judge_smiling": "double",
}
CHECKS = {  # what was measured on a sample of an attribute's pictures together
    "attribute": "string",
    "arm": "string",
    "measure": "string",
    "photos": "int32",
    "figure": "double",
    "low": "double",  # its 95 % interval, where there is one
    "high": "double",
    "map": "list<double>",  # of a mean change of L*: 64 rows of 64 places of the aligned crop
}
SENT = {
    "sha256": "string",  # of the version's file
    "sent_sha256": "string",  # of the file that is sent in its place; null where nothing can be
    "file": "string",  # next to this table
    "how": "string",  # how it was encoded, or why it cannot be sent
}
ANSWERS = {
    "adapter": "string",
    "attribute": "string",
    "arm": "string",
    "photo": "string",
    "step": "int32",
    "value": "double",
    "sha256": "string",
    "status": "string",
    "reason": "string",
}
LABELS = {
    "adapter": "string",
    "attribute": "string",
    "arm": "string",
    "photo": "string",
    "step": "int32",
    "value": "double",
    "label": "string",
    "score": "double",  # null where not returned
    "returned": "bool",  # False: returned at another step of this photo's sweep, but not here
}


ROW_GROUP = 4096  # rows held at a time where a table is streamed


def schema(columns: Mapping[str, str]) -> "pa.Schema":
    """The Arrow schema of a table above."""
    import pyarrow as pa

    kinds = {
        "string": pa.string(),
        "int32": pa.int32(),
        "double": pa.float64(),
        "bool": pa.bool_(),
        "list<double>": pa.list_(pa.float64()),
    }
    return pa.schema([(name, kinds[kind]) for name, kind in columns.items()])


def to_table(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> "pa.Table":
    """Rows as an Arrow table; a column that a row lacks is null, one that the table lacks is an error."""
    import pyarrow as pa

    rows = list(rows)
    unknown = {name for row in rows for name in row} - set(columns)
    if unknown:
        raise KeyError(f"columns that the table does not have: {', '.join(sorted(unknown))}")
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema(columns))


def write_table(table: "pa.Table", path: Path) -> None:
    """Write Parquet so that ``path`` is either the old file or the whole new one."""
    import pyarrow.parquet as pq

    with atomic_write(path) as partial:
        pq.write_table(table, partial, compression="zstd")


def write_joined(parts: Iterable[Path], path: Path, columns: Mapping[str, str]) -> dict[str, int]:
    """Write the rows of Parquet files into one, whole or not at all, holding only some of them at a time.

    Returns:
        How many rows have each ``status``.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    statuses: Counter[str] = Counter()
    with atomic_write(path) as partial, pq.ParquetWriter(partial, schema(columns), compression="zstd") as writer:
        held: list[pa.Table] = []
        for part in parts:
            held.append(pq.read_table(part))
            statuses.update(held[-1]["status"].to_pylist())
            if sum(table.num_rows for table in held) >= ROW_GROUP:
                writer.write_table(pa.concat_tables(held))
                held.clear()
        if held:
            writer.write_table(pa.concat_tables(held))
    return dict(statuses)


def read_frames(
    path: Path, *, columns: list[str] | None = None, rows: int = ROW_GROUP, categories: Sequence[str] = ()
) -> "Iterator[pd.DataFrame]":
    """A table of a run as pandas frames of some rows each, one after the other; their index goes on.

    Args:
        path: the Parquet file.
        columns: to read; all unless given.
        rows: of a frame at most.
        categories: columns of text that are read as categories: each text is held once a frame.

    Raises:
        RunError: the file is gone or damaged.
    """
    import pyarrow.parquet as pq

    with _readable(path), pq.ParquetFile(path, read_dictionary=list(categories)) as file:
        start = 0
        for batch in file.iter_batches(batch_size=rows, columns=columns):
            frame = batch.to_pandas()
            frame.index += start
            start += len(frame)
            yield frame


def read_frame(path: Path, *, columns: list[str] | None = None, categories: Sequence[str] = ()) -> "pd.DataFrame":
    """A table of a run as a pandas frame; see ``read_frames``.

    Raises:
        RunError: the file is gone or damaged.
    """
    import pyarrow.parquet as pq

    with _readable(path):
        frame: pd.DataFrame = pq.read_table(path, columns=columns, read_dictionary=list(categories)).to_pandas()
    return frame


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    import pyarrow as pa

    try:
        yield
    except (OSError, pa.ArrowException) as error:
        problem = "is not there" if isinstance(error, FileNotFoundError) else "is damaged"
        raise RunError(f"{path} {problem}: the command that made it makes it again") from error


def column_types(frame: "pd.DataFrame") -> dict[str, str]:
    """The types of a frame's columns, by which ``frame_from_csv`` reads them back: string, bool, int64 or double."""
    import pandas as pd

    kinds = {
        "boolean": "bool",
        "integer": "int64",
        "floating": "double",
        "mixed-integer-float": "double",
        "empty": "any",
    }
    types = {}
    for name, column in frame.items():
        kind = kinds.get(pd.api.types.infer_dtype(column, skipna=True), "string")
        # Integers with gaps come back as the floats that pandas makes of them.
        types[str(name)] = "double" if kind == "int64" and column.hasnans else kind
    return types


def frame_to_csv(frame: "pd.DataFrame") -> str:
    """Any frame as CSV: numbers in full, text neutralised for spreadsheets, what is missing left empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_text(name) for name in frame.columns])
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None):
        writer.writerow([csv_text(value) if isinstance(value, str) else value for value in row])
    return out.getvalue()


def frame_from_csv(text: str, types: Mapping[str, str]) -> "pd.DataFrame":
    """What ``frame_to_csv`` wrote: every column has its declared type, so that the label "007" stays text.

    Args:
        text: of the file.
        types: column -> type, as ``column_types`` gives it; a column without one is read as pandas does.
    """
    import pandas as pd

    header = next(csv.reader(io.StringIO(text)), [])
    dtypes: dict[str, Any] = {"string": str, "double": "float64", "int64": "int64"}
    texts = [name for name in header if types.get(name) == "string"]
    frame: pd.DataFrame = pd.read_csv(
        io.StringIO(text),
        dtype={name: dtypes[types[name]] for name in header if types.get(name) in dtypes},
        keep_default_na=False,
        na_values={name: [""] for name in header if name not in texts},
    )
    for name in texts:
        frame[name] = frame[name].map(from_csv_text)
    return frame


def check_account(*, planned: int, statuses: Iterable[str] | Mapping[str, int], stage: str) -> dict[str, int]:
    """Counts per status, after asserting ``planned = ok + failed + excluded``: nothing may be lost on the way."""
    counts = {"ok": 0, "failed": 0, "excluded": 0}
    for status, count in Counter(statuses).items():
        counts[status] += count
    if sum(counts.values()) != planned:
        raise AssertionError(f"stage {stage}: {planned} planned, but {counts} accounted for")
    return {"planned": planned, **counts}


def plain_rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """A frame's rows as JSON knows them: numbers that are none or infinite are null."""
    import numpy as np
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) or value in (np.inf, -np.inf) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
