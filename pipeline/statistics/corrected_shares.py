"""Shares corrected for the errors of the classifier that perceives, from its confusion matrix on held-out faces.

What is counted, and the uncorrected shares, are in ``representation``.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.special import ndtri

from pipeline.statistics.arrays import Floats

SUM_WEIGHT = 1e4
FITTING_STEPS = 100  # of EM; ten times as many move no end in its fourth decimal
FITTED = 1e-7
HALVINGS = 14
SOLVABLE = 1e-9
NOISE = 1e-14
LEAST_SKEW = 1e-6
CERTAIN = 1e6  # standard errors: as good as infinite
MOST_CONDITION = 1e12  # a matrix worse than this separates its categories by rounding noise only


def recall(confusion: ArrayLike) -> Floats:
    """``(C, C)`` counts, or ``(R, C, C)``, -> P(perceived | true), rows that sum to 1.

    Raises:
        ValueError: not a square table of counts, or a category without held-out faces.
    """
    matrix = np.asarray(confusion, dtype=np.float64)
    if matrix.ndim not in (2, 3) or matrix.shape[-2] != matrix.shape[-1] or not np.all(matrix >= 0):
        raise ValueError(f"the confusion matrix must be a square table of counts, but has the shape {matrix.shape}")
    totals = matrix.sum(axis=-1, keepdims=True)
    if np.any(totals == 0):
        rows = np.unique(np.nonzero(totals[..., 0] == 0)[-1])
        raise ValueError(f"the confusion matrix has no face of the categories in rows {rows}")
    return np.asarray(matrix / totals)


def true_shares(counts: ArrayLike, perceived_if: ArrayLike) -> Floats:
    """True shares that explain the perceived ones best, by least squares on the simplex.

    Perceived shares are ``sum over t of share_t P(perceived | t)``. Where inverting that gives shares, they are the
    result; where it leaves 0-1, which sampling noise alone can do, the result is the point of the simplex whose
    perceived shares lie nearest. Correcting a classifier's counts of generated faces so: CLEAM (Teo et al. 2023).

    Args:
        counts: ``(C,)`` photos perceived as each category, or ``(R, C)`` of R resamples; weights will do.
        perceived_if: ``(C, C)`` P(perceived | true), or ``(R, C, C)``.

    Returns:
        Shares of the same shape as ``counts``, in 0-1, each row summing to 1.
    """
    counts, errors = np.asarray(counts, dtype=np.float64), np.asarray(perceived_if, dtype=np.float64)
    seen = np.atleast_2d(counts)
    seen = seen / seen.sum(axis=1, keepdims=True)
    errors = np.broadcast_to(errors, (len(seen), *errors.shape[-2:]))
    shares = np.full_like(seen, -1.0)
    solvable = np.linalg.cond(errors) < MOST_CONDITION
    shares[solvable] = np.linalg.solve(errors[solvable].transpose(0, 2, 1), seen[solvable][..., None])[..., 0]
    for row in np.flatnonzero((shares < 0).any(axis=1)):
        shares[row] = _nearest(seen[row], errors[row])
    result: Floats = shares / shares.sum(axis=1, keepdims=True)
    return result.reshape(counts.shape)


def corrected_interval(counts: ArrayLike, confusion: ArrayLike, *, level: float) -> tuple[Floats, Floats]:
    """Ends of each true share's interval, given how uncertain both the counts and the matrix are.

    All shares that a score test does not reject (Wilson's interval, with the matrix as nuisance). A share is held at a
    value, the other shares and the matrix are fitted to photos and held-out faces together, and what is left of the
    perceived share is compared with its standard error under that fit: as a normal number, and corrected for its
    skewness (Wilson & Hilferty 1931). What either allows is in the interval. Counts that no true shares explain (fewer
    are perceived than the errors alone make) are measured from the best explanation that there is.

    Coverage of 95 % intervals in simulations (``scripts/bench/representation.py``: 20 to 1,000 photos, true shares of
    0 to 98 %, two and five groups, matrices of 100 to 2,000 faces that are right for 80 or 97 %; 800 runs for each of
    1,512 intervals): 93.0 to 100 %, mean 97.4 %; the highest where hardly any photo is expected.

    Args:
        counts: ``(C,)`` photos perceived as each category, or ``(R, C)`` of R samples; weights will do.
        confusion: ``(C, C)`` counts of held-out faces, one row a true category, or ``(R, C, C)``.
        level: 0-1.

    Returns:
        both ends, of the shape of ``counts``.

    Raises:
        ValueError: as ``recall``.
    """
    counts, confusion = np.asarray(counts, dtype=np.float64), np.asarray(confusion, dtype=np.float64)
    estimate, limit = true_shares(counts, recall(confusion)), float(ndtri((1 + level) / 2))
    unexplained = share_scores(estimate, counts, confusion)

    def rejected(shares: Floats) -> NDArray[np.bool_]:
        return np.asarray(np.abs(share_scores(shares, counts, confusion) - unexplained).min(axis=0) > limit)

    ends = []
    for edge in (0.0, 1.0):
        outside = np.full_like(estimate, edge)
        inside = np.where(rejected(outside), estimate, outside)
        for _ in range(HALVINGS):
            middle = (inside + outside) / 2
            out = rejected(middle)
            inside, outside = np.where(out, inside, middle), np.where(out, middle, outside)
        ends.append(inside)
    # Categories that the matrix does not separate may have any share.
    separated = (np.linalg.cond(recall(confusion)) < MOST_CONDITION)[..., None]
    return np.where(separated, ends[0], 0.0), np.where(separated, ends[1], 1.0)


def contradicted(probabilities: ArrayLike, low: ArrayLike, high: ArrayLike, *, level: float) -> NDArray[np.bool_]:
    """``(C,)`` categories of which the classifier's own probabilities contradict the corrected interval.

    A classifier that is as sure as it is right expects the mean of its probabilities as the true share. Where even that
    mean's interval lies outside the corrected one, the classifier is surer, or less sure, of these photos than the
    held-out faces of the confusion matrix allow: the matrix does not carry over, and the correction with it.

    Args:
        probabilities: ``(n, C)`` of each photo, rows that sum to 1.
        low, high: ``(C,)`` ends of the corrected interval.
        level: of the interval of the mean, 0-1.

    Raises:
        ValueError: no such probabilities.
    """
    table = np.asarray(probabilities, dtype=np.float64)
    ends = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
    sums_to_one = table.ndim == 2 and np.allclose(table.sum(axis=1), 1, atol=1e-3)
    if not (sums_to_one and table.shape[1:] == ends[0].shape and (table >= 0).all()):
        raise ValueError(f"probabilities must have the shape (photos, {len(ends[0])}) with rows that sum to 1")
    mean, spread = table.mean(axis=0), table.std(axis=0, ddof=min(1, len(table) - 1))
    reach = ndtri((1 + level) / 2) * spread / np.sqrt(len(table))
    return np.asarray((mean + reach < ends[0]) | (mean - reach > ends[1]))


def share_scores(shares: ArrayLike, counts: ArrayLike, confusion: ArrayLike) -> Floats:
    """How many standard errors the perceived shares are from what each hypothesis expects; about normal if it is true.

    Args:
        shares: ``(C,)`` or ``(R, C)``; each is a hypothesis by itself, that a category's true share is this.
        counts, confusion: as for ``corrected_interval``.

    Returns:
        ``(2, C)`` or ``(2, R, C)``: plain, and corrected for skewness.
    """
    held_at = np.asarray(shares, dtype=np.float64)
    counts, confusion = np.asarray(counts, dtype=np.float64), np.asarray(confusion, dtype=np.float64)
    categories = held_at.shape[-1]
    samples = held_at.size // categories
    seen = np.repeat(np.broadcast_to(counts, (samples, categories)), categories, axis=0)
    matrices = np.repeat(np.broadcast_to(confusion, (samples, categories, categories)), categories, axis=0)
    held = np.tile(np.eye(categories, dtype=bool), (samples, 1))
    return _scores(held_at.ravel(), held, seen, matrices).reshape(2, *held_at.shape)


def _scores(share: Floats, held: NDArray[np.bool_], counts: Floats, confusion: Floats) -> Floats:
    """``(2, H)`` scores of H hypotheses: ``share`` ``(H,)`` of the category that ``held`` ``(H, C)`` names."""
    shares, perceived_if = _fitted(share, held, counts, confusion)
    photos, faces = counts.sum(axis=1), confusion.sum(axis=2)
    # The contrast of perceived shares that only the share held moves.
    solvable = perceived_if + SOLVABLE * np.eye(held.shape[1])
    contrast = np.linalg.solve(solvable, held[:, :, None].astype(np.float64)).transpose(0, 2, 1).astype(np.float64)
    perceived = shares[:, None] @ perceived_if
    seen, expected = counts[:, None] / photos[:, None, None], confusion / faces[:, :, None]
    left = (contrast * seen).sum(axis=(1, 2)) - (shares * (contrast * expected).sum(axis=2)).sum(axis=1)
    variance, third = _moments(perceived, contrast)
    of_row, third_of_row = _moments(perceived_if, contrast)
    total = variance[:, 0] / photos + (shares**2 * of_row / faces).sum(axis=1)
    skew = third[:, 0] / photos**2 - (shares**3 * third_of_row / faces**2).sum(axis=1)
    # Where all is certain (nothing perceived, nothing confused) there is no error to measure with.
    scale = (contrast**2).max(axis=(1, 2))
    certain = total <= NOISE * scale
    error = np.sqrt(np.where(certain, 1.0, total))
    plain = np.where(certain, np.where(left**2 <= NOISE * scale, 0.0, np.copysign(CERTAIN, left)), left / error)
    skew = np.where(certain, 0.0, skew / error**3)
    skewed = np.abs(skew) > LEAST_SKEW
    some = np.where(skewed, skew, 1.0)
    corrected = np.where(skewed, 6 / some * (np.cbrt(1 + some * plain / 2) - 1) + some / 6, plain)
    return np.stack([plain, corrected])


def _fitted(share: Floats, held: NDArray[np.bool_], counts: Floats, confusion: Floats) -> tuple[Floats, Floats]:
    """Shares ``(H, C)`` and P(perceived | true) ``(H, C, C)`` of greatest likelihood with one share held, by EM."""
    start = confusion + 1 / held.shape[1]
    perceived_if = start / start.sum(axis=2, keepdims=True)
    evenly = (1 - share[:, None]) / max(held.shape[1] - 1, 1)
    shares = np.where(held, share[:, None], evenly)
    for _ in range(FITTING_STEPS):
        joint = shares[:, :, None] * perceived_if
        perceived = joint.sum(axis=1)
        expected = joint * np.divide(counts, perceived, out=np.zeros_like(counts), where=perceived > 0)[:, None]
        rest = np.where(held, 0.0, expected.sum(axis=2))
        total = rest.sum(axis=1, keepdims=True)
        others = (1 - share[:, None]) * np.divide(rest, total, out=np.zeros_like(rest), where=total > 0)
        shares = np.where(held, share[:, None], np.where(total > 0, others, evenly))
        fitted = confusion + expected
        fitted /= fitted.sum(axis=2, keepdims=True)
        moved = np.abs(fitted - perceived_if).max()
        perceived_if = fitted
        if moved < FITTED:
            break
    return shares, perceived_if


def _moments(chances: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Variance and third central moment of ``values`` under ``chances``, over the last axis."""
    from_mean = values - (chances * values).sum(axis=-1, keepdims=True)
    return (chances * from_mean**2).sum(axis=-1), (chances * from_mean**3).sum(axis=-1)


def _nearest(seen: Floats, errors: Floats) -> Floats:
    """Non-negative least squares with the sum as one more, heavy equation; ``(C,)`` and ``(C, C)`` to ``(C,)``."""
    equations = np.vstack([errors.T, np.full(len(seen), SUM_WEIGHT)])
    return np.asarray(nnls(equations, np.append(seen, SUM_WEIGHT))[0])
