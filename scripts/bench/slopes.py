"""Processor time of the slope table, compared with a plain NumPy bootstrap and a statsmodels loop over labels.

Run it pinned, e.g. ``taskset -c 1 python scripts/bench/slopes.py``. For tables larger than memory see
``label_tables.py``.
"""

import time

import numpy as np
import typer
from measure import measured
from numpy.typing import NDArray
from statsmodels.api import OLS, add_constant

from pipeline.statistics.slopes import slope_table
from pipeline.statistics.sweeps import Sweeps

RESAMPLES = 2000
VALUES = np.linspace(-2, 2, 7)
LABELS_IN_LOOP = 50
REFITS_IN_LOOP = 20
Responses = NDArray[np.int8]


def responses(*, photos: int, labels: int, seed: int) -> Responses:
    """Draw presence ``(n, K, L)`` of labels with rates from 5 to 95 %, on faces that respond differently."""
    random = np.random.default_rng(seed)
    level = random.uniform(-1.6, 1.6, size=labels) + random.normal(size=(photos, 1, labels))
    reaction = random.normal(0, 0.1, size=(photos, 1, labels))
    return (level + reaction * VALUES[:, None] + random.normal(0, 0.3, size=(photos, 7, labels)) > 0).astype(np.int8)


def table(y: Responses) -> int:
    """Compute the complete table: slopes, Fieller's intervals, t tests, bootstrap, sign flips, q."""
    return len(slope_table(Sweeps.from_array(y, VALUES), resamples=RESAMPLES))


def plain(y: Responses) -> int:
    """Compute only the bootstrap, as matrix products: resampled rates of all steps, slopes, percentiles."""
    photos, steps, labels = y.shape
    counts = np.random.default_rng(0).multinomial(photos, np.full(photos, 1 / photos), size=RESAMPLES)
    flat = y.reshape(photos, -1).astype(np.float32)
    rates = (counts.astype(np.float32) @ flat).reshape(RESAMPLES, steps, labels) / photos
    z = rates / rates[:, steps // 2][:, None]
    slopes = np.einsum("k,rkl->rl", VALUES / (VALUES @ VALUES), z)
    return len(np.percentile(slopes, [2.5, 97.5], axis=0))


def loop(y: Responses) -> float:
    """Return the extrapolated processor seconds of one OLS fit per label and resample."""
    random = np.random.default_rng(0)
    design = add_constant(VALUES)
    photos, steps, labels = y.shape
    start = time.process_time()
    for label in range(min(LABELS_IN_LOOP, labels)):
        for _ in range(REFITS_IN_LOOP):
            rate = y[random.integers(0, photos, photos), :, label].mean(axis=0)
            _ = OLS(rate / rate[steps // 2], design).fit().pvalues
    one = (time.process_time() - start) / (min(LABELS_IN_LOOP, labels) * REFITS_IN_LOOP)
    return float(one * labels * (1 + RESAMPLES))


def main(photos: int = 2000, labels: int = 1000) -> None:
    """Print the cost of each."""
    y = responses(photos=photos, labels=labels, seed=0)
    print(f"{photos} photos x 7 steps x {labels} labels, {RESAMPLES} resamples")
    own = measured(table, y)
    print(f"  slope table        {own}")
    print(f"  plain bootstrap    {measured(plain, y)}")
    estimate = loop(y)
    print(f"  statsmodels loop   {estimate:8.0f} s processor time (extrapolated), {estimate / own.processor:.0f} times")


if __name__ == "__main__":
    typer.run(main)
