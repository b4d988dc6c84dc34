"""Shares of perceived groups, corrected for the classifier's errors by its confusion matrix on held-out faces.

The uncorrected shares are in ``representation``.
"""

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import nnls
from scipy.special import ndtri

from pipeline.statistics.arrays import Floats

SUM_WEIGHT = 1e4
EM_STEPS = 100  # ten times as many change no end of an interval in its fourth decimal
EM_TOLERANCE = 1e-7
BISECTIONS = 14
RIDGE = 1e-9  # added to the diagonal so that a singular matrix can be solved
NOISE = 1e-14
MIN_SKEW = 1e-6
CERTAIN = 1e6  # standard errors: as good as infinite
MAX_CONDITION = 1e12  # a matrix worse than this separates its categories by rounding noise only


def recall(confusion: ArrayLike) -> Floats:
    """P(perceived | true) from counts ``(C, C)`` or ``(R, C, C)``; rows sum to 1.

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
    """Estimate the true shares that best explain the perceived ones, by least squares on the simplex.

    Perceived shares are ``sum over t of share_t P(perceived | t)``. If inverting this gives values outside 0-1, which
    sampling noise alone can cause, the result is the point of the simplex whose perceived shares are nearest. CLEAM
    (Teo et al. 2023) corrects a classifier's counts of generated faces in this way.

    Args:
        counts: photos perceived as each category, ``(C,)`` or, for R resamples, ``(R, C)``; may be weights.
        perceived_if: P(perceived | true), ``(C, C)`` or ``(R, C, C)``.

    Returns:
        Shares of the same shape as ``counts``, in 0-1, each row summing to 1.
    """
    counts, errors = np.asarray(counts, dtype=np.float64), np.asarray(perceived_if, dtype=np.float64)
    perceived = np.atleast_2d(counts)
    perceived = perceived / perceived.sum(axis=1, keepdims=True)
    errors = np.broadcast_to(errors, (len(perceived), *errors.shape[-2:]))
    shares = np.full_like(perceived, -1.0)
    solvable = np.linalg.cond(errors) < MAX_CONDITION
    shares[solvable] = np.linalg.solve(errors[solvable].transpose(0, 2, 1), perceived[solvable][..., None])[..., 0]
    for row in np.flatnonzero((shares < 0).any(axis=1)):
        shares[row] = _nearest(perceived[row], errors[row])
    result: Floats = shares / shares.sum(axis=1, keepdims=True)
    return result.reshape(counts.shape)


def corrected_interval(counts: ArrayLike, confusion: ArrayLike, *, level: float) -> tuple[Floats, Floats]:
    """Ends of the interval of each true share, given the uncertainty of both the counts and the matrix.

    The interval holds all shares that a score test does not reject (Wilson's interval, with the matrix as nuisance).
    For each tested share, the other shares and the matrix are fitted to photos and held-out faces together. The
    residual of the perceived share is compared with its standard error under that fit, both as a normal variable and
    corrected for skewness (Wilson & Hilferty 1931); a share that either accepts is in the interval. If no true shares
    explain the counts (fewer perceived than the errors alone produce), residuals are taken from the best fit.

    Coverage of 95 % intervals in simulations (``scripts/bench/representation.py``: 20 to 1,000 photos, true shares of
    0 to 98 %, two and five groups, matrices of 100 to 2,000 faces with 80 or 97 % correct; 800 runs for each of 1,512
    intervals): 93.0 to 100 %, mean 97.4 %; highest where almost no photos are expected.

    Args:
        counts: photos perceived as each category, ``(C,)`` or, for R samples, ``(R, C)``; may be weights.
        confusion: counts of held-out faces, a row per true category, ``(C, C)`` or ``(R, C, C)``.
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
        for _ in range(BISECTIONS):
            middle = (inside + outside) / 2
            out = rejected(middle)
            inside, outside = np.where(out, inside, middle), np.where(out, middle, outside)
        ends.append(inside)
    # Categories that the matrix does not separate may have any share.
    separated = (np.linalg.cond(recall(confusion)) < MAX_CONDITION)[..., None]
    return np.where(separated, ends[0], 0.0), np.where(separated, ends[1], 1.0)


def contradicted(probabilities: ArrayLike, low: ArrayLike, high: ArrayLike, *, level: float) -> NDArray[np.bool_]:
    """Find the categories, ``(C,)``, whose corrected interval the classifier's own probabilities contradict.

    The mean probability of a calibrated classifier estimates the true share. If the interval of this mean does not
    overlap the corrected interval, the classifier is more or less certain of these photos than of the held-out faces.
    Then the confusion matrix does not apply to these photos, nor does the correction.

    Args:
        probabilities: ``(n, C)`` for each photo; rows sum to 1.
        low, high: ``(C,)`` ends of the corrected interval.
        level: of the interval of the mean, 0-1.

    Raises:
        ValueError: probabilities of another shape, below 0, or with rows that do not sum to 1.
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
    """Distance in standard errors of the perceived shares from those expected, about normal under each hypothesis.

    Args:
        shares: hypothetical true shares, ``(C,)`` or ``(R, C)``, each tested separately.
        counts, confusion: as for ``corrected_interval``.

    Returns:
        ``(2, C)`` or ``(2, R, C)``: plain, and corrected for skewness.
    """
    tested = np.asarray(shares, dtype=np.float64)
    counts, confusion = np.asarray(counts, dtype=np.float64), np.asarray(confusion, dtype=np.float64)
    categories = tested.shape[-1]
    samples = tested.size // categories
    photos = np.repeat(np.broadcast_to(counts, (samples, categories)), categories, axis=0)
    matrices = np.repeat(np.broadcast_to(confusion, (samples, categories, categories)), categories, axis=0)
    held = np.tile(np.eye(categories, dtype=bool), (samples, 1))
    return _scores(tested.ravel(), held, photos, matrices).reshape(2, *tested.shape)


def _scores(share: Floats, held: NDArray[np.bool_], counts: Floats, confusion: Floats) -> Floats:
    """``(2, H)`` scores of H hypotheses: ``share`` ``(H,)`` of the category that ``held`` ``(H, C)`` marks."""
    shares, perceived_if = _fitted(share, held, counts, confusion)
    photos, faces = counts.sum(axis=1), confusion.sum(axis=2)
    # The contrast of perceived shares that depends on the held share only.
    solvable = perceived_if + RIDGE * np.eye(held.shape[1])
    contrast = np.linalg.solve(solvable, held[:, :, None].astype(np.float64)).transpose(0, 2, 1).astype(np.float64)
    perceived = shares[:, None] @ perceived_if
    observed, expected = counts[:, None] / photos[:, None, None], confusion / faces[:, :, None]
    residual = (contrast * observed).sum(axis=(1, 2)) - (shares * (contrast * expected).sum(axis=2)).sum(axis=1)
    variance, third = _moments(perceived, contrast)
    of_row, third_of_row = _moments(perceived_if, contrast)
    total = variance[:, 0] / photos + (shares**2 * of_row / faces).sum(axis=1)
    skew = third[:, 0] / photos**2 - (shares**3 * third_of_row / faces**2).sum(axis=1)
    # If nothing is perceived and nothing confused, the standard error is 0.
    scale = (contrast**2).max(axis=(1, 2))
    certain = total <= NOISE * scale
    error = np.sqrt(np.where(certain, 1.0, total))
    no_error = np.where(residual**2 <= NOISE * scale, 0.0, np.copysign(CERTAIN, residual))
    plain = np.where(certain, no_error, residual / error)
    skew = np.where(certain, 0.0, skew / error**3)
    skewed = np.abs(skew) > MIN_SKEW
    divisor = np.where(skewed, skew, 1.0)
    corrected = np.where(skewed, 6 / divisor * (np.cbrt(1 + divisor * plain / 2) - 1) + divisor / 6, plain)
    return np.stack([plain, corrected])


def _fitted(share: Floats, held: NDArray[np.bool_], counts: Floats, confusion: Floats) -> tuple[Floats, Floats]:
    """Maximum-likelihood shares ``(H, C)`` and P(perceived | true) ``(H, C, C)`` with one share held, by EM."""
    start = confusion + 1 / held.shape[1]
    perceived_if = start / start.sum(axis=2, keepdims=True)
    evenly = (1 - share[:, None]) / max(held.shape[1] - 1, 1)
    shares = np.where(held, share[:, None], evenly)
    for _ in range(EM_STEPS):
        joint = shares[:, :, None] * perceived_if
        perceived = joint.sum(axis=1)
        expected = joint * np.divide(counts, perceived, out=np.zeros_like(counts), where=perceived > 0)[:, None]
        rest = np.where(held, 0.0, expected.sum(axis=2))
        total = rest.sum(axis=1, keepdims=True)
        others = (1 - share[:, None]) * np.divide(rest, total, out=np.zeros_like(rest), where=total > 0)
        shares = np.where(held, share[:, None], np.where(total > 0, others, evenly))
        fitted = confusion + expected
        fitted /= fitted.sum(axis=2, keepdims=True)
        change = np.abs(fitted - perceived_if).max()
        perceived_if = fitted
        if change < EM_TOLERANCE:
            break
    return shares, perceived_if


def _moments(probabilities: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Variance and third central moment of ``values``, over the last axis."""
    deviations = values - (probabilities * values).sum(axis=-1, keepdims=True)
    return (probabilities * deviations**2).sum(axis=-1), (probabilities * deviations**3).sum(axis=-1)


def _nearest(perceived: Floats, errors: Floats) -> Floats:
    """Non-negative least squares with a heavily weighted equation for the sum; ``(C,)``."""
    equations = np.vstack([errors.T, np.full(len(perceived), SUM_WEIGHT)])
    return np.asarray(nnls(equations, np.append(perceived, SUM_WEIGHT))[0])
