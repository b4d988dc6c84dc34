"""Which sweeps the report shows: some photos, small images of their versions, and what the classifiers said of them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import cv2
import numpy as np

from pipeline.records import EDIT_ARM
from pipeline.report.views import Example, Step
from pipeline.run import Run

if TYPE_CHECKING:
    import pandas as pd

PHOTOS = 4
LABELS = 3
HEIGHT = 200  # pixels


def choose_examples(
    run: Run, *, versions: "pd.DataFrame", labels: "pd.DataFrame", slopes: "pd.DataFrame"
) -> list[Example]:
    """Sweeps of a few photos per attribute, evenly picked from all that are complete, in the order of their names.

    The labels beside them are those of each adapter with the largest slopes.
    """
    made = versions[(versions["arm"] == EDIT_ARM) & (versions["status"] == "ok")]
    examples = []
    for attribute, rows in made.groupby("attribute", sort=True):
        shown = strongest_labels(slopes, attribute=str(attribute))
        for photo in evenly(sorted(rows["photo"].unique()), PHOTOS):
            sweep = rows[rows["photo"] == photo].sort_values("step")
            said = labels[(labels["photo"] == photo) & (labels["attribute"] == attribute) & (labels["arm"] == EDIT_ARM)]
            scores = {
                (row["adapter"], row["step"], row["label"]): row["score"]
                for row in said.to_dict("records")
                if row["returned"]
            }
            steps = [
                Step(
                    value=row["value"],
                    image=thumbnail((run.folder / row["file"]).read_bytes()),
                    scores={
                        adapter: {label: scores.get((adapter, row["step"], label)) for label in names}
                        for adapter, names in shown.items()
                    },
                )
                for row in sweep.to_dict("records")
            ]
            examples.append(Example(photo=str(photo), attribute=str(attribute), steps=steps))
    return examples


def strongest_labels(slopes: "pd.DataFrame", *, attribute: str) -> dict[str, list[str]]:
    """Each adapter's labels with the largest |slope| for an attribute."""
    rows = slopes[(slopes["attribute"] == attribute) & (slopes["arm"] == EDIT_ARM) & slopes["estimable"]]
    rows = rows.reindex(rows["slope"].abs().sort_values(ascending=False, kind="stable").index)
    return {
        str(adapter): [str(label) for label in rows.loc[rows["adapter"] == adapter, "label"].head(LABELS)]
        for adapter in sorted(rows["adapter"].unique())
    }


def evenly(names: Sequence[str], count: int) -> list[str]:
    """Up to ``count`` of the names, spread over the whole list."""
    places = np.linspace(0, len(names) - 1, min(count, len(names))).round().astype(int)
    return [names[place] for place in places]


def thumbnail(image: bytes) -> bytes:
    """An encoded image as a JPEG of at most 200 pixels in height."""
    pixels = cv2.imdecode(np.frombuffer(image, np.uint8), cv2.IMREAD_COLOR)
    if pixels is None:
        raise ValueError("not an image that was written by this program")
    scale = min(1.0, HEIGHT / pixels.shape[0])
    small = cv2.resize(pixels, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA) if scale < 1 else pixels
    return bytes(cv2.imencode(".jpg", small, [cv2.IMWRITE_JPEG_QUALITY, 80])[1].tobytes())
