"""Measures of an editor: pure functions from pictures or perceived values to figures.

Pictures are aligned crops ``(N, S, S, 3)`` uint8 RGB; masks ``(N, S, S)`` in 0..1; perceived values ``(N, K)``.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

Pictures = NDArray[np.uint8]
Masks = NDArray[np.floating]
Values = NDArray[np.floating]


@dataclass(frozen=True)
class YearsMoved:
    """Change of perceived age in years from the low to the high end.

    Attributes:
        mean: mean over faces.
        most: 90 % quantile over faces of the absolute change.
    """

    mean: float
    most: float


def lab(pictures: Pictures) -> NDArray[np.float32]:
    """Convert pictures ``(..., S, S, 3)`` to CIELAB, L* in 0..100."""
    flat = pictures.reshape(-1, pictures.shape[-2], 3).astype(np.float32) / 255
    return np.asarray(cv2.cvtColor(flat, cv2.COLOR_RGB2LAB), dtype=np.float32).reshape(pictures.shape)


def lightness_change(photos: Pictures, versions: Pictures) -> NDArray[np.float32]:
    """Return the change of L* at each pixel, ``(N, S, S)``."""
    return lab(versions)[..., 0] - lab(photos)[..., 0]


def lightness_map(photos: Pictures, versions: Pictures, masks: Masks) -> NDArray[np.float64]:
    """Return the mean change of L* at each place ``(S, S)`` over faces with a mask there; NaN for fewer than half."""
    change = lightness_change(photos, versions) * masks
    weight = masks.sum(axis=0)
    mean = change.sum(axis=0) / np.maximum(weight, 1e-6)
    return np.where(weight >= len(photos) / 2, mean, np.nan)


def stencil(change: NDArray[np.floating]) -> float:
    """Return the largest deviation of a mean map of ΔL* from its own mean: the change common to all faces."""
    return float(np.nanmax(np.abs(change - np.nanmean(change))))


def concentration(changes: Values, masks: Masks, *, share: float = 0.05) -> NDArray[np.float64]:
    """Return the share ``(N,)`` of each face's squared change of L* in the densest ``share`` of its mask.

    NaN for a face without change. An even change gives ``share`` itself.

    Args:
        changes: ``(N, S, S)`` changes of L*.
        masks: where each face may change.
        share: share of the mask.
    """
    shares = np.full(len(changes), np.nan)
    for place, (energy, mask) in enumerate(zip(np.square(changes, dtype=np.float64) * masks, masks, strict=True)):
        inside = energy[mask > 0.5]
        if inside.any():
            densest = max(1, round(share * len(inside)))
            shares[place] = np.partition(inside, -densest)[-densest:].sum() / inside.sum()
    return shares


def asymmetry(changes: Values, masks: Masks) -> NDArray[np.float64]:
    """Return the asymmetry ``(N,)`` of the change of L*: mean difference of both halves over its mean absolute value.

    0 for a symmetric change, 2 for a change on one side only; NaN for a face without change. The crops are aligned, so
    the halves mirror each other. Arguments as of `concentration`.
    """
    smooth = blurred(changes * masks)
    apart = np.abs(smooth - smooth[:, :, ::-1]).mean(axis=(1, 2))
    size = np.abs(smooth).mean(axis=(1, 2))
    return np.asarray(np.divide(apart, size, out=np.full(len(changes), np.nan), where=size > 0), dtype=np.float64)


def blurred(fields: NDArray[np.floating], *, share: float = 0.04) -> NDArray[np.float64]:
    """Blur fields ``(N, S, S)`` with a Gaussian of ``share`` of their side."""
    sigma = share * fields.shape[-1]
    return np.stack([cv2.GaussianBlur(np.asarray(field, dtype=np.float64), (0, 0), sigma) for field in fields])


def median_colours(pictures: Pictures, masks: Masks, *, least: int = 40) -> NDArray[np.float64]:
    """Return the median CIELAB ``(N, 3)`` inside each mask (above 0.9); NaN for fewer than ``least`` pixels."""
    colours = [median_colour(picture[mask > 0.9], least=least) for picture, mask in zip(pictures, masks, strict=True)]
    return np.array(colours).reshape(-1, 3)


def median_colour(pixels: Pictures, *, least: int = 40) -> NDArray[np.float64]:
    """Return the median CIELAB ``(3,)`` of pixels ``(n, 3)``; NaN for fewer than ``least``."""
    count = len(pixels)
    if count < least:
        return np.full(3, np.nan)
    middle = [(count - 1) // 2, count // 2]
    ordered = np.partition(lab(pixels[None])[0].T, middle, axis=1)  # np.median takes ten times as long
    return np.asarray(ordered[:, middle].mean(axis=1), dtype=np.float64)


def shift_gap(before: tuple[Values, Values], after: tuple[Values, Values]) -> NDArray[np.float64]:
    """Return the difference of the shifts of the face's and the neck's skin colour, ΔE (CIE 1976) ``(N,)``.

    Args:
        before: the median colours ``(N, 3)`` of the face and of neck or ears in the photos.
        after: the same in the versions.
    """
    face, neck = (np.asarray(late - early, dtype=np.float64) for early, late in zip(before, after, strict=True))
    return np.asarray(np.linalg.norm(face - neck, axis=1))


def years_moved(low: Values, high: Values) -> YearsMoved:
    """Summarise the change of perceived ages ``(N,)`` in years from the low to the high end."""
    moved = np.asarray(high, dtype=np.float64) - low
    return YearsMoved(float(moved.mean()), float(np.quantile(np.abs(moved), 0.9)))


def falling_share(probabilities: Values, *, by: float = 0.02) -> float:
    """Return the share of faces whose probabilities ``(N, K)`` along the sweep fall by more than ``by``."""
    highest = np.maximum.accumulate(probabilities, axis=1)
    return float(((highest - probabilities).max(axis=1) > by).mean())


def dead_faces(probabilities: Values, *, least: float = 0.2) -> NDArray[np.bool_]:
    """Return which faces ``(N,)`` rise by less than ``least`` from the first to the last value of ``(N, K)``."""
    return np.asarray(probabilities[:, -1] - probabilities[:, 0] < least)


def group_effects(low: Values, high: Values, groups: NDArray[np.str_], *, least: int = 10) -> Mapping[str, float]:
    """Return the mean rise from ``low`` to ``high`` ``(N,)`` in each source group of at least ``least`` faces."""
    return {
        str(group): float((high - low)[groups == group].mean())
        for group in np.unique(groups)
        if int((groups == group).sum()) >= least
    }


def auc(scores: Values, positive: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: how often a positive's score exceeds a negative's (ties count half)."""
    _, place, equal = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(equal) - (equal - 1) / 2)[place]
    count = int(positive.sum())
    other = len(positive) - count
    return float((ranks[positive].sum() - count * (count + 1) / 2) / max(1, count * other))


def auc_interval(
    scores: Values, positive: NDArray[np.bool_], faces: NDArray[np.integer], *, draws: int = 1000, seed: int = 0
) -> tuple[float, float]:
    """Return a 95 % bootstrap interval of `auc` over faces, whose pictures stay together.

    Args:
        scores: ``(M,)``.
        positive: ``(M,)`` whether a picture is edited.
        faces: ``(M,)`` the face it shows.
        draws: number of bootstrap draws.
        seed: seed of the draws.
    """
    random = np.random.default_rng(seed)
    names, index = np.unique(faces, return_inverse=True)
    members = [np.flatnonzero(index == place) for place in range(len(names))]
    found = []
    for _ in range(draws):
        rows = np.concatenate([members[place] for place in random.integers(len(names), size=len(names))])
        found.append(auc(scores[rows], positive[rows]))
    low, high = np.quantile(found, (0.025, 0.975))
    return float(low), float(high)
