"""Fit the tone table: quantiles of the skin's median colour by perceived gender, race and age."""

import json
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.attributes import RACES
from models.tone import ToneTable, ratios

QUANTILES = np.round(np.arange(0.025, 0.976, 0.05), 3)
AGES = np.array([20.0, 35.0, 50.0, 68.0])
BANDWIDTH = 9.0  # years: bandwidth of the kernel over ages


def fit_tones(
    colours: NDArray[np.floating], *, gender: NDArray[np.floating], race: NDArray[np.integer], age: NDArray[np.floating]
) -> ToneTable:
    """Compute the quantiles of each group's colours, with a Gaussian kernel over age around each knot.

    Args:
        colours: ``(N, 3)`` median CIELAB; rows with NaN are ignored.
        gender: ``(N,)`` -1 or +1.
        race: ``(N,)`` indices into ``judge.RACES``.
        age: ``(N,)`` years.

    Raises:
        ValueError: a group has fewer than 20 faces.
    """
    known = np.isfinite(colours).all(axis=1)
    coordinates = ratios(colours)
    table = np.zeros((2, len(RACES), len(AGES), 3, len(QUANTILES)))
    for place, sign in enumerate((-1, 1)):
        for index, name in enumerate(RACES):
            chosen = known & (race == index) & (np.sign(gender) == sign)
            if int(chosen.sum()) < 20:
                raise ValueError(f"only {int(chosen.sum())} faces of {name}, gender {sign:+d}")
            for knot, centre in enumerate(AGES):
                weights = np.exp(-0.5 * ((age[chosen] - centre) / BANDWIDTH) ** 2) + 1e-3
                for channel in range(3):
                    table[place, index, knot, channel] = weighted_quantiles(
                        coordinates[chosen, channel], weights, QUANTILES
                    )
    return ToneTable(QUANTILES, AGES, table)


def weighted_quantiles(
    values: NDArray[np.floating], weights: NDArray[np.floating], quantiles: NDArray[np.floating]
) -> NDArray[np.float64]:
    """Return weighted quantiles: the linearly interpolated inverse of the weighted distribution function."""
    order = np.argsort(values, kind="stable")
    mass = np.cumsum(weights[order]) - weights[order] / 2
    return np.asarray(np.interp(quantiles, mass / weights.sum(), values[order]), dtype=np.float64)


def write_tones(table: ToneTable, path: Path, *, source: str) -> None:
    """Write a table as JSON, to four digits."""
    content = {
        "source": source,
        "quantiles": table.quantiles.tolist(),
        "ages": table.ages.tolist(),
        "colours": np.round(table.colours, 4).tolist(),
    }
    path.write_text(json.dumps(content) + "\n")
