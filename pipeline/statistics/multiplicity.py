"""False discovery rates over declared families of tests."""

from collections.abc import Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

ARM = "arm"  # a placebo is never in the family of the edits
NO_FAMILY_COLUMN = "a family cannot be declared by {column!r}: the table has only the columns {columns}"


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values q: calling every label with q <= f keeps the expected share of false calls at most f.

    Source: Benjamini & Hochberg 1995.

    Args:
        p: ``(L,)`` p-values in 0-1. NaN stays NaN and does not count as a test.

    Raises:
        ValueError: ``p`` is not one-dimensional or leaves 0-1.
    """
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p must be one-dimensional, but has the shape {p.shape}")
    if np.any((p < 0) | (p > 1)):
        raise ValueError("p must lie in 0-1")
    # As statsmodels' multipletests, which takes half a second and 47 MiB to import.
    q = np.full(p.shape, np.nan)
    highest_first = np.argsort(-p)[: np.count_nonzero(~np.isnan(p))]  # NaN is sorted last
    count = len(highest_first)
    q[highest_first] = np.minimum.accumulate(p[highest_first] / (np.arange(count, 0, -1) / count))
    return q


def within_families(frame: pd.DataFrame, *, by: Sequence[str] = ()) -> pd.DataFrame:
    """Set q, ``family`` (its description) and ``tested`` (its number of tests) for every row.

    Args:
        frame: with p, NaN where nothing was tested, and ``arm`` if there are several arms.
        by: columns that, with the arm, declare a family; by default a family is all tests of an arm.

    Raises:
        ValueError: ``frame`` lacks a column of ``by``.
    """
    for column in by:
        if column not in frame.columns:
            raise ValueError(NO_FAMILY_COLUMN.format(column=column, columns=", ".join(map(str, frame.columns))))
    columns = [*(name for name in by if name != ARM), *([ARM] if ARM in frame.columns else [])]
    names = family_names(frame, columns)
    adjusted, tested = within(frame["p"].to_numpy(np.float64), names)
    return frame.assign(q=adjusted, family=names, tested=tested)


def within(p: NDArray[np.float64], families: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """q within each family and its number of tests, ``(L,)`` each, given p and the families' names."""
    grouped = pd.Series(p, dtype=np.float64).groupby(np.array(families, dtype=object))
    return grouped.transform(benjamini_hochberg).to_numpy(np.float64), grouped.transform("count").to_numpy(np.int64)


def family_names(frame: pd.DataFrame, columns: Sequence[str]) -> list[str]:
    """Describe the family of every row, such as ``adapter opencv, arm edit``."""
    parts = [[f"{column} {value}" for value in frame[column]] for column in columns]
    return [", ".join(line) for line in zip(*parts, strict=True)] if parts else ["all"] * len(frame)
