"""Quantities over repeats as rows of a table, with the intervals of ``repeats``.

The repeats of an attack differ in what is drawn (labels changed, rows, an attacker's start), not in the photos: the
intervals say how settled a figure is for these photos, and nothing about other photos.
"""

import numpy as np
import pandas as pd

from pipeline.statistics.repeats import across_runs

COLUMNS = ("quantity", "value", "sd", "repeats", "papers_low", "papers_high", "t_low", "t_high")


def repeats_table(repeats: pd.DataFrame, *, level: float = 0.95) -> pd.DataFrame:
    """A row for each column of ``repeats`` (a row each): mean, sd with the divisor n - 1, and both intervals.

    There is no interval (NaN) of one repeat, in which nothing was drawn, nor where a repeat has no finite value.

    Args:
        level: of the t interval, 0-1.
    """
    rows = []
    for name, column in repeats.items():
        values = column.to_numpy(dtype=np.float64)
        if len(values) < 2 or not np.isfinite(values).all():
            rows.append((name, values.mean(), np.nan, len(values), *([np.nan] * 4)))
            continue
        over = across_runs(values, level=level)
        ends = (over.papers_low, over.papers_high, over.t_low, over.t_high)
        rows.append((name, over.value, values.std(ddof=1), over.runs, *ends))
    return pd.DataFrame(rows, columns=list(COLUMNS))
