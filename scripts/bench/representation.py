"""Coverage of the intervals of corrected shares, over a grid of samples and confusion matrices:

    python scripts/bench/representation.py --runs 800

The grid has two and five groups, 20 to 1,000 photos, true shares of 0 to 98 %, and confusion matrices with an accuracy
of 80 or 97 % estimated from 100 to 2,000 judged faces.
"""

from itertools import product

import numpy as np
import typer
from numpy.typing import NDArray

from pipeline.statistics.corrected_shares import recall, share_scores, true_shares

LIMIT = 1.959964  # normal quantile of 95 % intervals
SHARES = (0.0, 0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
OTHERS = {2: (1.0,), 5: (0.7, 0.2, 0.08, 0.02)}  # shares of the other groups in the rest
JUDGED = {2: (0.5, 0.5), 5: (0.1, 0.4, 0.25, 0.125, 0.125)}  # shares of the groups among the held-out faces
Floats = NDArray[np.float64]


def errors(groups: int, right: float) -> Floats:
    """Return P(perceived | true) ``(C, C)`` with uneven errors: some groups are mostly mistaken for one other group."""
    random = np.random.default_rng(5)
    wrong = [random.dirichlet(np.full(groups - 1, 0.7)) * (1 - right) for _ in range(groups)]
    return np.array([np.insert(row, group, right) for group, row in enumerate(wrong)])


def coverage(*, groups: int, right: float, faces: int, photos: int, share: float, runs: int) -> Floats:
    """Return the coverage ``(C,)`` of each group's interval; the first group's true share is ``share``.

    The interval contains a share if the score test does not reject it, so the interval itself need not be computed.
    """
    random = np.random.default_rng([groups, faces, photos, round(100 * share)])
    truth, matrix = np.array([share, *(np.array(OTHERS[groups]) * (1 - share))]), errors(groups, right)
    counts = random.multinomial(photos, truth @ matrix, size=runs).astype(np.float64)
    judged = zip(JUDGED[groups], matrix, strict=True)
    confusion = np.stack([random.multinomial(round(part * faces), row, size=runs) for part, row in judged], axis=1)
    tables = counts, confusion.astype(np.float64)
    from_truth = share_scores(np.tile(truth, (runs, 1)), *tables)
    from_best = share_scores(true_shares(counts, recall(tables[1])), *tables)
    inside: Floats = (np.abs(from_truth - from_best).min(axis=0) <= LIMIT).mean(axis=0)
    return inside


def main(runs: int = 800) -> None:
    """Print the coverage of each cell from ``runs`` simulations, then the lowest, mean and highest."""
    print("groups, right, judged faces, photos, share of the first: coverage in per cent")
    cells = []
    for groups, right, faces, photos, share in product(
        OTHERS, (0.97, 0.8), (100, 400, 2000), (20, 50, 200, 1000), SHARES
    ):
        found = coverage(groups=groups, right=right, faces=faces, photos=photos, share=share, runs=runs)
        cells += found.tolist()
        shown = "  ".join(f"{100 * part:5.1f}" for part in found)
        print(f"{groups}  {right:.2f}  {faces:4d}  {photos:4d}  {share:.2f}:  {shown}", flush=True)
    low, middle, high = 100 * np.min(cells), 100 * np.mean(cells), 100 * np.max(cells)
    print(f"{len(cells)} intervals: {low:.1f} - {high:.1f}, mean {middle:.1f}")


if __name__ == "__main__":
    typer.run(main)
