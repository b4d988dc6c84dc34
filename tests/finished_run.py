"""A run on disk whose classifiers have answered, generated without photos."""

from pathlib import Path

import pandas as pd
from run_tables import write_tables
from simulated_sweeps import simulate_presence, simulated_run

from models.attributes import RACES
from pipeline.config.sources import load_settings
from pipeline.run.record import RunRecord, write_record
from pipeline.run.tables import ANSWERS, LABELS

PHOTO_COUNT = 90


def write_run(folder: Path, parts, *, manifest=None, sweep=None) -> Path:
    """Write the tables and the record of a run from parts (adapter, attribute, arm, y).

    Args:
        folder: the run's folder.
        parts: ``y`` is presence ``(n, K, L)``.
        manifest: further columns of the photos.
        sweep: options of the section ``sweep``.
    """
    labels, answers = simulated_run(parts)
    names = [f"p{index:04d}" for index in range(max(len(part[3]) for part in parts))]
    photos = pd.DataFrame({"photo": names, "path": names, "sha256": [f"sha of {name}" for name in names]})
    photos = photos.assign(width=100, height=100, status="ok", reason=None, **(manifest or {}))
    rows = [
        {"photo": name, "status": "ok", "gender": -0.5 if index % 3 else 0.5}
        | {f"race_{race}": float(race == RACES[index % 2]) for race in RACES}
        for index, name in enumerate(names)
    ]
    write_parquet(photos, folder / "photos.parquet")
    write_tables(folder, faces=rows, counterfactuals=[])
    write_parquet(labels.assign(sha256="", reason=None)[list(LABELS)], folder / "labels.parquet")
    write_parquet(answers.assign(sha256="", reason=None)[list(ANSWERS)], folder / "answers.parquet")
    given = {"statistics": {"min_count": 5, "resamples": 100}, "sweep": sweep or {}}
    settings = load_settings(given=given, environment={})
    record = RunRecord(settings=settings, presence_thresholds={part[0]: 0.5 for part in parts})
    write_record(record, folder / "run.json")
    return folder


def write_parquet(frame: pd.DataFrame, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_parquet(path, index=False)


def responses(*, effect, seed):
    return simulate_presence(photos=PHOTO_COUNT, labels=3, base=0.3, effect=effect, spread=0.1, noise=0.3, seed=seed)


def tables_of(folder: Path) -> dict[str, bytes]:
    """File -> content, of all tables of a run."""
    names = ["photos.parquet", "faces.parquet", "counterfactuals.parquet", "answers.parquet", "labels.parquet"]
    tables = sorted((folder / "tables").iterdir())
    return {path.name: path.read_bytes() for path in [*(folder / name for name in names), *tables]}
