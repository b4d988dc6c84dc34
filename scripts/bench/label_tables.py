"""Time and memory of estimating slopes from large label tables, on a generated run without images.

python scripts/bench/label_tables.py --photos 1000000    # 140 million rows: 7 steps x 20 labels
"""

import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import typer
from measure import measured

from pipeline.analyses.inputs import run_sweeps
from pipeline.config.sources import load_settings
from pipeline.run.record import RunRecord, write_record
from pipeline.run.tables import ANSWERS, LABELS, PHOTOS, schema
from pipeline.statistics import slope_frame

STEPS, CHUNK = 7, 5000
VALUES = np.linspace(-2, 2, STEPS)


def write_run(folder: Path, *, photos: int, labels: int) -> int:
    """Write a run whose adapter returned a score for every label of every version; return the number of label rows."""
    random = np.random.default_rng(0)
    level = random.uniform(0.2, 0.8, size=labels)
    writers = {
        name: pq.ParquetWriter(folder / f"{name}.parquet", schema(columns), compression="zstd")
        for name, columns in (("photos", PHOTOS), ("answers", ANSWERS), ("labels", LABELS))
    }
    for start in range(0, photos, CHUNK):
        names = np.array([f"photos/{number:08d}.jpg" for number in range(start, min(start + CHUNK, photos))])
        count = len(names)
        score = level + 0.02 * VALUES[:, None] + random.normal(0, 0.2, (count, 1, labels))
        score = np.clip(score + random.normal(0, 0.1, score.shape), 0, 1)
        version = {"photo": np.repeat(names, STEPS), "step": np.tile(np.arange(1, STEPS + 1), count)}
        version |= {"value": np.tile(VALUES, count)}
        row = {name: np.repeat(column, labels) for name, column in version.items()}
        row |= {"label": np.tile([f"label {number}" for number in range(labels)], count * STEPS)}
        row |= {"score": score.ravel(), "returned": np.ones(score.size, dtype=bool)}
        _write(writers["photos"], {"photo": names, "path": names, "status": np.full(count, "ok")})
        _write(writers["answers"], version | {"status": np.full(count * STEPS, "ok")})
        _write(writers["labels"], row)
    for writer in writers.values():
        writer.close()
    settings = load_settings(given={}, environment={})
    write_record(RunRecord(settings=settings, presence_thresholds={"bench": 0.5}), folder / "run.json")
    return photos * STEPS * labels


def _write(writer: pq.ParquetWriter, columns: dict[str, np.ndarray]) -> None:
    rows = len(next(iter(columns.values())))
    constants = {"adapter": "bench", "attribute": "gender", "arm": "edit"}
    arrays = [
        pa.array(columns[field.name], type=field.type)
        if field.name in columns
        else pa.repeat(pa.scalar(constants.get(field.name), type=field.type), rows)
        for field in writer.schema
    ]
    writer.write_table(pa.Table.from_arrays(arrays, schema=writer.schema))


def slopes_of_run(folder: Path) -> str:
    """Estimate the slopes of a run and summarise the result."""
    loaded = run_sweeps(folder)
    frame = slope_frame(loaded.sweeps, **loaded.drawing, **loaded.rules)
    return f"{int(frame['estimable'].sum())} slopes, q and bootstrap intervals of all: {bool(frame['q'].notna().all())}"


def main(
    photos: Annotated[int, typer.Option(help="Number of photos.")] = 100_000,
    labels: Annotated[int, typer.Option(help="Labels per version.")] = 20,
) -> None:
    """Write the tables, then measure a process that reads them and estimates slopes."""
    with tempfile.TemporaryDirectory() as folder:
        rows = write_run(Path(folder), photos=photos, labels=labels)
        size = sum(file.stat().st_size for file in Path(folder).iterdir()) / 2**20
        typer.echo(f"{rows:,} rows of labels, {size:,.0f} MiB of tables")
        found = measured(slopes_of_run, Path(folder))
        typer.echo(f"{found}  {found.result}")


if __name__ == "__main__":
    typer.run(main)
