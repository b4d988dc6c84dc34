"""A contact sheet of a run, photos down, values across: ``python scripts/contact_sheet.py RUN SHEET.png``."""

import argparse
import sys
from pathlib import Path

import cv2
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from pipeline.config.attributes import EDIT_ARM
from pipeline.report.album import evenly
from pipeline.run.tables import read_frame


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="the run's folder")
    parser.add_argument("sheet", type=Path, help="the image to write")
    parser.add_argument("--attribute", default="gender", choices=("gender", "race"))
    parser.add_argument("--arm", default=EDIT_ARM)
    parser.add_argument("--photos", type=int, default=12, help="how many photos, evenly picked by name")
    parser.add_argument("--height", type=int, default=180, help="pixels of each image")
    options = parser.parse_args()
    versions = read_frame(options.run / "counterfactuals.parquet")
    versions = versions[(versions["attribute"] == options.attribute) & (versions["arm"] == options.arm)]
    versions = versions[versions["status"] == "ok"]
    paths = read_frame(options.run / "photos.parquet", columns=["photo", "path"]).set_index("photo")["path"]
    rows = []
    for photo in evenly(sorted(versions["photo"].unique()), options.photos):
        sweep = versions[versions["photo"] == photo].sort_values("step")
        files = [Path(paths[photo]), *(options.run / file for file in sweep["file"])]
        rows.append(np.hstack([tile(file, height=options.height) for file in files]))
    if not rows:
        sys.exit(f"{options.run} has no versions for {options.attribute}")
    width = max(row.shape[1] for row in rows)
    padded = [cv2.copyMakeBorder(row, 0, 2, 0, width - row.shape[1], cv2.BORDER_CONSTANT) for row in rows]
    cv2.imwrite(str(options.sheet), np.vstack(padded))


def tile(file: Path, *, height: int) -> np.ndarray:
    """An image at a common height, at most as wide as it is high."""
    pixels = cv2.imread(str(file), cv2.IMREAD_COLOR)
    if pixels is None:
        sys.exit(f"{file} cannot be read any more")
    width = min(height, round(pixels.shape[1] * height / pixels.shape[0]))
    return np.asarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA))


if __name__ == "__main__":
    main()
