"""Are planted slopes recovered? Coverage of the 95 % intervals, false calls without an effect, and what survives BH:

    python scripts/bench_coverage.py --photos 200 --seeds 60

Goes the way of an audit from answers on: the `planted` classifier is asked about made-up images, its raw answers are
parsed into labels, and the slopes are estimated from them.
"""

import argparse
import sys
import tempfile
from hashlib import sha256
from pathlib import Path

import pandas as pd

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from adapters.planted import Planted, PlantedLabel
from pipeline.querying.labels import derive
from pipeline.records import COUNTERFACTUALS, EDIT_ARM, to_table, write_table
from pipeline.statistics.slopes import slopes_of

VALUES = tuple(2 * (2 * k - 6) / 6 for k in range(7))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--photos", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=60)
    options = parser.parse_args()
    rates, slopes = (0.2, 0.3, 0.4, 0.5), (-0.15, -0.08, 0.0, 0.08, 0.15)
    effect = {f"{rate} {slope}": PlantedLabel(rate=rate, slope=slope) for rate in rates for slope in slopes}
    nothing = {f"label {index}": PlantedLabel(rate=rates[index % 4], slope=0.0) for index in range(20)}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "counterfactuals.parquet"
        write_images(table, photos=options.photos)
        for name, labels in (("planted slopes", effect), ("no effect", nothing)):
            frames = [estimate(table, labels, seed=seed) for seed in range(options.seeds)]
            frame = pd.concat(frames)[lambda rows: rows["estimable"]]
            truth = frame["label"].map({name: label.slope for name, label in labels.items()})
            inside = ((frame["slope_low"] <= truth) & (truth <= frame["slope_high"])).mean()
            print(f"{name}: {len(frame)} slopes of {options.photos} photos, truth inside the interval {inside:.1%}")
            null = frame[truth == 0]
            print(f"  true zeros called at p < 0.05: {(null['p'] < 0.05).mean():.1%}", end="")
            print(f", by BH at q < 0.05: {(null['q'] < 0.05).mean():.1%}")


def write_images(table: Path, *, photos: int) -> None:
    """A table of versions whose images are nothing but their own names."""
    rows = [
        {"attribute": "gender", "arm": EDIT_ARM, "photo": f"p{photo}", "step": step, "value": value, "status": "ok"}
        | {"sha256": sha256(content(f"p{photo}", step)).hexdigest()}
        for photo in range(photos)
        for step, value in enumerate(VALUES, start=1)
    ]
    write_table(to_table(rows, COUNTERFACTUALS), table)


def content(photo: str, step: int) -> bytes:
    return f"{photo} {step}".encode()


def estimate(table: Path, labels: dict[str, PlantedLabel], *, seed: int) -> pd.DataFrame:
    """The slopes that an audit with one seed of the classifier finds."""
    adapter = Planted(run=table, labels=labels, seed=seed)
    versions = pd.read_parquet(table)
    images = [content(photo, step) for photo, step in zip(versions["photo"], versions["step"], strict=True)]
    answers = dict(zip(versions["sha256"], adapter.send(images), strict=True))
    derived = derive(versions, answers, adapter=adapter.name, parse=adapter.parse)
    frame = slopes_of(derived.labels.to_pandas(), derived.answers.to_pandas(), resamples=100, seed=seed)
    return frame


if __name__ == "__main__":
    main()
