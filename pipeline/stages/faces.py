"""The second stage: the face of every usable photo and its perceived attributes (``faces.parquet``)."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pipeline.config.options import FaceOptions, PhotoOptions
from pipeline.run.engine import Step
from pipeline.run.files import digest
from pipeline.run.tables import FACES
from pipeline.stages.base import Audit, PhotoChunks, Row, decoding_options, make_table, photo_rows, read_photos

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from models.detector import FaceDetector
    from models.judge import Classifier
    from models.parser import BiSeNet, SmallParser

CHUNK = 16  # the estimator's batch
Parser = tuple[Literal["small", "bisenet"], Path | None]
SKIN = "skin_l"  # the column of the skin's lightness, which only some sweeps use


@dataclass(frozen=True)
class FindFaces:
    """The job of finding the faces of a chunk's photos; see ``faces_stage``."""

    rows: Sequence[Row]
    options: FaceOptions
    decoding: PhotoOptions
    skin: "Parser | None" = None  # the parser that finds the skin, if its lightness is needed

    def __call__(self, step: Step) -> list[dict[str, Any]]:
        """Return rows of the table of faces."""
        from pipeline.photos.faces import face_rows

        detector, estimator = _networks()
        found: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for read, lost in read_photos(self.rows, options=self.decoding):
            names, pixels = [str(row["photo"]) for row, _ in read], [pixels for _, pixels in read]
            rows = face_rows(names, pixels, detector=detector, estimator=estimator, options=self.options, advance=step)
            if self.skin is not None:
                rows = [row | _skin(row, photo, self.skin) for row, photo in zip(rows, pixels, strict=True)]
            found += rows
            failed += [{"photo": row["photo"], "status": "failed", "reason": reason} for row, reason in lost]
        return found + failed


def faces_stage(audit: Audit, upstream: str, *, keep_parts: bool = False) -> str:
    """Find and align the face of every usable photo and estimate its attributes; return the stage's fingerprint.

    Args:
        audit: the run, its options and its watchers.
        upstream: the fingerprint of the photos.
        keep_parts: see ``make_table``.
    """
    from models.weights import record

    options, decoding = audit.settings.faces, audit.settings.photos
    sweep, depends = audit.settings.sweep, [options.model_dump(), record("estimator").sha256]
    skin = None
    if any(SKIN in attribute.inputs for attribute in sweep.chosen().values()):
        skin = sweep.parser, sweep.parser_weights
        depends += [record("parser").sha256, str(skin)]
    fingerprint = digest(["faces", upstream, *depends])
    if audit.run.is_done("faces", fingerprint):
        return fingerprint
    photos = photo_rows(audit.run)
    chunks = PhotoChunks(photos[photos["status"] == "ok"].drop(columns="status"), size=CHUNK)
    part = digest([*depends, decoding_options(decoding)])
    make_table(
        audit, "faces", chunks,
        fingerprint=fingerprint, part_fingerprint=part, columns=FACES, planned=len(chunks),
        job=lambda rows: FindFaces(rows, options, decoding, skin), keep_parts=keep_parts,
    )  # fmt: skip
    return fingerprint


def _skin(row: dict[str, Any], pixels: "NDArray[np.uint8]", parser: Parser) -> dict[str, float]:
    """Return the column of the skin's median L*, if there is a face that shows enough skin."""
    from pipeline.counterfactuals.make import subject_of
    from pipeline.counterfactuals.skin import skin_lightness

    found = None if row["status"] != "ok" else skin_lightness(_parser(*parser), subject_of(row, pixels))
    return {} if found is None else {SKIN: found}


@lru_cache(maxsize=1)
def _parser(name: Literal["small", "bisenet"], weights: Path | None) -> "SmallParser | BiSeNet":
    import torch

    from models.weights import load_parser

    return load_parser(name, weights=weights).to(memory_format=torch.channels_last)


@lru_cache(maxsize=1)
def _networks() -> "tuple[FaceDetector, Classifier]":
    import torch

    from models.detector import FaceDetector
    from models.weights import load_judge

    # On the CPU: single photos are too little work for a GPU, and results must not depend on the device.
    return FaceDetector(), load_judge("estimator").to(memory_format=torch.channels_last)
