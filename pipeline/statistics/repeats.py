"""A number measured again and again: across seeds or trained models, how far is its mean to be trusted?

Two intervals, named: the papers' own, and t. They speak of other runs on the same data, not of other data.
"""

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from pipeline.statistics.arrays import check_level

TABLE_COLUMNS = ("quantity", "value", "sd", "repeats", "papers_low", "papers_high", "t_low", "t_high")
NORMAL_95 = 1.96
BAD_VALUES = "values must be a list of finite numbers, one for each run"


@dataclass(frozen=True)
class Repeats:
    """The mean ``value`` over ``runs`` with two intervals."""

    runs: int
    value: float
    # papers_low, papers_high: 1.96 sd / sqrt(runs) on either side, sd with ddof 0: what Wang & Russakovsky 2021 and
    # Zhao et al. 2023 print. With 5 runs a t interval is 1.58 times as wide
    papers_low: float
    papers_high: float
    # t_low, t_high: Student's t with ddof 1, which holds its level for few runs; NaN for one
    t_low: float
    t_high: float
    level: float  # of the t interval, 0-1; the papers' is for 0.95 whatever it is

    def to_frame(self) -> pd.DataFrame:
        """One row, a column for each attribute."""
        return pd.DataFrame([asdict(self)])


def across_runs(values: ArrayLike, *, level: float = 0.95) -> Repeats:
    """The mean of ``(runs,)`` numbers, one for each seed or trained model, and how sure it is.

    Raises:
        ValueError: no numbers, numbers that are not finite, or a level out of range.
    """
    x = np.asarray(values, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or not np.isfinite(x).all():
        raise ValueError(BAD_VALUES)
    check_level(level)
    runs, mean = len(x), float(x.mean())
    papers = NORMAL_95 * float(x.std()) / np.sqrt(runs)
    t = float(stdtrit(runs - 1, (1 + level) / 2)) * float(x.std(ddof=1)) / np.sqrt(runs) if runs > 1 else np.nan
    return Repeats(runs, mean, mean - papers, mean + papers, mean - t, mean + t, level)


def repeats_table(repeats: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """A row for each column of ``repeats`` (a row each): mean, sd with the divisor n - 1, and both intervals.

    There is no interval (NaN) of one repeat, in which nothing was drawn, nor where a repeat has no finite value.
    """
    rows = []
    for name, column in repeats.items():
        values = column.to_numpy(dtype=np.float64)
        value, sd, ends = values.mean(), np.nan, (np.nan,) * 4
        if len(values) > 1 and np.isfinite(values).all():
            over = across_runs(values, level=level)
            value, sd = over.value, values.std(ddof=1)
            ends = (over.papers_low, over.papers_high, over.t_low, over.t_high)
        rows.append((name, value, sd, len(values), *ends))
    return pd.DataFrame(rows, columns=list(TABLE_COLUMNS))
