"""Coverage of slope intervals, false positives without an effect, and false discoveries after BH:

    python scripts/bench/slope_coverage.py --photos 200 --seeds 60

The first part follows an audit from answers on: the `planted` classifier labels generated images, its raw answers are
parsed into labels, and slopes are estimated. The second part is a grid of simulated responses: few and many photos,
rare and common labels, faces that respond alike or differently, with and without an effect, and a constant label.
"""

import tempfile
from dataclasses import dataclass
from hashlib import sha256
from itertools import product
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import typer
from numpy.typing import NDArray
from scipy.special import ndtr

from adapters.local.planted import Planted, PlantedLabel
from pipeline.config.attributes import EDIT_ARM
from pipeline.querying.labels import derive
from pipeline.run.tables import COUNTERFACTUALS, to_table, write_table
from pipeline.statistics.slopes import slope_table, slopes_of
from pipeline.statistics.sweeps import Sweeps

VALUES = tuple(2 * (2 * k - 6) / 6 for k in range(7))
INTERVALS = ("slope", "bootstrap")


def main(
    photos: int = 200,
    seeds: Annotated[int, typer.Option(help="Seeds of the planted classifier; 0 skips this part.")] = 60,
    labels: Annotated[int, typer.Option(help="Labels per cell of the grid; 0 skips this part.")] = 1000,
) -> None:
    """Print all parts."""
    if seeds:
        planted(photos=photos, seeds=seeds)
    if labels:
        grid(labels=labels)
        discoveries(labels=labels)


def planted(*, photos: int, seeds: int) -> None:
    """Print coverage and false positives of slopes estimated as in an audit."""
    rates, slopes = (0.2, 0.3, 0.4, 0.5), (-0.15, -0.08, 0.0, 0.08, 0.15)
    effect = {f"{rate} {slope}": PlantedLabel(rate=rate, slope=slope) for rate in rates for slope in slopes}
    nothing = {f"label {index}": PlantedLabel(rate=rates[index % 4], slope=0.0) for index in range(20)}
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "counterfactuals.parquet"
        write_images(table, photos=photos)
        for name, labels in (("planted slopes", effect), ("no effect", nothing)):
            frame = pd.concat([estimate(table, labels, seed=seed) for seed in range(seeds)])
            frame = frame[frame["estimable"]]
            truth = frame["label"].map({name: label.slope for name, label in labels.items()})
            inside = ((frame["slope_low"] <= truth) & (truth <= frame["slope_high"])).mean()
            print(f"{name}: {len(frame)} slopes of {photos} photos, truth inside the interval {inside:.1%}")
            null = frame[truth == 0]
            print(f"  true zeros called at p < 0.05: {(null['p'] < 0.05).mean():.1%}", end="")
            print(f", by BH at q < 0.05: {(null['q'] < 0.05).mean():.1%}")


@dataclass(frozen=True)
class Faces:
    """A probit model of a label: level, mean response to a, spread of the response over faces, and noise."""

    level: float
    effect: float
    spread: float
    noise: float

    def draw(self, photos: int, labels: int, random: np.random.Generator) -> NDArray[np.int8]:
        """Draw presence ``(n, K, L)``."""
        level = self.level * np.sqrt(1 + self.noise**2) + random.normal(size=(photos, 1, labels))
        reaction = self.effect + self.spread * random.normal(size=(photos, 1, labels))
        chance = self.noise * random.normal(size=(photos, len(VALUES), labels))
        present: NDArray[np.int8] = (level + reaction * np.array(VALUES)[:, None] + chance > 0).astype(np.int8)
        return present

    @property
    def slope(self) -> float:
        """The normalised slope in the limit of infinitely many photos."""
        a = np.array(VALUES)
        total = np.sqrt(1 + self.noise**2 + (self.spread * a) ** 2)
        rate = ndtr((self.level * np.sqrt(1 + self.noise**2) + self.effect * a) / total)
        return float(a @ rate / (a @ a) / rate[len(a) // 2])


def grid(*, labels: int) -> None:
    """Print coverage of both intervals and rejections per cell; labels too rare to be estimated are not counted."""
    print(f"{labels} labels a cell; in per cent: truth in Fieller's interval, in the bootstrap's, p < 0.05")
    constant_called = 0
    # About 70 %, 30 % and 6 % of the photos have the label at a = 0: it must be 30 photos or more.
    for photos, level, effect, spread in product((50, 200, 1000), (0.5, -0.5, -1.55), (0.0, 0.15), (0.0, 0.2)):
        if photos * ndtr(level) < 31:
            continue
        faces = Faces(level, effect, spread, noise=0.3)
        y = faces.draw(photos, labels, np.random.default_rng([photos, labels]))
        y[:, :, 0] = y[:, :1, 0]  # the same at every step
        frame = slope_table(Sweeps.from_array(y, VALUES), resamples=400)
        constant_called += int(frame["estimable"][0])
        seen = frame[frame["estimable"]]
        inside = [((seen[f"{of}_low"] <= faces.slope) & (faces.slope <= seen[f"{of}_high"])) for of in INTERVALS]
        shown = "  ".join(f"{100 * share.mean():5.1f}" for share in (*inside, seen["p"] < 0.05))
        print(f"  n {photos:4d}  y_c {ndtr(level):.2f}  slope {faces.slope:+.3f}  spread {spread:.1f}: {shown}")
    print(f"constant labels called: {constant_called}")


def discoveries(*, labels: int, runs: int = 20) -> None:
    """Print the share of false discoveries among labels with q <= 0.05, where a tenth of all labels have an effect."""
    random = np.random.default_rng(7)
    share, true = [], max(1, labels // 10)
    for _ in range(runs):
        effect = Faces(-0.3, 0.12, 0.1, 0.3).draw(300, true, random)
        nothing = Faces(-0.3, 0.0, 0.1, 0.3).draw(300, labels - true, random)
        table = slope_table(Sweeps.from_array(np.concatenate([effect, nothing], axis=2), VALUES), resamples=1)
        called = (table["q"] <= 0.05).to_numpy()
        share.append(called[true:].sum() / max(called.sum(), 1))
    print(f"false discoveries at q <= 0.05: {np.mean(share):.1%} over {runs} runs of {labels} labels")


def write_images(table: Path, *, photos: int) -> None:
    """Write a table of versions; the image of a version is just its name."""
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
    """Estimate the slopes of an audit with one seed of the classifier."""
    adapter = Planted(Planted.Options(run=table, labels=labels, seed=seed))
    versions = pd.read_parquet(table)
    images = [content(photo, step) for photo, step in zip(versions["photo"], versions["step"], strict=True)]
    answers = dict(zip(versions["sha256"], adapter.send(images), strict=True))
    derived = derive(versions, answers, adapter=adapter.name, parse=adapter.parse)
    return slopes_of(derived.labels.to_pandas(), derived.answers.to_pandas(), resamples=100, seed=seed)


if __name__ == "__main__":
    typer.run(main)
