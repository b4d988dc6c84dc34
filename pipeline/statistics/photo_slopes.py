"""Shared parts of all results about labels: slopes of single photos, units, reasons, and frames.

Slopes of labels are in ``slopes``, their uncertainty in ``inference``.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import Units
from pipeline.statistics.sweeps import Sweeps

# Reasons why a label has no slope, by priority.
TOO_FEW_PHOTOS = "too few photos"  # fewer than two photos or clusters have a complete sweep
NEVER_AT_CENTRE = "never present at a = 0"  # y_c = 0, so z is not defined
CONSTANT = "constant"  # the same rate at every step
TOO_RARE = "too rare"  # y_c * n < min_count
ESTIMABLE = ""

# A standard deviation below this share of the rates is rounding noise.
NOISE = 1e-13
# Larger blocks of labels exceed the processor's cache, smaller ones leave its matrix units idle.
BLOCK_LABELS = 256
BLOCK_CELLS = 4_000_000

UNKNOWN_CLUSTER = "clusters has no cluster for the photo {photo!r}"

Part = tuple[NDArray[np.intp], Mapping[str, Floats]]  # rows of some labels, and their values by column


def label_frame(
    sweeps: Sweeps, columns: Sequence[str], reason: NDArray[np.str_], parts: Iterable[Part] = (), **known: Any
) -> pd.DataFrame:
    """Build a frame with a row per label; numbers are NaN where a label has no estimate.

    Args:
        sweeps: the responses; they give adapter, attribute, arm, label and photos.
        columns: of the frame, in order.
        reason: ``(L,)``, see ``reasons_of``; it gives the columns ``estimable`` and ``reason``.
        parts: numbers of some labels at a time.
        **known: column -> a value for all labels, or ``(L,)``.
    """
    own = {name: getattr(sweeps, name) for name in ("adapter", "attribute", "arm")} | {"label": list(sweeps.labels)}
    own |= {"photos": len(sweeps.photos), "estimable": reason == ESTIMABLE, "reason": reason.tolist()}
    numbers = {name: np.full(len(sweeps.labels), np.nan) for name in columns if name not in own | known}
    for rows, part in parts:
        for name, column in part.items():
            numbers[name][rows] = column
    return pd.DataFrame(own | known | numbers, columns=list(columns), index=range(len(sweeps.labels)))


def stacked(frames: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Concatenate frames with the given columns, even if all frames are empty."""
    kept = [frame for frame in frames if len(frame)] or [pd.DataFrame(columns=list(columns))]
    return pd.concat(kept, ignore_index=True).reindex(columns=list(columns))


def photo_slopes(y: NDArray[Any], *, reach: int) -> NDArray[Any]:
    """Slope of each photo's response over the middle ``2 reach + 1`` steps, up to the factor ``slope_unit``.

    ``sum over j = 1..reach of j (y_(c+j) - y_(c-j))``: an integer for presence, and exactly 0 for equal responses.

    Args:
        y: ``(L, K, n)``, see ``Sweeps.block``.
        reach: steps on either side of the centre, 1 to (K - 1) / 2.

    Returns:
        ``(L, n)``; int64 for presence, float64 for scores.
    """
    centre = y.shape[1] // 2
    slopes = np.zeros((y.shape[0], y.shape[2]), dtype=np.float64 if y.dtype.kind == "f" else np.int64)
    for j in range(1, reach + 1):
        slopes += j * (y[:, centre + j] - y[:, centre - j])
    return slopes


def slope_unit(values: Floats, *, reach: int) -> float:
    """Factor that converts ``photo_slopes`` to slopes per unit of a."""
    step = (values[-1] - values[0]) / (len(values) - 1)
    return float(1 / (step * 2 * sum(j * j for j in range(1, reach + 1))))


def slopes_and_centre(sweeps: Sweeps, rows: NDArray[np.intp]) -> tuple[Floats, NDArray[Any]]:
    """Slope per unit of a, and response at a = 0, of each photo; ``(len(rows), n)`` each."""
    y = sweeps.block(rows)
    reach = y.shape[1] // 2
    return slope_unit(sweeps.values, reach=reach) * photo_slopes(y, reach=reach), y[:, reach]


def units_of(sweeps: Sweeps, clusters: Mapping[str, Hashable] | None) -> Units:
    """Units of resampling: the photos, or their clusters; ValueError if ``clusters`` lacks a photo."""
    if clusters is None:
        return Units.of(len(sweeps.photos))
    for photo in sweeps.photos:
        cluster = clusters.get(photo)
        if cluster is None or cluster != cluster:  # NaN differs from itself
            raise ValueError(UNKNOWN_CLUSTER.format(photo=photo))
    return Units.of(len(sweeps.photos), clusters=[clusters[photo] for photo in sweeps.photos])


def counted(
    sweeps: Sweeps, *, min_count: float, clusters: Mapping[str, Hashable] | None
) -> tuple[Units, Floats, NDArray[np.str_]]:
    """Units (``units_of``), rates y_k ``(L, K)``, and reasons ``(L,)`` (``reasons_of``)."""
    units, rates = units_of(sweeps, clusters), sweeps.rates()
    return units, rates, reasons_of(rates, photos=len(sweeps.photos), units=len(units), min_count=min_count)


def reasons_of(rates: Floats, *, photos: int, units: int, min_count: float) -> NDArray[np.str_]:
    """Reason why each label has no slope, ``(L,)``; ``ESTIMABLE`` where it has one.

    Args:
        rates: ``(L, K)`` y_k.
        photos, units: number of photos n, and of units (photos or clusters).
        min_count: y_c * n below which a label is too rare.

    Raises:
        ValueError: ``min_count`` is negative or NaN.
    """
    if not min_count >= 0:
        raise ValueError(f"min_count must be 0 or more, not {min_count}")
    y_c = rates[:, rates.shape[1] // 2]
    constant = np.ptp(rates, axis=1) <= NOISE * rates.max(axis=1, initial=0)
    # 30 photos of n may come back as 29.999999999999996
    too_rare = y_c * photos < min_count * (1 - NOISE)
    reasons = {TOO_FEW_PHOTOS: np.full(len(rates), units < 2), NEVER_AT_CENTRE: y_c == 0}
    reasons |= {CONSTANT: constant, TOO_RARE: too_rare}
    return np.select(list(reasons.values()), list(reasons), ESTIMABLE).astype(np.str_)


def blocks(rows: NDArray[np.intp], *, photos: int, size: int | None = None) -> Iterator[NDArray[np.intp]]:
    """Split the rows of labels into blocks of ``size`` (default: as many as fit into the cache)."""
    size = size or max(1, min(BLOCK_LABELS, BLOCK_CELLS // max(photos, 1)))
    for start in range(0, len(rows), size):
        yield rows[start : start + size]
