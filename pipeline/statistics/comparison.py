"""Paired comparison of two sweeps of the same photos: two runs, two adapters, or an edit and its placebo.

Groups of photos within one sweep are compared in ``subgroups``.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import Ratio
from pipeline.statistics.multiplicity import within_families
from pipeline.statistics.photo_slopes import (
    CONSTANT,
    ESTIMABLE,
    TOO_RARE,
    Part,
    blocks,
    label_frame,
    reasons_of,
    slopes_and_centre,
    stacked,
    units_of,
)
from pipeline.statistics.sweeps import Sweeps

OTHER_VALUES = (
    "the column 'value' of {first} holds {first_values}, but that of {second} holds {second_values}: compare sweeps of "
    "the same values"
)
OTHER_RESPONSE = "the responses of {first} and {second} must both be presence or both be confidence"
COMPARISON_COLUMNS = (
    *("attribute", "arm", "first", "second", "label", "photos", "first_y_c", "second_y_c"),
    *("first_slope", "second_slope", "difference", "difference_low", "difference_high", "p", "q"),
    *("rd_difference", "rd_low", "rd_high", "rd_p", "estimable", "reason", "family", "tested"),
)


Ratios = tuple[Ratio, Ratio]  # of z (divided by y_c) and of y


def difference_columns(first: Ratios, second: Ratios, *, names: tuple[str, str], level: float) -> dict[str, Floats]:
    """Columns of the two slopes of z and of their differences in z and y, with t intervals and p."""
    of_z, of_y = (inference.difference(one, other, level=level) for one, other in zip(first, second, strict=True))
    columns = {f"{name}_slope": slopes[0].value for name, slopes in zip(names, (first, second), strict=True)}
    columns |= dict(zip(("difference", "difference_low", "difference_high", "p"), of_z, strict=True))
    return columns | dict(zip(("rd_difference", "rd_low", "rd_high", "rd_p"), of_y, strict=True))


def only_in(sweeps: Sweeps, other: Sweeps) -> tuple[str, ...]:
    """Photos of ``sweeps``, complete or not, that do not have a complete sweep in both."""
    paired = set(sweeps.photos) & set(other.photos)
    return tuple(photo for photo in (*sweeps.photos, *sweeps.incomplete) if photo not in paired)


def compare(
    first: Sweeps,
    second: Sweeps,
    *,
    names: tuple[str, str] = ("first", "second"),
    min_count: float = 30,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
    block: int | None = None,
    keep_flat_second: bool = False,
) -> pd.DataFrame:
    """Difference of each label's slope between two sweeps of the same photos, paired by photo.

    Both slopes are estimated on the photos with a complete sweep in both. The interval is the t interval of the
    linearised difference (``inference.difference``). Variation between photos that both share cancels out, so it is
    narrower than the intervals of the two slopes suggest, and a sweep compared with itself differs by exactly 0.

    Args:
        first, second: the responses, at the same attribute values.
        names: names of the two.
        min_count: y_c * n below which a label is too rare in either.
        level, clusters, block: as for ``slope_table``.
        keep_flat_second: also compare labels that are constant or too rare in ``second``.

    Returns:
        A row for every label of either, with ``COMPARISON_COLUMNS``: first less second, NaN with a ``reason`` where
        either is not estimable; q over the labels of this comparison.

    Raises:
        ValueError: the sweeps have different values or responses, or ``clusters`` lacks a photo.
    """
    _check_alike(first, second, names)
    known = set(second.photos)
    photos = [photo for photo in first.photos if photo in known]
    labels = sorted({*first.labels, *second.labels})
    both = [sweeps.of_photos(photos).of_labels(labels) for sweeps in (first, second)]
    units, rates = units_of(both[0], clusters), [sweeps.rates() for sweeps in both]
    reasons = [reasons_of(rate, photos=len(photos), units=len(units), min_count=min_count) for rate in rates]
    if keep_flat_second:
        reasons[1] = np.where(np.isin(reasons[1], (CONSTANT, TOO_RARE)), ESTIMABLE, reasons[1])
    reason = _joined(reasons, names)

    def parts() -> Iterator[Part]:
        for rows in blocks(np.flatnonzero(reason == ESTIMABLE), photos=len(photos), size=block):
            sums = [[units.sums(part) for part in slopes_and_centre(sweeps, rows)] for sweeps in both]
            one, two = ((Ratio.of(top, centre), Ratio.of(top, units.sizes[None])) for top, centre in sums)
            yield rows, difference_columns(one, two, names=("first", "second"), level=level)

    y_c = [rate[:, len(first.values) // 2] for rate in rates]
    own: dict[str, Any] = {"arm": first.arm, "first": names[0], "second": names[1]}
    own |= {"first_y_c": y_c[0], "second_y_c": y_c[1]}
    frame = label_frame(both[0], COMPARISON_COLUMNS, reason, parts(), **own)
    return within_families(frame, by=("first", "second", "attribute"))


def comparison_frame(comparisons: Sequence[pd.DataFrame], *, family: Sequence[str] = ()) -> pd.DataFrame:
    """Concatenate comparisons, with q over the family declared by the columns ``family`` and the arm."""
    return within_families(stacked(comparisons, COMPARISON_COLUMNS), by=family)


def _check_alike(first: Sweeps, second: Sweeps, names: tuple[str, str]) -> None:
    """Refuse sweeps that cannot be compared."""
    words = {"first": names[0], "second": names[1]}
    if first.confidence != second.confidence:
        raise ValueError(OTHER_RESPONSE.format(**words))
    if first.values.shape != second.values.shape or not np.allclose(first.values, second.values, rtol=0, atol=1e-6):
        values = [", ".join(f"{value:g}" for value in sweeps.values) for sweeps in (first, second)]
        raise ValueError(OTHER_VALUES.format(**words, first_values=values[0], second_values=values[1]))


def _joined(reasons: Sequence[NDArray[np.str_]], names: tuple[str, str]) -> NDArray[np.str_]:
    """Combine the reasons of both sides, each with the side's name: ``(L,)``."""
    lines = [
        "; ".join(f"{name}: {reason}" for name, reason in zip(names, pair, strict=True) if reason != ESTIMABLE)
        for pair in zip(*reasons, strict=True)
    ]
    return np.array(lines, dtype=np.str_)
