"""Features of photos or texts for clustering: from a file, or the judge's embeddings of a run's faces."""

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
    """Read ``(n, D)`` features from a .npy file, or from all numeric columns of a .csv or .parquet file.

    If the file has a column ``photo``, rows are matched to ``photos`` by it, else by position.

    Raises:
        ConfigError: an unreadable file, no numbers, a wrong number of rows, or missing photos.
    """
    import numpy as np
    import pandas as pd

    if path.suffix.lower() not in ENDINGS:
        raise ConfigError(f"features must be a {', '.join(ENDINGS)} file, not {path}")
    try:
        if path.suffix.lower() == ".npy":
            table: NDArray[Any] = np.load(path, allow_pickle=False)
        else:
            # Names such as 007 stay text.
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
    """Photo and features ``(F,)``: the judge's embedding of each aligned face, computed once and stored in the run.

    Photos that can no longer be read are left out.

    Raises:
        RunError: the run's faces are not complete.
    """
    from models.weights import record

    if not run.record.is_done("faces"):
        raise RunError(f"the faces in {run.folder} are not complete: run the audit's command again first")
    path = run.path("features.parquet")
    fingerprint = digest(["features", run.record.stages["faces"].fingerprint, record("judge").sha256])
    if not (run.is_done("features", fingerprint) and path.exists()):
        _embed(run, fingerprint, settings=settings, watch=watch)
    kept = read_frame(path)
    return kept.loc[kept["status"] == "ok", ["photo", "features"]].reset_index(drop=True)


def embed(crops: "Sequence[NDArray[np.uint8]]", *, judge: "Classifier") -> "list[list[float]]":
    """Activations of the penultimate layer, ``F`` numbers each, for aligned ``(S, S, 3)`` uint8 crops."""
    from models.judge import perceive_crops

    if not crops:
        return []
    embedded: list[list[float]] = perceive_crops(judge, crops).features.double().tolist()
    return embedded


def _embed(run: Run, fingerprint: str, *, settings: Settings, watch: Watch) -> None:
    import numpy as np

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
        crops, names, failed = [], [], []
        for row in chunk:
            try:
                photo = read_photo(location(row["path"]), options=settings.photos)
            except PhotoError as error:
                failed.append({"photo": row["photo"], "status": "failed", "reason": str(error)})
                continue
            landmarks = np.array(row["landmarks"], dtype=np.float64).reshape(5, 2)
            crops.append(aligned_crop(photo.pixels, landmarks, size=CROP))
            names.append(row["photo"])
            step(0.5)
        return failed + [
            {"photo": name, "status": "ok", "reason": None, "features": values}
            for name, values in zip(names, embed(crops, judge=judge), strict=True)
        ]

    shown = watch("features", total=len(rows))
    with run.locked(), run.stage("features", fingerprint) as counts, shown as advance:
        judge = load_judge("judge")
        chunks = chunks_of(rows, size=CHUNK)
        how: dict[str, Any] = {"columns": FEATURES, "work": work, "advance": advance}
        parts = run.parts("features", chunks, fingerprint=fingerprint, **how)
        statuses = write_joined(parts, run.path("features.parquet"), FEATURES)
        counts |= check_account(planned=len(rows), statuses=statuses, stage="features")
        run.drop_parts("features")


def _in_order(frame: "pd.DataFrame", photos: Sequence[str], path: Path) -> "pd.DataFrame":
    """Select the rows of photos, in their order."""
    indexed = frame.assign(photo=frame["photo"].astype(str)).set_index("photo")
    if not indexed.index.is_unique:
        raise ConfigError(f"the features in {path} have {indexed.index[indexed.index.duplicated()][0]!r} twice")
    missing = [photo for photo in photos if photo not in indexed.index]
    if missing:
        raise ConfigError(f"the features in {path} lack {len(missing)} photos, the first is {missing[0]!r}")
    return indexed.loc[list(photos)].reset_index()
