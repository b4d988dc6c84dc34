"""Photos with the people in them hidden under several conditions, and their manifest (``masked.csv``)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import cv2
import numpy as np

from pipeline.config.options import ConfigError, Settings
from pipeline.dataset.person import CONDITIONS, Annotations, boxes_of, hidden_pixels, parsed_people
from pipeline.run.engine import Step
from pipeline.run.files import digest, digest_of_files, write_bytes, write_text
from pipeline.run.folder import Run
from pipeline.run.image_store import ImageStore
from pipeline.run.progress import Watch, unwatched
from pipeline.run.storage import Location
from pipeline.run.tables import frame_to_csv, read_frame
from pipeline.stages.audit import opened_run, start_run
from pipeline.stages.base import PhotoChunks, Row, decoding_options, make_table, photo_rows, read_photos, started_engine
from pipeline.stages.faces import faces_stage
from pipeline.stages.photos import photos_stage

MASKED = {
    "photo": "string",
    "condition": "string",
    "status": "string",
    "reason": "string",
    "file": "string",  # relative to the run's folder
    "people": "int32",
    "hidden_share": "double",  # of the photo's pixels
}
MANIFEST = "masked.csv"
CHUNK = 16
NOT_ANNOTATED = "the annotations do not name this photo"
UNKNOWN = "there is no condition {name!r}; choose from {known}"


@dataclass(frozen=True)
class Absent:
    """A photo whose people are not located, and the reason."""

    status: str
    reason: str


@dataclass(frozen=True)
class HidePeople:
    """The job of writing the photos of a chunk once per condition; see ``mask_people``."""

    rows: Sequence[Row]
    settings: Settings
    conditions: Sequence[str]
    annotations: Path | None
    images: ImageStore

    def __call__(self, step: Step) -> list[dict[str, Any]]:
        """Return rows of the table of masked photos."""
        found: list[list[dict[str, Any]]] = []
        with self.images.writing("masked") as writing:
            for read, lost in read_photos(self.rows, options=self.settings.photos):
                found += [_missing(row, self.conditions, "failed", reason) for row, reason in lost]
                for (row, pixels), masks in zip(read, self._people(read), strict=True):
                    if isinstance(masks, Absent):
                        found.append(_missing(row, self.conditions, masks.status, masks.reason))
                    else:
                        found.append([_write(writing.folder, row, pixels, masks, name) for name in self.conditions])
                    step(1)
        return [row for rows in found for row in rows]

    def _people(self, read: Sequence[tuple[Row, Any]]) -> list[list[Any] | Absent]:
        if self.annotations is not None:
            return _annotated(_annotations(self.annotations), read)
        return _parsed(_parser(self.settings.sweep.parser, self.settings.sweep.parser_weights), read)


def mask_people(
    photos: Sequence[Location],
    out: Location,
    *,
    settings: Settings,
    conditions: Sequence[str] = tuple(CONDITIONS),
    annotations: Path | None = None,
    given: Mapping[str, Any] | None = None,
    watch: Watch = unwatched,
) -> Run:
    """Write every photo once per condition. A repeated call continues.

    The images are ``masked/CONDITION/PHOTO.png`` in the run's folder. ``masked.csv`` lists them with the columns of the
    photos' manifest, so that predictions can be compared by condition.

    Args:
        photos: a folder, files, or one manifest.
        out: the run's folder. A URL receives the images and copies of the run's other files, see ``opened_run``.
        settings: all options.
        conditions: names of ``CONDITIONS``.
        annotations: COCO instances of the photos; default: the face parser locates the person.
        given: the options as the user gave them.
        watch: opens the progress display of a stage.

    Raises:
        ConfigError: a condition is unknown, or the annotations cannot be used.
        NoUsablePhotos, RunError: the message says what to do.
    """
    for name in conditions:
        if name not in CONDITIONS:
            raise ConfigError(UNKNOWN.format(name=name, known=", ".join(CONDITIONS)))
    if annotations is not None:
        _annotations.cache_clear()  # the file may have changed
        _annotations(annotations)  # fails early
    run, settings = opened_run(out, settings)
    with run.locked(), started_engine(settings.engine) as engine:
        audit = start_run(run, photos, settings=settings, given=given or {}, watch=watch, engine=engine)
        images = replace(run.images, shards=None)
        upstream = photos_stage(audit)
        rows = photo_rows(run)
        rows = rows[rows["status"] == "ok"].drop(columns="status")
        if annotations is None:
            upstream = faces_stage(audit, upstream)
            faces = read_frame(run.path("faces.parquet"), columns=["photo", "status", "reason", "landmarks"])
            rows = rows.merge(faces, on="photo", how="left")
        depends = [
            list(conditions),
            annotations and digest_of_files(annotations),
            sorted(audit.run.record.weights.items()),
        ]
        fingerprint = digest(["masked", upstream, *depends])
        if not run.is_done("masked", fingerprint):
            make_table(
                audit, "masked", PhotoChunks(rows, size=CHUNK),
                fingerprint=fingerprint, part_fingerprint=digest([*depends, decoding_options(settings.photos)]),
                columns=MASKED, planned=len(rows) * len(conditions),
                job=lambda chunk: HidePeople(chunk, settings, conditions, annotations, images),
            )  # fmt: skip
        _write_manifest(run)
    return run


@lru_cache(maxsize=1)
def _annotations(path: Path) -> Annotations:
    return Annotations(path)


@lru_cache(maxsize=1)
def _parser(kind: Literal["small", "bisenet"], weights: Path | None) -> Any:
    from models.weights import load_parser

    return load_parser(kind, weights=weights)


def _annotated(known: Annotations, read: Sequence[tuple[Row, Any]]) -> list[list[Any] | Absent]:
    found: list[list[Any] | Absent] = []
    for row, pixels in read:
        try:
            found.append(known.people(row["photo"], height=pixels.shape[0], width=pixels.shape[1]))
        except KeyError:
            found.append(Absent("excluded", NOT_ANNOTATED))
        except ValueError as error:
            found.append(Absent("failed", str(error)))
    return found


def _parsed(parser: Any, read: Sequence[tuple[Row, Any]]) -> list[list[Any] | Absent]:
    seen = [(row, pixels) for row, pixels in read if row["status"] == "ok"]
    points = [np.array(row["landmarks"], dtype=np.float64).reshape(5, 2) for row, _ in seen]
    subjects = [(row["photo"], pixels, own) for (row, pixels), own in zip(seen, points, strict=True)]
    masks = dict(zip((row["photo"] for row, _ in seen), parsed_people(parser, subjects) if seen else (), strict=True))
    return [
        [masks[row["photo"]]] if row["photo"] in masks else Absent(row["status"], str(row["reason"])) for row, _ in read
    ]


def _missing(row: Row, conditions: Sequence[str], status: str, reason: str) -> list[dict[str, Any]]:
    return [{"photo": row["photo"], "condition": name, "status": status, "reason": reason} for name in conditions]


def _write(folder: Path, row: Row, pixels: Any, people: Sequence[Any], condition: str) -> dict[str, Any]:
    hidden = hidden_pixels(condition, people, shape=pixels.shape[:2], seed={"photo": row["sha256"]})
    image = np.where(hidden[:, :, None], 0, pixels).astype(np.uint8)
    file = Path("masked", condition, f"{row['photo']}.png")
    _, encoded = cv2.imencode(".png", image[:, :, ::-1])
    write_bytes(folder / file, encoded.tobytes())
    return {
        "photo": row["photo"],
        "condition": condition,
        "status": "ok",
        "file": str(file),
        "people": len(boxes_of(people)),
        "hidden_share": float(hidden.mean()),
    }


def _write_manifest(run: Run) -> None:
    """Write ``masked.csv``: the images with the columns of the photos' manifest."""
    photos = read_frame(run.path("photos.parquet"))
    own = photos.drop(columns=["path", "sha256", "width", "height", "status", "reason"])
    made = read_frame(run.path("masked.parquet"))
    made = made[made["status"] == "ok"].drop(columns=["status", "reason"])
    table = made.merge(own, on="photo").rename(columns={"photo": "source", "file": "photo"})
    first = ["photo", "source", "condition", "people", "hidden_share"]
    write_text(run.path(MANIFEST), frame_to_csv(table[first + [name for name in table if name not in first]]))
