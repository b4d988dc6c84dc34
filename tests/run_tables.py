"""Write tables of a run from rows."""

from pathlib import Path

from pipeline.run.tables import ANSWERS, COUNTERFACTUALS, FACES, LABELS, PHOTOS, to_table, write_table

COLUMNS = {
    "photos": PHOTOS, "faces": FACES, "counterfactuals": COUNTERFACTUALS, "answers": ANSWERS, "labels": LABELS,
}  # fmt: skip


def write_tables(folder: Path, **tables: list[dict]) -> None:
    """Write each table from its rows; columns that a row lacks are null."""
    for name, rows in tables.items():
        write_table(to_table(rows, COLUMNS[name]), folder / f"{name}.parquet")
