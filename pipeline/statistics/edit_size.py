"""Split each slope into the effect of the attribute's direction and that of the size of the edit.

An edit is larger the farther its value a is from the face's own value a0. If most photos lie on one side of the scale,
|a - a0| is correlated with a, so that anything that grows with the size of an edit contributes to the slope.
"""

from collections.abc import Hashable, Iterator, Mapping

import numpy as np
import pandas as pd

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import Spread
from pipeline.statistics.photo_slopes import ESTIMABLE, Part, blocks, counted, label_frame, slopes_and_centre
from pipeline.statistics.sweeps import Sweeps

EDIT_SIZE_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "photos", "y_c", "lean", "slope"),
    *("direction", "direction_low", "direction_high", "direction_p", "size", "size_low", "size_high", "size_p"),
    *("estimable", "reason"),
)
MIN_DISTANCE = 0.05  # own values nearer to a = 0 are on neither side


def edit_size(
    sweeps: Sweeps,
    own: Mapping[str, float],
    *,
    min_count: float = 30,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
) -> pd.DataFrame:
    """Regress y on direction and size: d and s of y = c_i + d a + s |a - a0_i|, divided by y_c, for every label.

    d and s are common to all photos, c_i differs by photo; errors are clustered by photo. ``slope`` is of the same
    photos without the size term, so slope = direction + lean * size, where ``lean`` is the mean slope of |a - a0| on a.
    Photos whose own value is unknown or outside the sweep are left out, because they cannot separate the two.

    Args:
        sweeps: of one edit.
        own: photo -> its own value a0.
        min_count, level, clusters: as for ``slope_table``.

    Returns:
        The columns of ``EDIT_SIZE_COLUMNS``; intervals are Fieller's, p is of the t test over photos.
    """
    values, reach = sweeps.values, float(sweeps.values[-1])
    photos = [photo for photo in sweeps.photos if abs(own.get(photo, np.nan)) < reach]
    sweeps = sweeps.of_photos(photos)
    units, rates, reason = counted(sweeps, min_count=min_count, clusters=clusters)
    design = _design(values, np.array([own[photo] for photo in photos]))
    squares = np.einsum("ckn,dkn->cdn", design, design)
    inverse = np.linalg.pinv(squares.sum(axis=2))
    lean = float(squares[0, 1].sum() / max(squares[0, 0].sum(), 1e-12))

    def parts() -> Iterator[Part]:
        for rows in blocks(np.flatnonzero(reason == ESTIMABLE), photos=len(photos)):
            top, centre = slopes_and_centre(sweeps, rows)
            bottom = Spread.of(units.sums(centre), units)
            yield rows, {"slope": top.sum(axis=1) / centre.sum(axis=1)}
            products = np.einsum("lkn,ckn->cln", sweeps.block(rows), design, optimize=True)
            fitted = np.einsum("cd,dl->cl", inverse, products.sum(axis=2))
            # The influence of each photo on the coefficients, shifted so that its mean over photos is the coefficient.
            residuals = products - np.einsum("cdn,dl->cln", squares, fitted)
            influences = len(photos) * np.einsum("cd,dln->cln", inverse, residuals) + fitted[:, :, None]
            for name, influence in zip(("direction", "size"), influences, strict=True):
                spread = Spread.of(units.sums(influence), units)
                low, high = inference.ratio_interval(spread, bottom, units, level=level)
                yield (
                    rows,
                    {
                        name: spread.total / bottom.total,
                        f"{name}_low": low,
                        f"{name}_high": high,
                        f"{name}_p": inference.t_test(spread, units),
                    },
                )

    return label_frame(sweeps, EDIT_SIZE_COLUMNS, reason, parts(), y_c=rates[:, len(values) // 2], lean=lean)


def balance(own: Mapping[str, float]) -> dict[str, float]:
    """Number of photos with a known own value, shares below and above the middle of the scale, and the mean value."""
    known = np.array([value for value in own.values() if not np.isnan(value)])
    count = max(len(known), 1)
    low, high = (float((sign * known > MIN_DISTANCE).sum() / count) for sign in (-1, 1))
    return {"photos": len(known), "low": low, "high": high, "mean": float(known.mean()) if len(known) else np.nan}


def _design(values: Floats, own: Floats) -> Floats:
    """Design ``(2, K, n)``: value and size of the edit at each step of each photo, less their means over the steps."""
    sizes = np.abs(values[:, None] - own)
    both = np.stack(np.broadcast_arrays(values[:, None], sizes))
    return np.asarray(both - both.mean(axis=1, keepdims=True))
