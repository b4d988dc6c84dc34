"""The tables of a run with faces and edits, generated without networks."""

import cv2
import numpy as np
import pandas as pd

from models.attributes import RACES
from pipeline.config.attributes import ATTRIBUTES


def tables(folder, *, photos=8):
    """Create (photos, faces, versions) of grey pictures; the estimator is more certain of later photos."""
    names = [f"p{number}.png" for number in range(photos)]
    for number, name in enumerate(names):
        cv2.imwrite(str(folder / name), np.full((80, 60, 3), 40 + 20 * number, dtype=np.uint8))
    paths = pd.DataFrame({"photo": names, "path": [str(folder / name) for name in names]})
    faces = pd.DataFrame({"photo": names, "status": "ok", "reason": None})
    faces = faces.assign(left=10.0, top=20.0, right=50.0, bottom=60.0)
    certainty = np.linspace(0.1, 0.9, photos)
    faces["gender"] = np.where(np.arange(photos) % 2, certainty, -certainty)
    for race in RACES:
        faces[f"race_{race}"] = np.where(race == "White", 0.9, 0.025)
    rows = [
        {"photo": name, "attribute": attribute, "arm": arm, "value": value, "status": "ok", "file": name}
        for name in names
        for attribute in ATTRIBUTES
        for arm in ("edit", "random")
        for value in (-2.0, -1.0, 0.0, 1.0, 2.0)
    ]
    return paths, faces, pd.DataFrame(rows)
