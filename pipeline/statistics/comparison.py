"""Two sweeps of the same photos compared, photo by photo: of two runs, of two adapters, of an edit and its placebo.

Slopes of groups of photos within one sweep are compared in ``subgroups``.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import Ratio
from pipeline.statistics.multiplicity import benjamini_hochberg, within_families
from pipeline.statistics.photo_slopes import ESTIMABLE, blocks, reasons_of, slopes_and_centre, units_of
from pipeline.statistics.slopes import Estimate
from pipeline.statistics.sweeps import Sweeps

OTHER_VALUES = (
    "the column 'value' of {first} holds {first_values}, that of {second} {second_values}: not the same sweep"
)
OTHER_RESPONSE = "{first} and {second} must both be presence or both be confidence"
COMPARISON_COLUMNS = (
    *("attribute", "arm", "first", "second", "label", "photos", "first_y_c", "second_y_c"),
    *("first_slope", "second_slope", "difference", "difference_low", "difference_high", "p", "q"),
    *("rd_difference", "rd_low", "rd_high", "rd_p", "estimable", "reason", "family", "tested"),
)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Slopes of ``L`` labels in two sweeps of the same photos; NaN where either is not estimable.

    Attributes:
        attribute: what was changed.
        arm: of the first.
        names: what the two are called.
        labels: every label that either returned, sorted.
        photos: the photos with a complete sweep in both; all numbers are of these.
        only_first: photos that the second lacks.
        only_second: photos that the first lacks.
        rates: y_c of the two, ``(2, L)``.
        slopes: of z on a, ``(2, L)``.
        difference: first slope - second, with its paired t interval.
        p: of no difference.
        q: Benjamini-Hochberg over the labels of this comparison.
        risk_difference: the same for the slopes of y on a, which do not divide by y_c.
        rd_p: its p.
        reason: which of the two is not estimable, and why; empty where both are.
    """

    attribute: str
    arm: str
    names: tuple[str, str]
    labels: tuple[str, ...]
    photos: tuple[str, ...]
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    rates: Floats
    slopes: Floats
    difference: Estimate
    p: Floats
    q: Floats
    risk_difference: Estimate
    rd_p: Floats
    reason: NDArray[np.str_]

    def to_frame(self) -> pd.DataFrame:
        """One row a label, the columns of ``COMPARISON_COLUMNS``."""
        columns = {
            "attribute": self.attribute,
            "arm": self.arm,
            "first": self.names[0],
            "second": self.names[1],
            "label": list(self.labels),
            "photos": len(self.photos),
            "first_y_c": self.rates[0],
            "second_y_c": self.rates[1],
            "first_slope": self.slopes[0],
            "second_slope": self.slopes[1],
            "difference": self.difference.value,
            "difference_low": self.difference.low,
            "difference_high": self.difference.high,
            "p": self.p,
            "q": self.q,
            "rd_difference": self.risk_difference.value,
            "rd_low": self.risk_difference.low,
            "rd_high": self.risk_difference.high,
            "rd_p": self.rd_p,
            "estimable": self.reason == ESTIMABLE,
            "reason": self.reason.tolist(),
        }
        frame = pd.DataFrame(columns, columns=list(COMPARISON_COLUMNS), index=range(len(self.labels)))
        return within_families(frame, by=("first", "second", "attribute"))


