"""Small pictures of faces for the report: of each photo its version at a = 0."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from pipeline.report.thumbnails import film, read_mask, window_of
from pipeline.run.folder import Run
from pipeline.run.tables import EDIT_ARM

if TYPE_CHECKING:
    import pandas as pd

SIDE = 96  # pixels
MOST_BYTES = 6_000


def faces_of(run: Run, photos: Iterable[str], *, versions: "pd.DataFrame") -> dict[str, bytes]:
    """Photo -> the square about its face as a WebP image; a photo whose files cannot be read any more is left out.

    Args:
        run: with its images and masks.
        photos: by name.
        versions: the run's table of them.
    """
    made = versions[(versions["arm"] == EDIT_ARM) & (versions["status"] == "ok")]
    made = made[made["photo"].isin(set(photos))]
    nearest = made.assign(away=np.abs(made["value"])).sort_values(["photo", "away", "attribute"], kind="stable")
    found = {}
    for row in nearest.drop_duplicates("photo").to_dict("records"):
        try:
            window = window_of(read_mask(run.path(row["mask"])))
            found[str(row["photo"])] = film([run.path(row["file"])], window, side=SIDE, most_bytes=MOST_BYTES)
        except (OSError, ValueError):
            continue
    return found
