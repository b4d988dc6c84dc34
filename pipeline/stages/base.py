"""The context of every stage, and the processing of photos in chunks, whose parts are stored by content."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.options import EngineOptions, PhotoOptions, Settings
from pipeline.querying.plan import Consent, no_consent
from pipeline.run.engine import IN_PROCESS, Engine, Job, cores, started
from pipeline.run.folder import Run
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.storage import Location, fetched, location
from pipeline.run.tables import check_account, read_frame, write_joined

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

# Up to this many photos, starting worker processes takes longer than it saves.
FEW = 16
PIXELS_AT_ONCE = 24_000_000  # pixels that a job decodes at once (72 MB), plus one photo
# Modules that are imported once for all worker processes.
NETWORKS = (
    "models.detector",
    "pipeline.photos.faces",
    "pipeline.counterfactuals.make",
    "pipeline.stages.faces",
    "pipeline.stages.counterfactuals",
)

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Audit:
    """A running audit.

    Attributes:
        run: the folder.
        settings: all options.
        inputs: the photos: a folder, files, or a manifest.
        watch: opens the progress display of a stage.
        consent: decides whether faces may leave this machine.
        engine: processes photos and queries local classifiers.
    """

    run: Run
    settings: Settings
    inputs: tuple[Location, ...] = ()
    watch: Watch = unwatched
    consent: Consent = no_consent
    engine: Engine = IN_PROCESS

    def engine_for(self, photos: int) -> Engine:
        """Return the engine for this many photos; the current process for few photos."""
        return self.engine if photos > FEW else IN_PROCESS


def started_engine(options: EngineOptions) -> AbstractContextManager[Engine]:
    """Start the engine of the options; it ends with the context."""
    if options.kind == "ray":
        from pipeline.run.ray_engine import connected

        return connected(options.workers, address=options.ray_address, gpus=options.device != "cpu")
    return started(options.workers or cores(), preload=NETWORKS)


def check_outputs(run: Run, *stages: str) -> None:
    """Check that the files of finished stages are unchanged.

    Raises:
        RunError: a file is missing or damaged; the message says how to make it again.
    """
    for stage in stages:
        for name in run.damaged(stage):
            raise RunError(f"{run.path(name)} is gone or damaged: {remedy(stage, run.folder)}")


def remedy(stage: str, folder: Path) -> str:
    """Say how to make the files of a stage again."""
    if stage == "query":
        return f"`counterslope labels {folder}` derives it from the answers"
    if stage in ("tables", "report"):
        return f"`counterslope report {folder}` writes it"
    return "the command that made the run makes it again, and sends no image twice"


@dataclass(frozen=True, eq=False)
class PhotoChunks:
    """Rows of photos in chunks by their ``place`` in the input, so that removing a photo changes only its own chunk.
    Rows are converted to plain values one chunk at a time."""

    frame: "pd.DataFrame"
    size: int

    def __len__(self) -> int:
        return len(self.frame)

    def __iter__(self) -> Iterator[list[dict[str, Any]]]:
        import numpy as np

        for _, rows in self.frame.groupby(self.frame["place"] // self.size, sort=True):
            yield [
                {str(name): value.tolist() if isinstance(value, np.ndarray) else value for name, value in row.items()}
                for row in rows.drop(columns="place").to_dict("records")
            ]


def photo_rows(run: Run) -> "pd.DataFrame":
    """Read the photos for later stages: photo, path, sha256, status, and their ``place`` in the input."""
    photos = read_frame(run.path("photos.parquet"), columns=["photo", "path", "sha256", "status"])
    return photos.assign(place=range(len(photos)))


def decoding_options(options: PhotoOptions) -> dict[str, Any]:
    """Return the options that affect a photo's pixels."""
    return options.model_dump(exclude={"opt_out", "opt_out_allow_unmatched"})


def read_photos(
    rows: Sequence[Row], *, options: PhotoOptions
) -> "Iterator[tuple[list[tuple[Row, NDArray[np.uint8]]], list[tuple[Row, str]]]]":
    """Decode the photos of rows in groups of at most about `PIXELS_AT_ONCE`.

    Yields:
        Rows with their ``(H, W, 3)`` pixels, and rows whose photo can no longer be read, with the reason.
    """
    from pipeline.photos.decoding import PhotoError, read_photo

    good, lost, pixels = [], [], 0
    for row, file in zip(rows, fetched([location(row["path"]) for row in rows]), strict=True):
        try:
            photo = read_photo(file, options=options, sha256=row["sha256"]).pixels
        except PhotoError as error:
            lost.append((row, str(error)))
            continue
        good.append((row, photo))
        pixels += photo[..., 0].size
        if pixels > PIXELS_AT_ONCE:
            yield good, lost
            good, lost, pixels = [], [], 0
    if good or lost:
        yield good, lost


def make_table(
    audit: Audit,
    stage: str,
    chunks: PhotoChunks,
    *,
    fingerprint: str,
    part_fingerprint: str,
    columns: Mapping[str, str],
    planned: int,
    job: Callable[[Sequence[Row]], Job[list[dict[str, Any]]]],
    finish: Callable[[], None] = lambda: None,
    keep_parts: bool = False,
) -> None:
    """Run a stage that makes ``STAGE.parquet`` from rows of photos, in parts that survive a kill.

    Args:
        fingerprint: covers everything on which the result of the stage depends.
        part_fingerprint: covers everything on which a part depends, except its rows.
        columns: columns of the table.
        planned: the expected number of rows.
        job: returns the job that makes the table's rows from the rows of a chunk.
        finish: writes the files that accompany the table.
        keep_parts: keep the parts, so that with other photos only changed chunks are processed again.
    """
    run, engine = audit.run, audit.engine_for(len(chunks))
    with (
        run.stage(stage, fingerprint, outputs=[f"{stage}.parquet"], engine=engine) as counts,
        audit.watch(stage, total=len(chunks)) as advance,
    ):
        # Parts of other options or photos are removed first, because their files may be overwritten from now on.
        run.keep_only_parts(stage, chunks, fingerprint=part_fingerprint)
        run.checkpoint()
        parts = run.parts(
            stage,
            chunks,
            fingerprint=part_fingerprint,
            columns=columns,
            work=lambda rows, step: engine.call(job(rows), step),
            advance=advance,
            engine=engine,
        )
        statuses = write_joined(parts, run.path(f"{stage}.parquet"), columns)
        counts |= check_account(planned=planned, statuses=statuses, stage=stage)
        finish()
        if not keep_parts or "failed" in statuses:
            run.drop_parts(stage)
