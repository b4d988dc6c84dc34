"""What an audit does up to the versions, stage by stage: each reads the tables of the one before and writes its own.

The work itself is in the modules named after the stages; the bookkeeping is in ``pipeline.run.folder``; asking
classifiers is in ``pipeline.stages.query``, what is made of their labels in ``pipeline.stages.outputs``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.options import PhotoOptions, Settings
from pipeline.querying.plan import Consent, nobody
from pipeline.run.files import digest
from pipeline.run.folder import Run
from pipeline.run.progress import Watch, unwatched
from pipeline.run.tables import COUNTERFACTUALS, FACES, check_account, read_frame, write_joined, write_table

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from pipeline.counterfactuals.files import Layout

FACES_CHUNK = 64
SWEEP_CHUNK = 16
THREADS = 2


@dataclass(frozen=True)
class Audit:
    """One audit: its run, its options, its input, who watches, and who decides whether faces leave this machine."""

    run: Run
    settings: Settings
    inputs: tuple[Path, ...]
    watch: Watch = unwatched
    consent: Consent = nobody


@dataclass(frozen=True)
class Destination:
    """Where versions go if not into the run's own folder.

    ``splits``: photo -> split. ``layout_of`` gives the layout of a chunk by the chunk's rows (photo, sha256, split and
    all that was found out about the face); ``fingerprint`` names everything that the layout depends on beside them.
    """

    splits: Mapping[str, str]
    layout_of: "Callable[[Sequence[Mapping[str, Any]]], Layout]"
    fingerprint: str


def photos_stage(audit: Audit) -> str:
    """List, check and hash the photos; returns the stage's fingerprint.

    Raises:
        NoUsablePhotos: there is nothing to audit.
    """
    from pipeline.photos.listing import check_photos, find_photos, read_opt_out

    found = find_photos(audit.inputs)
    opt_out = read_opt_out(audit.settings.photos.opt_out)
    listed = [[sorted(opt_out.names), sorted(opt_out.hashes)]] if opt_out else []
    fingerprint = digest(["photos", found.fingerprint, _reading(audit.settings.photos), *listed])
    if audit.run.is_done("photos", fingerprint):
        return fingerprint
    with audit.run.stage("photos", fingerprint) as counts, audit.watch("photos", total=len(found)) as advance:
        table = check_photos(found, options=audit.settings.photos, opt_out=opt_out, advance=advance)
        counts |= check_account(planned=len(found), statuses=table["status"].to_pylist(), stage="photos")
        write_table(table, audit.run.path("photos.parquet"))
    return fingerprint


def faces_stage(audit: Audit, upstream: str, *, keep_parts: bool = False) -> str:
    """Find, choose and align the face of every usable photo, and estimate its attributes.

    Args:
        audit: whose.
        upstream: the fingerprint of the photos.
        keep_parts: so that with other photos only the chunks that differ are worked on again.
    """
    from models.weights import record

    options = [audit.settings.faces.model_dump(), record("estimator").sha256]
    fingerprint = digest(["faces", upstream, *options])
    if audit.run.is_done("faces", fingerprint):
        return fingerprint
    import torch

    from models.detector import FaceDetector
    from models.weights import load_judge
    from pipeline.photos.faces import face_rows

    table = read_frame(audit.run.path("photos.parquet"), columns=["photo", "path", "sha256", "status"])
    table["place"] = range(len(table))
    photos = _Chunks(table[table["status"] == "ok"].drop(columns="status"), size=FACES_CHUNK)
    reading = audit.settings.photos
    detector, estimator = FaceDetector(), load_judge("estimator").to(memory_format=torch.channels_last)
    with (
        audit.run.stage("faces", fingerprint) as counts,
        audit.watch("faces", total=len(photos)) as advance,
        ThreadPoolExecutor(THREADS) as pool,
    ):

        def work(chunk: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            read, lost = _read_again(pool, chunk, options=reading)
            # One photo is searched on one core, so as many are searched at once as there are threads.
            found = pool.map(
                lambda part: face_rows(
                    [str(row["photo"]) for row, _ in part],
                    [pixels for _, pixels in part],
                    detector=detector,
                    estimator=estimator,
                    options=audit.settings.faces,
                ),
                [read[start::THREADS] for start in range(THREADS)],
            )
            rows = {row["photo"]: row for part in found for row in part}
            kept = [rows[str(row["photo"])] for row, _ in read]
            return kept + [{"photo": row["photo"], "status": "failed", "reason": reason} for row, reason in lost]

        parts = _worked(audit.run, "faces", photos, digest([*options, _reading(reading)]), FACES, work, advance)
        statuses = write_joined(parts, audit.run.path("faces.parquet"), FACES)
        counts |= check_account(planned=len(photos), statuses=statuses, stage="faces")
        if not keep_parts or "failed" in statuses:
            audit.run.drop_parts("faces")
    return fingerprint


def counterfactuals_stage(audit: Audit, upstream: str, *, destination: Destination | None = None) -> str:
    """Make every version of every face, and check it with the judge.

    Args:
        audit: whose.
        upstream: the fingerprint of the faces.
        destination: of the files; the run's folder unless given. With one, the parts are kept, so that with other
            photos only the chunks that differ are made again.
    """
    from models.identity import find_weights, load_recogniser
    from models.weights import record

    weights = [record(name).sha256 for name in ("fader", "parser", "judge")]
    options = audit.settings.sweep.model_dump(mode="json")
    recogniser = find_weights() if audit.settings.validity.identity_photos else None
    identity = [str(recogniser), audit.settings.validity.identity_photos]
    depends = [options, weights, identity, *([destination.fingerprint] if destination else [])]
    # Parts know their photos' splits by their rows, the stage by all of them.
    fingerprint = digest(["counterfactuals", upstream, *depends, *([dict(destination.splits)] if destination else [])])
    if audit.run.is_done("counterfactuals", fingerprint):
        return fingerprint
    import numpy as np
    import torch

    from models.precision import network_dtype
    from models.weights import load_fader, load_judge, load_parser
    from pipeline.counterfactuals.files import RunLayout
    from pipeline.counterfactuals.make import Networks, make_versions, unmade
    from pipeline.counterfactuals.sweep import Subject
    from pipeline.dataset.metadata import write_run_metadata
    from pipeline.photos.faces import own_attributes

    photos = read_frame(audit.run.path("photos.parquet"), columns=["photo", "path", "sha256"])
    photos["place"] = range(len(photos))
    faces = read_frame(audit.run.path("faces.parquet"))
    rows = faces[faces["status"] == "ok"].merge(photos, on="photo").sort_values("place")
    # By hash, so that a photo more or less changes no more than one other's part in it.
    identified = frozenset(rows.sort_values("sha256")["photo"].head(audit.settings.validity.identity_photos))
    rows["identified"] = rows["photo"].isin(identified)
    if destination is not None:
        rows["split"] = rows["photo"].map(destination.splits)
    chunks = _Chunks(rows, size=SWEEP_CHUNK)
    sweep = audit.settings.sweep
    networks = Networks(
        fader=load_fader(),
        parser=load_parser(sweep.parser, weights=sweep.parser_weights),
        judge=load_judge("judge"),
        recogniser=None if recogniser is None else load_recogniser(recogniser),
    )
    for network in (networks.fader, networks.parser, networks.judge):
        network.to(memory_format=torch.channels_last)
    with (
        audit.run.stage("counterfactuals", fingerprint) as counts,
        audit.watch("counterfactuals", total=len(rows)) as advance,
        ThreadPoolExecutor(THREADS) as pool,
    ):

        def work(chunk: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            read, lost = _read_again(pool, chunk, options=audit.settings.photos)
            subjects = [
                Subject(
                    photo=str(row["photo"]),
                    pixels=pixels,
                    landmarks=np.array(row["landmarks"], dtype=np.float64).reshape(5, 2),
                    own=own_attributes(row),
                )
                for row, pixels in read
            ]
            made = make_versions(
                subjects,
                networks=networks,
                options=sweep,
                layout=RunLayout(audit.run.folder) if destination is None else destination.layout_of(chunk),
                pool=pool,
                identified=identified,
            )
            for row, reason in lost:
                for attribute, arm in product(sweep.attributes, sweep.arms):
                    made += unmade(str(row["photo"]), attribute, options=sweep, status="failed", reason=reason, arm=arm)
            return made

        # Pixels can differ in their last bit between processors: the record says which arithmetic made them.
        audit.run.note(precision=str(network_dtype()).removeprefix("torch."))
        part_depends = digest([*depends, _reading(audit.settings.photos)])
        parts = _worked(audit.run, "counterfactuals", chunks, part_depends, COUNTERFACTUALS, work, advance)
        planned = len(rows) * sweep.versions
        versions = audit.run.path("counterfactuals.parquet")
        statuses = write_joined(parts, versions, COUNTERFACTUALS)
        counts |= check_account(planned=planned, statuses=statuses, stage="counterfactuals")
        if destination is None:
            write_run_metadata(versions, audit.run.path("images"))
        if destination is None or "failed" in statuses:
            audit.run.drop_parts("counterfactuals")
    return fingerprint


@dataclass(frozen=True, eq=False)
class _Chunks:
    """Rows of photos in chunks by their ``place`` among all photos of the input, so that leaving one out changes no
    other chunk than its own. Rows become plain values one chunk at a time."""

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


def _worked(
    run: Run,
    stage: str,
    chunks: _Chunks,
    fingerprint: str,
    columns: Mapping[str, str],
    work: Callable[[Sequence[Mapping[str, Any]]], list[dict[str, Any]]],
    advance: Callable[[int], None],
) -> list[Path]:
    """The stage's parts. Those of other options or photos go first: their files may be overwritten from now on."""
    run.keep_only_parts(stage, chunks, fingerprint=fingerprint)
    return run.parts(stage, chunks, fingerprint=fingerprint, columns=columns, work=work, advance=advance)


def _reading(options: PhotoOptions) -> dict[str, Any]:
    """The options that decide what pixels a photo has."""
    return options.model_dump(exclude={"opt_out"})


def _read_again(
    pool: ThreadPoolExecutor, rows: Sequence[Mapping[str, Any]], *, options: PhotoOptions
) -> "tuple[list[tuple[Mapping[str, Any], NDArray[np.uint8]]], list[tuple[Mapping[str, Any], str]]]":
    """Rows with their photos' pixels; and rows whose photo can no longer be read, with the reason."""
    from pipeline.photos.decoding import PhotoError, read_photo

    def read(row: Mapping[str, Any]) -> "NDArray[np.uint8] | str":
        try:
            return read_photo(Path(row["path"]), options=options).pixels
        except PhotoError as error:
            return str(error)

    results = list(zip(rows, pool.map(read, rows), strict=True))
    good = [(row, result) for row, result in results if not isinstance(result, str)]
    return good, [(row, result) for row, result in results if isinstance(result, str)]
