"""Features of photos or texts, by which rows are alike: from a file, or a run's faces as the judge sees them.

What is made of them is in ``pipeline.statistics.local.logan``.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.options import ConfigError, Settings
from pipeline.run.files import digest
from pipeline.run.folder import Run, chunks_of
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.storage import location
from pipeline.run.tables import check_account, read_frame, write_joined

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from models.judge import Classifier

FEATURES = {"photo": "string", "status": "string", "reason": "string", "features": "list<double>"}
CHUNK = 64
ENDINGS = (".npy", ".csv", ".parquet")


def read_features(path: Path, *, photos: Sequence[str] | None = None) -> "NDArray[np.float64]":
    """``(n, D)`` features from a file: .npy, or .csv or .parquet of which all columns of numbers are taken.

    The rows are those of ``photos``, in their order, if the file has a column ``photo``; else as they stand.

    Raises:
        ConfigError: the file cannot be read, has no numbers, another number of rows, or not all photos.
    """
    import numpy as np
    import pandas as pd

    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"features must be a {', '.join(ENDINGS)} file, but there is {path}")
    try:
        if path.suffix.lower() == ".npy":
            table: NDArray[Any] = np.load(path, allow_pickle=False)
        else:
            # A photo called 007 is not the number seven.
            frame = pd.read_csv(path, dtype={"photo": str}) if path.suffix.lower() == ".csv" else pd.read_parquet(path)
            if photos is not None and "photo" in frame.columns:
                frame = _in_order(frame, photos, path)
            table = frame.drop(columns="photo", errors="ignore").select_dtypes("number").to_numpy(dtype=np.float64)
    except (OSError, ValueError) as error:
        raise ConfigError(f"the features in {path} cannot be read: {error}") from error
    if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "biuf":
        raise ConfigError(f"the features in {path} must be rows of numbers, but have the shape {table.shape}")
    if photos is not None and len(table) != len(photos):
        raise ConfigError(f"the features in {path} have {len(table)} rows, but {len(photos)} are needed")
    return table.astype(np.float64)


def judged_features(run: Run, *, settings: Settings, watch: Watch = unwatched) -> "pd.DataFrame":
    """Photo and features ``(F,)``: the judge's embedding of each aligned face, computed once and kept with the run.

    Photos that can no longer be read are left out.

    Raises:
        RunError: the run's faces are not complete.
    """
    from models.weights import record

    if not run.record.is_done("faces"):
        raise RunError(f"the faces in {run.folder} are not complete: run the audit's own command again first")
    path = run.path("features.parquet")
    fingerprint = digest(["features", run.record.stages["faces"].fingerprint, record("judge").sha256])
    if not (run.is_done("features", fingerprint) and path.exists()):
        _embed(run, fingerprint, settings=settings, watch=watch)
    kept = read_frame(path)
    return kept.loc[kept["status"] == "ok", ["photo", "features"]].reset_index(drop=True)


def embed(crops: "Sequence[NDArray[np.uint8]]", *, judge: "Classifier") -> "list[list[float]]":
    """The penultimate layer's values for aligned ``(S, S, 3)`` uint8 crops, ``F`` numbers each."""
    from models.judge import perceive_crops

    if not crops:
        return []
    embedded: list[list[float]] = perceive_crops(judge, crops).features.double().tolist()
    return embedded


def _embed(run: Run, fingerprint: str, *, settings: Settings, watch: Watch) -> None:
    import numpy as np
    import torch

    from models.alignment import aligned_crop
    from models.weights import load_judge
    from pipeline.photos.decoding import PhotoError, read_photo
    from pipeline.photos.faces import CROP

    paths = read_frame(run.path("photos.parquet"), columns=["photo", "path"]).set_index("photo")["path"]
    faces = read_frame(run.path("faces.parquet"), columns=["photo", "status", "landmarks"])
    rows = [
        {"photo": photo, "path": paths[photo], "landmarks": landmarks.tolist()}
        for photo, status, landmarks in faces.itertuples(index=False)
        if status == "ok"
    ]

    def work(chunk: Sequence[Mapping[str, Any]], step: Callable[[float], None]) -> list[dict[str, Any]]:
        crops, read, lost = [], [], []
        for row in chunk:
            try:
                photo = read_photo(location(row["path"]), options=settings.photos)
            except PhotoError as error:
                lost.append({"photo": row["photo"], "status": "failed", "reason": str(error)})
                continue
            landmarks = np.array(row["landmarks"], dtype=np.float64).reshape(5, 2)
            crops.append(aligned_crop(photo.pixels, landmarks, size=CROP))
            read.append(row["photo"])
            step(0.5)
        embedded = embed(crops, judge=judge)
        return lost + [
            {"photo": photo, "status": "ok", "reason": None, "features": values}
            for photo, values in zip(read, embedded, strict=True)
        ]

    shown = watch("features", total=len(rows))
    with run.locked(), run.stage("features", fingerprint) as counts, shown as advance:
        judge = load_judge("judge").to(memory_format=torch.channels_last)
        chunks = chunks_of(rows, size=CHUNK)
        how: dict[str, Any] = {"columns": FEATURES, "work": work, "advance": advance}
        parts = run.parts("features", chunks, fingerprint=fingerprint, **how)
        statuses = write_joined(parts, run.path("features.parquet"), FEATURES)
        counts |= check_account(planned=len(rows), statuses=statuses, stage="features")
        run.drop_parts("features")


def _in_order(frame: "pd.DataFrame", photos: Sequence[str], path: Path) -> "pd.DataFrame":
    """The rows of some photos, in their order."""
    named = frame.assign(photo=frame["photo"].astype(str)).set_index("photo")
    if not named.index.is_unique:
        raise ConfigError(f"the features in {path} name {named.index[named.index.duplicated()][0]!r} twice")
    missing = [photo for photo in photos if photo not in named.index]
    if missing:
        raise ConfigError(f"the features in {path} lack {len(missing)} photos, the first is {missing[0]!r}")
    return named.loc[list(photos)].reset_index()
