"""The faces of a folder's photos, ready to be edited: for scripts that compare edits."""

from pathlib import Path

from models.detector import FaceDetector
from models.weights import load_judge
from pipeline.config.options import FaceOptions, PhotoOptions
from pipeline.counterfactuals.editors.base import Subject
from pipeline.counterfactuals.make import subject_of
from pipeline.photos.decoding import read_photo
from pipeline.photos.faces import face_rows
from pipeline.photos.listing import check_photos, find_photos


def faces_of(photos: Path, *, limit: int) -> list[Subject]:
    """The faces of the first photos of a folder that have one."""
    options = PhotoOptions()
    table = check_photos(find_photos([photos]), options=options, advance=lambda _: None).to_pandas()
    table = table[table["status"] == "ok"].head(limit)
    pixels = [read_photo(Path(path), options=options).pixels for path in table["path"]]
    rows = face_rows(
        list(table["photo"]), pixels, detector=FaceDetector(), estimator=load_judge("estimator"), options=FaceOptions()
    )
    return [subject_of(row, image) for row, image in zip(rows, pixels, strict=True) if row["status"] == "ok"]
