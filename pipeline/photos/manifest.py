"""A manifest: one CSV or Parquet file that lists the photos and what is known about them.

Only the list is read here; no photo is opened.
"""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.run.tables import PHOTOS

if TYPE_CHECKING:
    import pyarrow as pa

ENDINGS = (".csv", ".parquet")


class ManifestError(Exception):
    """A manifest cannot be used; the message says where and how to mend it."""


@dataclass(frozen=True)
class Manifest:
    """``photos``: where each photo should be, in the manifest's order; ``columns``: its other columns, row for row."""

    photos: tuple[Path, ...]
    columns: "pa.Table"


def read_manifest(path: Path) -> Manifest:
    """Read a manifest: a column ``photo`` (paths from the manifest's folder, or absolute) and any others.

    Raises:
        ManifestError: it cannot be read, lists nothing, has no column ``photo``, names a photo twice or none in some
            row, or has a column that the table of photos needs for itself.
    """
    table = _read(path)
    names = table.column_names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ManifestError(f"the manifest {path} has more than one column {_quoted(repeated)}: rename all but one")
    if "photo" not in names:
        raise ManifestError(f"the manifest {path} has no column 'photo'; its columns are {_quoted(names)}")
    clashes = [name for name in names if name in PHOTOS and name != "photo"]
    if clashes:
        raise ManifestError(
            f"the manifest {path} has the column {_quoted(clashes)}, "
            "which the table of photos needs for itself: rename it"
        )
    if table.num_rows == 0:
        raise ManifestError(f"the manifest {path} lists no photo")
    return Manifest(photos=_located(table.column("photo").to_pylist(), path), columns=table.drop_columns(["photo"]))


def _read(path: Path) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    try:
        if path.suffix.lower() == ".csv":
            # A photo called 007 is not the number seven.
            convert = csv.ConvertOptions(column_types={"photo": pa.string()}, strings_can_be_null=True)
            return csv.read_csv(path, convert_options=convert, parse_options=csv.ParseOptions(newlines_in_values=True))
        return pq.ParquetFile(path).read()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, OSError) as error:
        raise ManifestError(f"the manifest {path} cannot be read: {error}") from error


def _located(values: Iterable[object], manifest: Path) -> tuple[Path, ...]:
    """Each row's path, joined to the manifest's folder."""
    rows: dict[Path, int] = {}
    for row, value in enumerate(values, start=1):
        if not isinstance(value, str) or not value.strip():
            raise ManifestError(f"row {row} of the manifest {manifest} names no photo")
        photo = Path(os.path.normpath(manifest.parent / value.strip()))
        if photo in rows:
            raise ManifestError(
                f"the manifest {manifest} names {value!r} twice, in rows {rows[photo]} and {row}: remove one"
            )
        rows[photo] = row
    return tuple(rows)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)
