"""Means over repeated runs (seeds or trained models), with the papers' interval and a t interval.

Both intervals are about further runs on the same data, not about other data.
"""

from dataclasses import asdict, dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import stdtrit

from pipeline.statistics.arrays import check_level

TABLE_COLUMNS = ("quantity", "value", "sd", "repeats", "papers_low", "papers_high", "t_low", "t_high")
NORMAL_95 = 1.96
BAD_VALUES = "values must be a list of finite numbers, one per run"


@dataclass(frozen=True)
class Repeats:
    """The mean ``value`` over ``runs`` with two intervals."""

    runs: int
    value: float
    # papers_low, papers_high: mean -/+ 1.96 sd / sqrt(runs), sd with ddof 0, as in Wang & Russakovsky 2021 and Zhao et
    # al. 2023. With 5 runs a t interval is 1.58 times as wide
    papers_low: float
    papers_high: float
    # t_low, t_high: Student's t with ddof 1, which keeps its level for few runs; NaN for a single run
    t_low: float
    t_high: float
    level: float  # of the t interval, 0-1; the papers' level is always 0.95

    def to_frame(self) -> pd.DataFrame:
        """One row, a column per field."""
        return pd.DataFrame([asdict(self)])


def across_runs(values: ArrayLike, *, level: float = 0.95) -> Repeats:
    """Mean and intervals of ``(runs,)`` values, one per seed or trained model.

    Raises:
        ValueError: no values, values that are not finite, or a level out of range.
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
    """Summarise each column of ``repeats``, a frame with a row per repeat: mean, sd (ddof 1) and both intervals.

    Intervals are NaN for a single repeat and where a repeat is not finite.
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
