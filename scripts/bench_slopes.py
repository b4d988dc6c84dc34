"""How fast slopes are: against a plain matrix formulation in NumPy and against a statsmodels loop over labels.

Run it pinned, e.g. ``taskset -c 1 python scripts/bench_slopes.py``. ``--large`` adds 10,000 photos x 5,000 rare labels
from Parquet files.
"""

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.api import OLS, add_constant

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from pipeline.records import ANSWERS, EDIT_ARM, LABELS, read_frame
from pipeline.statistics.slopes import slope_table, slopes_of
from pipeline.statistics.sweeps import Sweeps

RESAMPLES = 2000
VALUES = np.linspace(-2, 2, 7)
LABELS_IN_LOOP = 50
REFITS_IN_LOOP = 20
Responses = NDArray[np.int8]


def responses(*, photos: int, labels: int, seed: int) -> Responses:
    """Presence ``(n, K, L)`` of labels with rates from 5 to 95 %, on faces that react differently."""
    random = np.random.default_rng(seed)
    level = random.uniform(-1.6, 1.6, size=labels) + random.normal(size=(photos, 1, labels))
    reaction = random.normal(0, 0.1, size=(photos, 1, labels))
    return (level + reaction * VALUES[:, None] + random.normal(0, 0.3, size=(photos, 7, labels)) > 0).astype(np.int8)


def ours(y: Responses) -> int:
    """Everything in the table: slopes, Fieller, t, bootstrap, sign flips, q."""
    return len(slope_table(Sweeps.from_array(y, VALUES), resamples=RESAMPLES).to_frame())


def plain(y: Responses) -> int:
    """The matrix formulation one would write first: resampled rates of all steps, slopes, percentiles; nothing else."""
    photos, steps, labels = y.shape
    counts = np.random.default_rng(0).multinomial(photos, np.full(photos, 1 / photos), size=RESAMPLES)
    flat = y.reshape(photos, -1).astype(np.float32)
    rates = (counts.astype(np.float32) @ flat).reshape(RESAMPLES, steps, labels) / photos
    z = rates / rates[:, steps // 2][:, None]
    slopes = np.einsum("k,rkl->rl", VALUES / (VALUES @ VALUES), z)
    return len(np.percentile(slopes, [2.5, 97.5], axis=0))


def loop(y: Responses) -> float:
    """Seconds for all labels, extrapolated: one OLS a label, and one for each resample of its photos."""
    random = np.random.default_rng(0)
    design = add_constant(VALUES)
    photos, steps, labels = y.shape
    start = time.perf_counter()
    for label in range(LABELS_IN_LOOP):
        for _ in range(REFITS_IN_LOOP):
            rate = y[random.integers(0, photos, photos), :, label].mean(axis=0)
            _ = OLS(rate / rate[steps // 2], design).fit().pvalues
    one = (time.perf_counter() - start) / (LABELS_IN_LOOP * REFITS_IN_LOOP)
    return float(one * labels * (1 + RESAMPLES))


def write_large(folder: Path, *, photos: int, labels: int, returned: int) -> int:
    """Tables of a run in which every image got up to ``returned`` labels, some far more often; returns the rows."""
    random = np.random.default_rng(0)
    photo, step = np.divmod(np.arange(photos * 7), 7)
    answers = pd.DataFrame({"photo": [f"{i:06d}.png" for i in photo], "step": step + 1, "value": VALUES[step]})
    answers = answers.assign(adapter="bench", attribute="gender", arm=EDIT_ARM, sha256="", status="ok", reason="")
    weights = 1 / (np.arange(labels) + 50)
    drawn = random.choice(labels, size=(photos * 7, returned), p=weights / weights.sum())
    rows, columns = np.nonzero(np.diff(np.sort(drawn, axis=1), prepend=-1, axis=1))
    seen = answers.iloc[rows].reset_index(drop=True)
    seen["label"] = np.array([f"label {i}" for i in range(labels)])[np.sort(drawn, axis=1)[rows, columns]]
    seen = seen.assign(score=random.uniform(0.4, 1, size=len(rows)), returned=True)
    answers[list(ANSWERS)].to_parquet(folder / "answers.parquet")
    seen[list(LABELS)].to_parquet(folder / "labels.parquet")
    return len(seen)


def large(folder: Path) -> int:
    """From the files to the table; returns how many labels were estimable."""
    frame = slopes_of(
        read_frame(folder / "labels.parquet"), read_frame(folder / "answers.parquet"), resamples=RESAMPLES
    )
    return int(frame["estimable"].sum())


def measured(work: Callable[[], float]) -> tuple[float, float, float]:
    """What ``work`` returns, its seconds, and the peak memory in GiB of the process of its own in which it ran."""
    queue = multiprocessing.get_context("fork").SimpleQueue()

    def run() -> None:
        start = time.perf_counter()
        result = work()
        seconds = time.perf_counter() - start
        queue.put((result, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the measured process ended with {process.exitcode}")
    answer: tuple[float, float, float] = queue.get()
    return answer


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--photos", type=int, default=2000)
    parser.add_argument("--labels", type=int, default=1000)
    parser.add_argument("--large", action="store_true", help="also 10,000 photos x 5,000 labels from Parquet")
    options = parser.parse_args()

    y = responses(photos=options.photos, labels=options.labels, seed=0)
    print(f"{options.photos} photos x 7 steps x {options.labels} labels, {RESAMPLES} resamples")
    _, own, own_memory = measured(lambda: ours(y))
    print(f"  this house          {own:8.2f} s  {own_memory:.2f} GiB")
    _, matrix, matrix_memory = measured(lambda: plain(y))
    print(f"  plain matrices      {matrix:8.2f} s  {matrix_memory:.2f} GiB  {matrix / own:.1f} times as long")
    estimate = loop(y)
    print(f"  statsmodels a label {estimate:8.0f} s  (extrapolated)  {estimate / own:.0f} times as long")
    if options.large:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rows, _, _ = measured(lambda: write_large(folder, photos=10_000, labels=5_000, returned=40))
            estimable, seconds, memory = measured(lambda: large(folder))
        print(f"10000 photos x 7 steps x 5000 labels, {rows / 70_000:.0f} an image, from Parquet")
        print(f"  this house          {seconds:8.2f} s  {memory:.2f} GiB  {estimable:.0f} labels estimable")


if __name__ == "__main__":
    main()
