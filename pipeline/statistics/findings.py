"""Which slopes are called findings, and in which direction they go.

The slopes themselves and their p live in ``slopes``.
"""

from typing import Literal

import numpy as np
import pandas as pd


def findings(
    frame: pd.DataFrame,
    *,
    max_p: float = 0.001,
    min_slope: float = 0.03,
    by: Literal["p", "q", "permutation_p", "ols_p"] = "p",
) -> pd.DataFrame:
    """The rows with p < ``max_p`` and |slope| > ``min_slope`` (the seed's rule), largest |slope| first.

    A column ``direction`` is added: -1 where the label rises with perceived femininity or towards the race at -1,
    +1 where it rises with perceived masculinity or towards the race at +1. Rows are sorted by adapter, attribute,
    arm and direction first.

    Args:
        frame: as ``slopes_of`` gives it.
        max_p: largest p.
        min_slope: smallest |slope|.
        by: the column that is compared with ``max_p``.
    """
    called = frame[(frame[by] < max_p) & (frame["slope"].abs() > min_slope)]
    called = called.assign(direction=np.sign(called["slope"].astype(float)).astype(int), size=called["slope"].abs())
    keys = ["adapter", "attribute", "arm", "direction", "size", "label"]
    ascending = [key != "size" for key in keys]
    return called.sort_values(keys, ascending=ascending, ignore_index=True).drop(columns="size")
