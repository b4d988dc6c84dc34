"""The second stage: the face of every usable photo and how it is perceived (``faces.parquet``)."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from pipeline.run.files import digest
from pipeline.run.tables import FACES
from pipeline.stages.base import (
    THREADS,
    Audit,
    PhotoChunks,
    Row,
    Step,
    decoding_options,
    make_table,
    photo_rows,
    read_photos,
)

CHUNK = 64


def faces_stage(audit: Audit, upstream: str, *, keep_parts: bool = False) -> str:
    """Find, choose and align the face of every usable photo, and estimate its attributes.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the photos.
        keep_parts: see ``make_table``.

    Returns:
        The stage's fingerprint.
    """
    from models.weights import record

    options, decoding = audit.settings.faces, audit.settings.photos
    depends = [options.model_dump(), record("estimator").sha256]
    fingerprint = digest(["faces", upstream, *depends])
    if audit.run.is_done("faces", fingerprint):
        return fingerprint
    import torch

    from models.detector import FaceDetector
    from models.weights import load_judge
    from pipeline.photos.faces import face_rows

    detector, estimator = FaceDetector(), load_judge("estimator").to(memory_format=torch.channels_last)

    def work(rows: Sequence[Row], pool: ThreadPoolExecutor, step: Step) -> list[dict[str, Any]]:
        def find(read: Sequence[tuple[Row, Any]]) -> list[dict[str, Any]]:
            names, pixels = [str(row["photo"]) for row, _ in read], [pixels for _, pixels in read]
            return face_rows(names, pixels, detector=detector, estimator=estimator, options=options, advance=step)

        read, lost = read_photos(pool, rows, options=decoding)
        # One photo is searched on one core, so as many are searched at once as there are threads.
        found = pool.map(find, [read[start::THREADS] for start in range(THREADS)])
        by_photo = {row["photo"]: row for part in found for row in part}
        failed = [{"photo": row["photo"], "status": "failed", "reason": reason} for row, reason in lost]
        return [by_photo[str(row["photo"])] for row, _ in read] + failed

    photos = photo_rows(audit.run)
    chunks = PhotoChunks(photos[photos["status"] == "ok"].drop(columns="status"), size=CHUNK)
    part = digest([*depends, decoding_options(decoding)])
    make_table(
        audit, "faces", chunks,
        fingerprint=fingerprint, part_fingerprint=part, columns=FACES, planned=len(chunks), work=work,
        keep_parts=keep_parts,
    )  # fmt: skip
    return fingerprint
