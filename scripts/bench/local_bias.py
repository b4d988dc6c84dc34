"""Power and false positives of the tests for local bias, on simulated photos:

    python scripts/bench/local_bias.py --sets 100

The features of the photos form five clouds, or a single one; both groups occur in each. In "planted" data the answers
for one group are wrong more often by the gap in one cloud (a fifth of the photos). The null data have no gap, the same
gap everywhere, or clouds of unequal difficulty.
"""

from itertools import product

import numpy as np
import typer
from numpy.typing import NDArray

from pipeline.statistics.local.figures import STATISTICS
from pipeline.statistics.local.logan import local_bias

CLOUDS = 5
ACCURACY = 0.8  # where nothing is planted
KINDS = ("planted", "no gap", "same gap", "unequal clouds")


def simulated(
    *, kind: str, rows: int, gap: float, apart: float, random: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.intp], NDArray[np.intp]]:
    """Draw features ``(n, 8)``, groups and correctness of the answers ``(n,)``; with ``apart`` 0 there is one cloud."""
    cloud, group = random.integers(0, CLOUDS, size=rows), random.integers(0, 2, size=rows)
    features = random.normal(size=(rows, 8)) + apart * np.eye(CLOUDS, 8)[cloud]
    chance = np.full(rows, ACCURACY)
    if kind == "planted":
        chance -= gap * (group == 1) * (cloud == 0)
    elif kind == "same gap":
        chance -= gap * (group == 1)
    elif kind == "unequal clouds":
        chance -= gap * (cloud < 2)
    return features, group, (random.random(rows) < chance).astype(np.intp)


def detection_rates(
    *, kind: str, rows: int, gap: float, apart: float, strength: float, sets: int, permutations: int
) -> dict[str, float]:
    """Map each statistic to the share of sets with p <= 0.05; "kmeans" is the largest gap of k-means."""
    found: list[list[float]] = []
    for number in range(sets):
        random = np.random.default_rng([number, rows, round(100 * gap)])
        features, group, right = simulated(kind=kind, rows=rows, gap=gap, apart=apart, random=random)
        result = local_bias(
            features, group, prediction=right, truth=np.ones(rows, dtype=np.intp), clusters=CLOUDS,
            strength=strength, permutations=permutations, starts=3, seed=number,
        )  # fmt: skip
        found.append([*(result.found.p[name] for name in STATISTICS), result.kmeans.p["max_gap"]])
    shares = (np.array(found) <= 0.05).mean(axis=0)
    return dict(zip((*STATISTICS, "kmeans"), shares.tolist(), strict=True))


def main(
    sets: int = 100,
    permutations: int = 59,
    strength: float = 5.0,
    rows: str = "250,500,1000",
    gaps: str = "0.2,0.4,0.6",
) -> None:
    """Print the detection rates for each kind of data, number of rows and gap."""
    print("share of sets with p <= 0.05, in per cent; kmeans: largest gap of k-means")
    wanted = {kind: [0.0] if kind == "no gap" else [float(gap) for gap in gaps.split(",")] for kind in KINDS}
    for kind, apart, n in product(KINDS, (4.0, 0.0), map(int, rows.split(","))):
        for gap in wanted[kind] if apart or kind != "planted" else ():
            shares = detection_rates(
                kind=kind, rows=n, gap=gap, apart=apart, strength=strength, sets=sets, permutations=permutations
            )
            words = "  ".join(f"{name} {100 * share:.0f}" for name, share in shares.items())
            print(f"{kind}, {'clouds' if apart else 'one cloud'}, n {n}, gap {gap}: {words}", flush=True)


if __name__ == "__main__":
    typer.run(main)
