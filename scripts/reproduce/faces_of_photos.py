"""What scripts that look at edits share: the faces of a folder's photos, ready to be edited."""

from pathlib import Path

import numpy as np

from models.detector import FaceDetector
from models.weights import load_judge
from pipeline.config.options import FaceOptions, PhotoOptions
from pipeline.counterfactuals.sweep import Subject
from pipeline.photos.decoding import read_photo
from pipeline.photos.faces import face_rows, own_attributes
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
    return [
        Subject(str(row["photo"]), image, np.reshape(row["landmarks"], (5, 2)).astype(float), own_attributes(row))
        for row, image in zip(rows, pixels, strict=True)
        if row["status"] == "ok"
    ]
