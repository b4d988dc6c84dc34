"""What an audit does up to the versions, stage by stage: each reads the tables of the one before and writes its own.

The work itself is in the modules named after the stages; the bookkeeping is in ``pipeline.run``; asking classifiers is
in ``pipeline.asking``, what is made of their labels in ``pipeline.outputs``.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config import PhotoOptions, Settings
from pipeline.progress import Watch, unwatched
from pipeline.querying.plan import Consent, nobody
from pipeline.records import (
    COUNTERFACTUALS,
    FACES,
    check_account,
    read_frame,
    write_table,
)
from pipeline.run import Run, chunks_of, digest

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

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


def photos_stage(audit: Audit) -> str:
    """List, check and hash the photos; returns the stage's fingerprint.

    Raises:
        NoUsablePhotos: there is nothing to audit.
    """
    from pipeline.photos import check_photos, find_photos

    found = find_photos(audit.inputs)
    fingerprint = digest(["photos", found.fingerprint, audit.settings.photos.model_dump()])
    if audit.run.is_done("photos", fingerprint):
        return fingerprint
    with audit.run.stage("photos", fingerprint) as counts, audit.watch("photos", total=len(found)) as advance:
        table = check_photos(found, options=audit.settings.photos, advance=advance)
        counts |= check_account(planned=len(found), statuses=table["status"].to_pylist(), stage="photos")
        write_table(table, audit.run.path("photos.parquet"))
    return fingerprint


def faces_stage(audit: Audit, upstream: str) -> str:
    """Find, choose and align the face of every usable photo, and estimate its attributes."""
    from models.weights import record

    fingerprint = digest(["faces", upstream, audit.settings.faces.model_dump(), record("estimator").sha256])
    if audit.run.is_done("faces", fingerprint):
        return fingerprint
    import torch

    from models.detector import FaceDetector
    from models.weights import load_judge
    from pipeline.faces import face_rows

    photos = _usable(read_frame(audit.run.path("photos.parquet")), ["photo", "path", "sha256"])
    options = audit.settings.photos
    detector, estimator = FaceDetector(), load_judge("estimator").to(memory_format=torch.channels_last)
    with (
        audit.run.stage("faces", fingerprint) as counts,
        audit.watch("faces", total=len(photos)) as advance,
        ThreadPoolExecutor(THREADS) as pool,
    ):

        def work(chunk: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
            read, lost = _read_again(pool, chunk, options=options)
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

        table = audit.run.in_chunks(
            "faces",
            chunks_of(photos, size=FACES_CHUNK),
            fingerprint=fingerprint,
            columns=FACES,
            work=work,
            advance=advance,
        )
        counts |= check_account(planned=len(photos), statuses=table["status"].to_pylist(), stage="faces")
        write_table(table, audit.run.path("faces.parquet"))
        audit.run.drop_parts("faces")
    return fingerprint


def counterfactuals_stage(audit: Audit, upstream: str) -> str:
    """Make every version of every face, and check it with the judge."""
    from models.identity import find_weights, load_recogniser
    from models.weights import record

    weights = [record(name).sha256 for name in ("fader", "parser", "judge")]
    options = audit.settings.sweep.model_dump(mode="json")
    recogniser = find_weights() if audit.settings.validity.identity_photos else None
    identity = [str(recogniser), audit.settings.validity.identity_photos]
    fingerprint = digest(["counterfactuals", upstream, options, weights, identity])
    if audit.run.is_done("counterfactuals", fingerprint):
        return fingerprint
    import numpy as np
    import torch

    from models.precision import network_dtype
    from models.weights import load_fader, load_judge, load_parser
    from pipeline.counterfactuals.dataset import write_metadata
    from pipeline.counterfactuals.making import Networks, make_versions, unmade
    from pipeline.counterfactuals.sweep import Subject
    from pipeline.examples import evenly
    from pipeline.faces import own_attributes

    photos = read_frame(audit.run.path("photos.parquet"), columns=["photo", "path", "sha256"]).set_index("photo")
    faces = _usable(read_frame(audit.run.path("faces.parquet")), list(FACES))
    rows = [face | {"path": photos.at[face["photo"], "path"]} for face in faces]
    sweep = audit.settings.sweep
    networks = Networks(
        fader=load_fader(),
        parser=load_parser(sweep.parser, weights=sweep.parser_weights),
        judge=load_judge("judge"),
        recogniser=None if recogniser is None else load_recogniser(recogniser),
    )
    identified = frozenset(evenly(sorted(str(row["photo"]) for row in rows), audit.settings.validity.identity_photos))
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
                run_folder=audit.run.folder,
                pool=pool,
                identified=identified,
            )
            for row, reason in lost:
                for attribute, arm in product(sweep.attributes, sweep.arms):
                    made += unmade(str(row["photo"]), attribute, options=sweep, status="failed", reason=reason, arm=arm)
            return made

        # Pixels can differ in their last bit between processors: the record says which arithmetic made them.
        audit.run.note(precision=str(network_dtype()).removeprefix("torch."))
        table = audit.run.in_chunks(
            "counterfactuals",
            chunks_of(rows, size=SWEEP_CHUNK),
            fingerprint=fingerprint,
            columns=COUNTERFACTUALS,
            work=work,
            advance=advance,
        )
        planned = len(rows) * len(sweep.arms) * sum(sweep.steps(attribute) for attribute in sweep.attributes)
        counts |= check_account(planned=planned, statuses=table["status"].to_pylist(), stage="counterfactuals")
        write_table(table, audit.run.path("counterfactuals.parquet"))
        write_metadata(table, audit.run.path("images"))
        audit.run.drop_parts("counterfactuals")
    return fingerprint


def _read_again(
    pool: ThreadPoolExecutor, rows: Sequence[Mapping[str, Any]], *, options: PhotoOptions
) -> "tuple[list[tuple[Mapping[str, Any], NDArray[np.uint8]]], list[tuple[Mapping[str, Any], str]]]":
    """Rows with their photos' pixels; and rows whose photo can no longer be read, with the reason."""
    from pipeline.photos import PhotoError, read_photo

    def read(row: Mapping[str, Any]) -> "NDArray[np.uint8] | str":
        try:
            return read_photo(Path(row["path"]), options=options).pixels
        except PhotoError as error:
            return str(error)

    results = list(zip(rows, pool.map(read, rows), strict=True))
    good = [(row, result) for row, result in results if not isinstance(result, str)]
    return good, [(row, result) for row, result in results if isinstance(result, str)]


def _usable(frame: "pd.DataFrame", columns: list[str]) -> list[dict[str, Any]]:
    """The rows that are ok, as plain values."""
    import numpy as np

    rows = frame.loc[frame["status"] == "ok", columns].to_dict("records")
    return [
        {str(name): value.tolist() if isinstance(value, np.ndarray) else value for name, value in row.items()}
        for row in rows
    ]
