"""Many labels are tested at once: false discovery rates over a declared family.

What makes a family is the caller's choice (see ``slopes_of``); the tests themselves live in ``inference``.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values q: calling every label with q <= f keeps the expected share of false calls at most f.

    ``q_(i) = min over j >= i of m p_(j) / j`` over the m tests in ascending order; equal p have equal q.
    Source: Benjamini & Hochberg 1995.

    Args:
        p: ``(L,)`` probabilities in 0-1. NaN was not tested: it stays NaN and does not count in m.

    Returns:
        ``(L,)`` q in 0-1.

    Raises:
        ValueError: ``p`` is not one-dimensional or leaves 0-1.
    """
    p = np.asarray(p, dtype=np.float64)
    if p.ndim != 1:
        raise ValueError(f"p must be one-dimensional, but has the shape {p.shape}")
    if np.any((p < 0) | (p > 1)):
        raise ValueError("p must lie in 0-1")
    q = np.full(p.shape, np.nan)
    tested = np.flatnonzero(~np.isnan(p))
    order = tested[np.argsort(p[tested], kind="stable")]
    adjusted = p[order] * (len(order) / np.arange(1, len(order) + 1))
    q[order] = np.minimum(np.minimum.accumulate(adjusted[::-1])[::-1], 1)
    return q
