"""What a slope owes to the attribute's direction, and what to the size of the edit: a regression in each photo.

A version is edited the more the farther it is from the face's own value a0. Where photos sit on one side of the scale,
|a - a0| falls or rises along a, so that whatever grows with the size of an edit makes a slope.
"""

from collections.abc import Hashable, Mapping

import numpy as np
import pandas as pd

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import Spread
from pipeline.statistics.photo_slopes import ESTIMABLE, blocks, reasons_of, slopes_and_centre, units_of
from pipeline.statistics.sweeps import Sweeps

ENDS = ("", "_low", "_high")
EDIT_SIZE_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "photos", "y_c", "slope"),
    *("direction", "direction_low", "direction_high", "direction_p", "size", "size_low", "size_high", "size_p"),
    *("estimable", "reason"),
)
SIDE = 0.05  # own values nearer to a = 0 are on no side


def edit_size(
    sweeps: Sweeps,
    own: Mapping[str, float],
    *,
    min_count: float = 30,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
) -> pd.DataFrame:
    """Direction and size of every label: mean coefficients of y = c + d a + s |a - a0| over photos, divided by y_c.

    Photos whose own value is not known, or does not lie inside the sweep, are left out: there the two cannot be told
    apart. ``slope`` is of the same photos, without the second term.

    Args:
        sweeps: of one edit.
        own: photo -> its own value a0.
        min_count, level, clusters: as for ``slope_table``.

    Returns:
        The columns of ``EDIT_SIZE_COLUMNS``; intervals are Fieller's, p of the t test over photos.
    """
    values, reach = sweeps.values, float(sweeps.values[-1])
    photos = [photo for photo in sweeps.photos if abs(own.get(photo, np.nan)) < reach]
    sweeps = sweeps.of_photos(photos)
    units, rates = units_of(sweeps, clusters), sweeps.rates()
    reason = reasons_of(rates, photos=len(photos), units=len(units), min_count=min_count)
    numbers = {name: np.full(len(sweeps.labels), np.nan) for name in EDIT_SIZE_COLUMNS[6:-2]}
    weights = _weights(values, np.array([own[photo] for photo in photos]))
    for rows in blocks(np.flatnonzero(reason == ESTIMABLE), photos=len(photos)):
        top, centre = slopes_and_centre(sweeps, rows)
        bottom = Spread.of(units.sums(centre), units)
        numbers["slope"][rows] = top.sum(axis=1) / centre.sum(axis=1)
        coefficients = np.einsum("lkn,ckn->cln", sweeps.block(rows), weights, optimize=True)
        for name, found in zip(("direction", "size"), coefficients, strict=True):
            spread = Spread.of(units.sums(found), units)
            ends = inference.ratio_interval(spread, bottom, units, level=level)
            for end, column in zip(ENDS, (spread.total / bottom.total, *ends), strict=True):
                numbers[f"{name}{end}"][rows] = column
            numbers[f"{name}_p"][rows] = inference.t_test(spread, units)
    named = {"adapter": sweeps.adapter, "attribute": sweeps.attribute, "arm": sweeps.arm, "label": list(sweeps.labels)}
    known = {"photos": len(photos), "y_c": rates[:, len(values) // 2], "estimable": reason == ESTIMABLE}
    frame = pd.DataFrame({**named, **known, **numbers, "reason": reason.tolist()}, index=range(len(sweeps.labels)))
    return frame[list(EDIT_SIZE_COLUMNS)]


def balance(own: Mapping[str, float]) -> dict[str, float]:
    """How many photos there are, the shares below and above the middle of the scale, and the mean own value."""
    known = np.array([value for value in own.values() if not np.isnan(value)])
    count = max(len(known), 1)
    low, high = (float((sign * known > SIDE).sum() / count) for sign in (-1, 1))
    return {"photos": len(known), "low": low, "high": high, "mean": float(known.mean()) if len(known) else np.nan}


def _weights(values: Floats, own: Floats) -> Floats:
    """``(2, K, n)``: what each photo's responses are summed with for its direction and its size coefficient."""
    design = np.stack(np.broadcast_arrays(1.0, values, np.abs(values - own[:, None])), axis=2)
    return np.asarray(np.linalg.pinv(design)[:, 1:].transpose(1, 2, 0))
