"""Slopes estimated from a classifier with known slopes."""

from pathlib import Path

import pandas as pd
import pytest
from script_modules import load_script

from adapters.local.planted import PlantedLabel

bench = load_script("bench/slope_coverage")
SEEDS = range(6)


@pytest.fixture(scope="module")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    table = tmp_path_factory.mktemp("planted") / "counterfactuals.parquet"
    bench.write_images(table, photos=150)
    return table


def test_intervals_contain_the_planted_slopes(images: Path) -> None:
    slopes = (-0.15, -0.05, 0.05, 0.15)
    labels = {f"{rate} {slope}": PlantedLabel(rate=rate, slope=slope) for rate in (0.3, 0.4, 0.5) for slope in slopes}
    frame = pd.concat([bench.estimate(images, labels, seed=seed) for seed in SEEDS])
    truth = frame["label"].map({name: label.slope for name, label in labels.items()})
    inside = (frame["slope_low"] <= truth) & (truth <= frame["slope_high"])
    # Of 72 intervals at 95 %, fewer than 62 contain the truth with a probability below 0.1 %.
    assert inside.sum() >= 62
    strong = truth.abs() == 0.15
    assert (frame.loc[strong, "p"] < 0.001).mean() > 0.9
    assert (frame["slope"] * truth)[strong].gt(0).all()


def test_labels_without_effect_are_rarely_significant(images: Path) -> None:
    labels = {f"label {index}": PlantedLabel(rate=0.4, slope=0.0) for index in range(20)}
    frame = pd.concat([bench.estimate(images, labels, seed=seed) for seed in SEEDS])
    assert 0 < (frame["p"] < 0.05).sum() <= 14
    assert (frame["q"] < 0.05).sum() <= 6
