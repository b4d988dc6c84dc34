"""How figures of an attack would differ with other examples: the bootstrap over rows, or over clusters of them.

How they differ from repeat to repeat of the attack on the same examples is ``repeats``'.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.arrays import Categories, Codes, Floats
from pipeline.statistics.inference import interval

LEFT_OUT = "no interval over examples: it is for attacks in which nothing is drawn"
EXAMPLES = 3  # what the random numbers are for, beside the purposes in ``predictability``


@dataclass(frozen=True, eq=False)
class Rows:
    """What an attack is about, example by example.

    Attributes:
        columns: of ``n`` rows each: what is guessed, and what decides how wrong labels are made.
        features: ``(n, F)`` what the attacker is given.
        groups: ``(n,)`` what is balanced, if anything is.
    """

    columns: tuple[Categories, ...]
    features: Floats
    groups: Codes

    def take(self, rows: NDArray[np.intp]) -> "Rows":
        """Some rows, in the order given."""
        return Rows(tuple(column.take(rows) for column in self.columns), self.features[rows], self.groups[rows])

    def different(self) -> tuple[Codes, "Rows"]:
        """Which of the m different rows each row is, and those m."""
        table = np.hstack([*(column.codes for column in self.columns), self.features, self.groups[:, None]])
        _, first, cells = np.unique(table, axis=0, return_index=True, return_inverse=True)
        return cells.reshape(-1), self.take(first)


def over_examples(
    figures: Callable[[Rows, Floats], Mapping[str, float]],
    rows: Rows,
    *,
    clusters: Sequence[Hashable] | None = None,
    resamples: int,
    seed: int,
) -> pd.DataFrame:
    """The figures of every resample of the examples, a row each.

    Args:
        figures: from m different examples and their ``(m,)`` weights, whole numbers above 0, to named numbers.
        rows: the n examples.
        clusters: of each example, resampled in the examples' place.
        resamples: how many.
        seed: the same seed gives the same bytes.

    Raises:
        ValueError: ``clusters`` or ``resamples`` do not fit.
    """
    cells, different = rows.different()
    if clusters is not None and len(clusters) != len(cells):
        raise ValueError(f"clusters must name one cluster for each of {len(cells)} rows, not {len(clusters)}")
    if resamples < 0:
        raise ValueError(f"resamples must be 0 (no interval) or more, not {resamples}")
    unit = np.arange(len(cells)) if clusters is None else pd.factorize(np.array(clusters, dtype=object))[0]
    units, size = int(unit.max()) + 1, int(cells.max()) + 1
    found = []
    for number in range(resamples):
        drawn = np.random.default_rng([seed, EXAMPLES, number]).integers(units, size=units)
        often = np.bincount(drawn, minlength=units)[unit]
        weights: Floats = np.bincount(cells, weights=often, minlength=size).astype(np.float64)
        there = np.flatnonzero(weights)
        found.append(figures(different.take(there), weights[there]))
    return pd.DataFrame(found)


def with_examples(table: pd.DataFrame, samples: pd.DataFrame, *, units: int, level: float) -> pd.DataFrame:
    """A table of quantities, with the ends of their percentile interval over the resamples; NaN without any.

    Args:
        table: with the column ``quantity``.
        samples: as ``over_examples`` gives them.
        units: examples, or clusters of them.
        level: of the interval, 0-1.
    """
    drawn = np.array([samples.get(name, ()) for name in table["quantity"]], dtype=np.float64)
    low, high = interval(np.where(np.isfinite(drawn), drawn, np.nan), level, units=units)
    return table.assign(examples_low=low, examples_high=high)