def compare(
    first: Sweeps,
    second: Sweeps,
    *,
    names: tuple[str, str] = ("first", "second"),
    min_count: float = 30,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
    block: int | None = None,
) -> Comparison:
    """The difference of each label's slope between two sweeps of the same photos, paired by photo.

    Both slopes are estimated anew on the photos that both have. The interval is the t interval of the linearised
    difference (``inference.difference``): what both see in a photo cancels out, so it is narrower than the two
    slopes' own intervals suggest, and a sweep compared with itself differs by exactly 0.

    Args:
        first: the responses of one.
        second: of the other; the same attribute values.
        names: what they are called.
        min_count: y_c * n below which a label is too rare in either.
        level: of the intervals, 0-1.
        clusters: photo -> cluster, as for ``slope_table``.
        block: labels handled at a time; changes no result.

    Raises:
        ValueError: the sweeps have other values or another response, or ``clusters`` lacks a photo.
    """
    _check_alike(first, second, names)
    known = set(second.photos)
    photos = [photo for photo in first.photos if photo in known]
    labels = sorted({*first.labels, *second.labels})
    both = [sweeps.of_photos(photos).of_labels(labels) for sweeps in (first, second)]
    units = units_of(both[0], clusters)
    rates = [sweeps.rates() for sweeps in both]
    each = [reasons_of(rate, photos=len(photos), units=len(units), min_count=min_count) for rate in rates]
    reason = _joined(each, names)
    numbers = {name: np.full(len(labels), np.nan) for name in _COMPUTED}
    for rows in blocks(np.flatnonzero(reason == ESTIMABLE), photos=len(photos), size=block):
        sums = [[units.sums(part) for part in slopes_and_centre(sweeps, rows)] for sweeps in both]
        slopes = [Ratio.of(top, centre) for top, centre in sums]
        means = [Ratio.of(top, units.sizes[None]) for top, _ in sums]
        computed = (
            *(slope.value for slope in slopes),
            *inference.difference(*slopes, level=level),
            *inference.difference(*means, level=level),
        )
        for name, column in zip(_COMPUTED, computed, strict=True):
            numbers[name][rows] = column
    centre = len(first.values) // 2
    return Comparison(
        attribute=first.attribute,
        arm=first.arm,
        names=names,
        labels=tuple(labels),
        photos=tuple(photos),
        only_first=_without(first, photos),
        only_second=_without(second, photos),
        rates=np.stack([rate[:, centre] for rate in rates]),
        slopes=np.stack([numbers["first"], numbers["second"]]),
        difference=Estimate(numbers["difference"], numbers["low"], numbers["high"]),
        p=numbers["p"],
        q=benjamini_hochberg(numbers["p"]),
        risk_difference=Estimate(numbers["rd"], numbers["rd_low"], numbers["rd_high"]),
        rd_p=numbers["rd_p"],
        reason=reason,
    )


def comparison_frame(comparisons: Sequence[Comparison], *, family: Sequence[str] = ()) -> pd.DataFrame:
    """Many comparisons as one frame; q over the declared family, by default all labels compared in an arm.

    Args:
        comparisons: of any attributes, arms and adapters.
        family: columns in which the labels of one family agree, next to the arm.
    """
    frames = [comparison.to_frame() for comparison in comparisons if comparison.labels]
    frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=list(COMPARISON_COLUMNS))
    return within_families(frame, by=family)


_COMPUTED = ("first", "second", "difference", "low", "high", "p", "rd", "rd_low", "rd_high", "rd_p")


def _check_alike(first: Sweeps, second: Sweeps, names: tuple[str, str]) -> None:
    if first.confidence != second.confidence:
        raise ValueError(OTHER_RESPONSE.format(first=names[0], second=names[1]))
    if first.values.shape != second.values.shape or not np.allclose(first.values, second.values, rtol=0, atol=1e-6):
        values = [", ".join(f"{value:g}" for value in sweeps.values) for sweeps in (first, second)]
        raise ValueError(
            OTHER_VALUES.format(first=names[0], second=names[1], first_values=values[0], second_values=values[1])
        )


def _joined(reasons: Sequence[NDArray[np.str_]], names: tuple[str, str]) -> NDArray[np.str_]:
    lines = [
        "; ".join(f"{name}: {reason}" for name, reason in zip(names, pair, strict=True) if reason != ESTIMABLE)
        for pair in zip(*reasons, strict=True)
    ]
    return np.array(lines, dtype=np.str_)


def _without(sweeps: Sweeps, photos: Sequence[str]) -> tuple[str, ...]:
    paired = set(photos)
    return tuple(photo for photo in (*sweeps.photos, *sweeps.incomplete) if photo not in paired)
