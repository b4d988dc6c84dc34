"""Many labels are tested at once: false discovery rates over a declared family.

What makes a family is the caller's choice (see ``slopes_of``); the tests themselves live in ``inference``.
"""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

ARM = "arm"  # a placebo is never in the family of the edits
NO_FAMILY_COLUMN = "a family cannot be declared by the column {column!r}, which the table lacks; it has {columns}"


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values q: calling every label with q <= f keeps the expected share of false calls at most f.

    Source: Benjamini & Hochberg 1995.

    Args:
        p: ``(L,)`` probabilities in 0-1. NaN was not tested: it stays NaN and does not count as a test.

    Raises:
        ValueError: ``p`` is not one-dimensional or leaves 0-1.
    """
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p must be one-dimensional, but has the shape {p.shape}")
    if np.any((p < 0) | (p > 1)):
        raise ValueError("p must lie in 0-1")
    from statsmodels.stats.multitest import multipletests

    q, tested = np.full(p.shape, np.nan), ~np.isnan(p)
    if tested.any():
        q[tested] = multipletests(p[tested], method="fdr_bh")[1]
    return q


def within_families(frame: pd.DataFrame, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """The frame with q adjusted within declared families: rows that agree in their arm and in the columns ``by``.

    Args:
        frame: with p, NaN where nothing was tested; and ``arm``, unless there is one arm only. Its q is written, and
            ``family`` (in words) and ``tested`` (how many tests) join it.
        by: columns that declare a family, next to the arm; with none it is all labels tested in an arm.

    Raises:
        ValueError: a column of ``by`` is not there.
    """
    for column in by:
        if column not in frame.columns:
            raise ValueError(NO_FAMILY_COLUMN.format(column=column, columns=", ".join(map(str, frame.columns))))
    columns = [*(name for name in by if name != ARM), *([ARM] if ARM in frame.columns else [])]
    names = family_names(frame, columns)
    adjusted, tested = within(frame["p"].to_numpy(np.float64), names)
    return frame.assign(q=adjusted, family=names, tested=tested)


def within(p: NDArray[np.float64], families: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """q within each family, and how many tests it has; ``(L,)`` each, for ``(L,)`` p and the families' names."""
    grouped = pd.Series(p, dtype=np.float64).groupby(np.array(families, dtype=object))
    return grouped.transform(benjamini_hochberg).to_numpy(np.float64), grouped.transform("count").to_numpy(np.int64)


def family_names(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """The family of every row in words, such as ``adapter opencv, arm edit``."""
    parts = [[f"{column} {value}" for value in frame[column]] for column in columns]
    return [", ".join(line) for line in zip(*parts, strict=True)] if parts else ["all"] * len(frame)
