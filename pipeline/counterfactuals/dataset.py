"""What makes a folder of counterfactuals a dataset that others can load: ``metadata.csv`` beside the images."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

# `file_name` is the name that image-folder loaders look for.
COLUMNS = ("file_name", "photo", "attribute", "arm", "step", "value", "sha256")


def write_metadata(versions: "pa.Table", folder: Path) -> None:
    """Write ``metadata.csv`` into the images' folder: one row a version that was made, paths relative to the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "metadata.csv.partial"
    with partial.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(_rows(versions, folder))
    partial.replace(folder / "metadata.csv")


def _rows(versions: "pa.Table", folder: Path) -> Iterator[tuple[Any, ...]]:
    for row in versions.to_pylist():
        if row["status"] == "ok":
            name = Path(row["file"]).relative_to(folder.name).as_posix()
            yield (name, *(row[column] for column in COLUMNS[1:]))
