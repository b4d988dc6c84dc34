"""The tables of a run: their columns, and reading and writing them as Parquet and CSV."""

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
    "path": "string",  # the file's location when it was read
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
    "skin_l": "double",  # median CIELAB L* of the skin, if a sweep uses it
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
    "sha256": "string",  # of the file's bytes, which are sent to the classifiers unchanged
    "mask": "string",  # the mask's file: 0 where nothing may change
    "mask_share": "double",  # of the photo's pixels that may change
    "background_kept": "double",  # share of the pixels outside the mask that equal the photo's
    "clipped_share": "double",  # of the mask's pixels that hit black or white
    "mask_line": "double",  # share of the mask's outline at which the change steps and the photo does not
    "lightness": "double",  # mean CIELAB L* inside the mask
    "null_psnr": "double",  # dB, of the decoded null edit inside the mask
    "null_ssim": "double",
    "cycles_psnr": "double",  # the same after ten successive null edits, in reconstruction mode
    "cycles_ssim": "double",
    "identity": "double",  # cosine similarity to the null edit, if a recognition network is installed
    "skin_l": "double",  # median CIELAB of the face's skin; this and the next five columns only for edits
    "skin_a": "double",
    "skin_b": "double",
    "neck_gap": "double",  # CIELAB difference between the shifts of the skin of the face and of neck and ears
    "concentration": "double",  # share of the squared change of L* in the densest 5 % of the mask
    "asymmetry": "double",  # of the change of L*: 0 if equal on both sides, 2 if only on one side
    "grey_masculine": "double",  # of the second judge, which receives grey images
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
CHECKS = {  # measurements over a sample of an attribute's images
    "attribute": "string",
    "arm": "string",
    "measure": "string",
    "photos": "int32",
    "figure": "double",
    "low": "double",  # its 95 % interval, if there is one
    "high": "double",
    "map": "list<double>",  # of a mean change of L*: 64 x 64 pixels of the aligned crop, row by row
}
SENT = {
    "sha256": "string",  # of the version's file
    "sent_sha256": "string",  # of the file that is sent instead; null if none can be sent
    "file": "string",  # relative to this table
    "how": "string",  # its encoding, or why it cannot be sent
}
_ASKED = {
    "adapter": "string",
    "attribute": "string",
    "arm": "string",
    "photo": "string",
    "step": "int32",
    "value": "double",
}
ANSWERS = {
    **_ASKED,
    "sha256": "string",
    "status": "string",
    "reason": "string",
}
LABELS = {
    **_ASKED,
    "label": "string",
    "score": "double",  # null where not returned
    "returned": "bool",  # False: returned at another step of this photo's sweep, but not here
}


ROW_GROUP = 4096  # rows in memory at a time when a table is streamed


def schema(columns: Mapping[str, str]) -> "pa.Schema":
    """Return the Arrow schema of a table above."""
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
    """Return rows as an Arrow table. Missing columns are null.

    Raises:
        KeyError: a row has an unknown column.
    """
    import pyarrow as pa

    rows = list(rows)
    unknown = {name for row in rows for name in row} - set(columns)
    if unknown:
        raise KeyError(f"columns that the table does not have: {', '.join(sorted(unknown))}")
    return pa.Table.from_pylist([dict(row) for row in rows], schema=schema(columns))


def write_table(table: "pa.Table", path: Path) -> None:
    """Write a Parquet file atomically."""
    import pyarrow.parquet as pq

    with atomic_write(path) as partial:
        pq.write_table(table, partial, compression="zstd")


def write_joined(parts: Iterable[Path], path: Path, columns: Mapping[str, str]) -> dict[str, int]:
    """Join Parquet files into one atomically, with few of them in memory at a time.

    Returns:
        ``status`` -> number of rows.
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
    """Read a table of a run as successive pandas frames with a continuous index.

    Args:
        path: the Parquet file.
        columns: the columns to read; default: all.
        rows: largest number of rows of a frame.
        categories: columns of text to read as categories, which saves memory.

    Raises:
        RunError: the file is missing or damaged.
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
    """Read a table of a run as a pandas frame; see ``read_frames``.

    Raises:
        RunError: the file is missing or damaged.
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
        problem = "is missing" if isinstance(error, FileNotFoundError) else "is damaged"
        raise RunError(f"{path} {problem}: repeat the command that made it") from error


def column_types(frame: "pd.DataFrame") -> dict[str, str]:
    """Return the types of a frame's columns for ``frame_from_csv``: string, bool, int64, double or any."""
    import pandas as pd

    kinds = {
        "boolean": "bool", "integer": "int64", "floating": "double", "mixed-integer-float": "double", "empty": "any",
    }  # fmt: skip
    types = {}
    for name, column in frame.items():
        kind = kinds.get(pd.api.types.infer_dtype(column, skipna=True), "string")
        # pandas reads integers with gaps as floats.
        types[str(name)] = "double" if kind == "int64" and column.hasnans else kind
    return types


def frame_to_csv(frame: "pd.DataFrame") -> str:
    """Return a frame as CSV: numbers in full, text safe for spreadsheets, missing values empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([csv_text(name) for name in frame.columns])
    for row in frame.astype(object).where(frame.notna(), None).itertuples(index=False, name=None):
        writer.writerow([csv_text(value) if isinstance(value, str) else value for value in row])
    return out.getvalue()


def frame_from_csv(text: str, types: Mapping[str, str]) -> "pd.DataFrame":
    """Read the text of ``frame_to_csv``, with declared types, so that the label "007" stays text.

    Args:
        text: the CSV text.
        types: column -> type, from ``column_types``; pandas infers the types of other columns.
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
    """Return counts per status; raise AssertionError unless ``planned = ok + failed + excluded``."""
    counts = {"ok": 0, "failed": 0, "excluded": 0}
    for status, count in Counter(statuses).items():
        counts[status] += count
    if sum(counts.values()) != planned:
        raise AssertionError(f"stage {stage}: {planned} planned, but {counts} accounted for")
    return {"planned": planned, **counts}


def plain_rows(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return a frame's rows for JSON, with missing and infinite numbers as None."""
    import numpy as np
    import pandas as pd

    return [
        {str(name): None if pd.isna(value) or value in (np.inf, -np.inf) else value for name, value in row.items()}
        for row in frame.to_dict("records")
    ]
