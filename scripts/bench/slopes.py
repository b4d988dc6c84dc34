"""How fast slopes are: against a plain matrix formulation in NumPy and against a statsmodels loop over labels.

Run it pinned, e.g. ``taskset -c 1 python scripts/bench/slopes.py``. ``--large`` adds 10,000 photos x 5,000 rare labels
from Parquet files. CPU seconds are printed next to those on the clock, for machines that others use too.
"""

import argparse
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from statsmodels.api import OLS, add_constant

from pipeline.config.attributes import EDIT_ARM
from pipeline.run.tables import ANSWERS, LABELS, read_frame
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


def reduced(y: Responses) -> int:
    """The same for those who first reduce each photo to its slope: two products instead of one for every step."""
    photos, steps, _ = y.shape
    counts = np.random.default_rng(0).multinomial(photos, np.full(photos, 1 / photos), size=RESAMPLES)
    weights = counts.astype(np.float32)
    slopes = np.einsum("k,ikl->il", (VALUES / (VALUES @ VALUES)).astype(np.float32), y.astype(np.float32))
    ratios = (weights @ slopes) / (weights @ y[:, steps // 2].astype(np.float32))
    return len(np.percentile(ratios, [2.5, 97.5], axis=0))


def loop(y: Responses) -> float:
    """CPU seconds for all labels, extrapolated: one OLS a label, and one for each resample of its photos."""
    random = np.random.default_rng(0)
    design = add_constant(VALUES)
    photos, steps, labels = y.shape
    start = time.process_time()
    for label in range(LABELS_IN_LOOP):
        for _ in range(REFITS_IN_LOOP):
            rate = y[random.integers(0, photos, photos), :, label].mean(axis=0)
            _ = OLS(rate / rate[steps // 2], design).fit().pvalues
    one = (time.process_time() - start) / (LABELS_IN_LOOP * REFITS_IN_LOOP)
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


def measured(work: Callable[[], float]) -> tuple[float, float, float, float]:
    """What ``work`` returns, its seconds and CPU seconds, and the peak GiB of the process it had to itself."""
    queue = multiprocessing.get_context("fork").SimpleQueue()

    def run() -> None:
        start, busy = time.perf_counter(), time.process_time()
        result = work()
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
        queue.put((result, seconds, busy, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20))

    process = multiprocessing.get_context("fork").Process(target=run)
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"the measured process ended with {process.exitcode}")
    answer: tuple[float, float, float, float] = queue.get()
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
    _, own, own_busy, memory = measured(lambda: ours(y))
    print(f"  this house             {own:8.2f} s  {own_busy:8.2f} s CPU  {memory:.2f} GiB")
    for name, work in (("plain matrices", plain), ("reduced to slopes", reduced)):
        _, seconds, busy, memory = measured(lambda work=work: work(y))  # type: ignore[misc]
        print(
            f"  {name:<22} {seconds:8.2f} s  {busy:8.2f} s CPU  {memory:.2f} GiB  "
            f"{busy / own_busy:.1f} times the CPU time"
        )
    estimate = loop(y)
    print(
        f"  statsmodels by label   {estimate:8.0f} s CPU (extrapolated)  {estimate / own_busy:.0f} times the CPU time"
    )
    if options.large:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            rows, *_ = measured(lambda: write_large(folder, photos=10_000, labels=5_000, returned=40))
            estimable, seconds, busy, memory = measured(lambda: large(folder))
        print(f"10000 photos x 7 steps x 5000 labels, {rows / 70_000:.0f} an image, from Parquet")
        print(f"  this house {seconds:8.2f} s  {busy:8.2f} s CPU  {memory:.2f} GiB  {estimable:.0f} labels estimable")


if __name__ == "__main__":
    main()
