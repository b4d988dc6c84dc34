"""Two sweeps of the same photos compared, photo by photo: of two runs, of two adapters, of an edit and its placebo.

Slopes of groups of photos within one sweep are compared in ``subgroups``.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import Estimate, Ratio
from pipeline.statistics.multiplicity import benjamini_hochberg, within_families
from pipeline.statistics.photo_slopes import (
    CONSTANT,
    ESTIMABLE,
    TOO_RARE,
    blocks,
    reasons_of,
    slopes_and_centre,
    stacked,
    units_of,
)
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


@dataclass(frozen=True, eq=False, kw_only=True)
class SlopeDifference:
    """Two slopes of each of ``L`` labels, and their difference; NaN where either is not estimable."""

    slopes: Floats  # of z on a in the two, (2, L)
    difference: Estimate  # first less second, with its t interval
    p: Floats  # of no difference
    risk_difference: Estimate  # the same for the slopes of y on a, which do not divide by y_c
    rd_p: Floats  # its p

    def columns(self, first: str, second: str) -> dict[str, Any]:
        """Its columns of a frame; ``first`` and ``second`` are what the two slopes are called."""
        names = ("difference", "difference_low", "difference_high", "p", "rd_difference", "rd_low", "rd_high", "rd_p")
        ends, rd_ends = vars(self.difference).values(), vars(self.risk_difference).values()
        slopes = {f"{first}_slope": self.slopes[0], f"{second}_slope": self.slopes[1]}
        return slopes | dict(zip(names, (*ends, self.p, *rd_ends, self.rd_p), strict=True))


def fields_of(found: Floats) -> dict[str, Any]:
    """The fields of a ``SlopeDifference`` from what ``differ`` gives."""
    estimates = {"difference": Estimate(*found[2:5]), "risk_difference": Estimate(*found[6:9])}
    return {"slopes": found[:2], "p": found[5], "rd_p": found[9], **estimates}


def differ(first: tuple[Ratio, Ratio], second: tuple[Ratio, Ratio], *, level: float) -> Floats:
    """``(10, L)`` slopes of z of the two, their difference, its ends and p; the last four again for the slopes of y."""
    (slope, mean), (other, other_mean) = first, second
    of_slopes = inference.difference(slope, other, level=level)
    return np.stack([slope.value, other.value, *of_slopes, *inference.difference(mean, other_mean, level=level)])


@dataclass(frozen=True, eq=False, kw_only=True)
class Comparison(SlopeDifference):
    """Slopes of ``L`` labels in two sweeps of the same photos; NaN where either is not estimable."""

    # attribute, arm: what was changed, and the arm of the first
    attribute: str
    arm: str
    names: tuple[str, str]  # what the two are called
    labels: tuple[str, ...]  # every label that either returned, sorted
    photos: tuple[str, ...]  # the photos with a complete sweep in both; all numbers are of these
    # only_first, only_second: photos that the other lacks
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]
    rates: Floats  # y_c of the two, (2, L)
    q: Floats  # Benjamini-Hochberg over the labels of this comparison
    reason: NDArray[np.str_]  # which of the two is not estimable, and why; empty where both are

    def to_frame(self) -> pd.DataFrame:
        """One row a label, the columns of ``COMPARISON_COLUMNS``."""
        columns = {
            **{"attribute": self.attribute, "arm": self.arm, "first": self.names[0], "second": self.names[1]},
            **{"label": list(self.labels), "photos": len(self.photos)},
            **{"first_y_c": self.rates[0], "second_y_c": self.rates[1], **self.columns("first", "second")},
            **{"estimable": self.reason == ESTIMABLE, "reason": self.reason.tolist()},
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
    second_still: bool = False,
) -> Comparison:
    """The difference of each label's slope between two sweeps of the same photos, paired by photo.

    Both slopes are estimated anew on the photos that both have. The interval is the t interval of the linearised
    difference (``inference.difference``): what both see in a photo cancels out, so it is narrower than the two
    slopes' own intervals suggest, and a sweep compared with itself differs by exactly 0.

    Args:
        first, second: the responses; of the same attribute values.
        names: what they are called.
        min_count: y_c * n below which a label is too rare in either.
        level, clusters, block: as for ``slope_table``.
        second_still: a label that is constant or rare in the second is no reason to leave it out: its slope there is
            what it is.

    Raises:
        ValueError: the sweeps have other values or another response, or ``clusters`` lacks a photo.
    """
    _check_alike(first, second, names)
    known = set(second.photos)
    photos = [photo for photo in first.photos if photo in known]
    labels = sorted({*first.labels, *second.labels})
    both = [sweeps.of_photos(photos).of_labels(labels) for sweeps in (first, second)]
    units, rates = units_of(both[0], clusters), [sweeps.rates() for sweeps in both]
    each = [reasons_of(rate, photos=len(photos), units=len(units), min_count=min_count) for rate in rates]
    if second_still:
        each[1] = np.where(np.isin(each[1], (CONSTANT, TOO_RARE)), ESTIMABLE, each[1])
    reason = _joined(each, names)
    found = np.full((10, len(labels)), np.nan)
    for rows in blocks(np.flatnonzero(reason == ESTIMABLE), photos=len(photos), size=block):
        sums = [[units.sums(part) for part in slopes_and_centre(sweeps, rows)] for sweeps in both]
        one, two = ((Ratio.of(top, centre), Ratio.of(top, units.sizes[None])) for top, centre in sums)
        found[:, rows] = differ(one, two, level=level)
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
        q=benjamini_hochberg(found[5]),
        reason=reason,
        **fields_of(found),
    )


def comparison_frame(comparisons: Sequence[Comparison], *, family: Sequence[str] = ()) -> pd.DataFrame:
    """Many comparisons as one frame; q over the declared family, by default all labels compared in an arm.

    Args:
        comparisons: of any attributes, arms and adapters.
        family: columns in which the labels of one family agree, next to the arm.
    """
    return within_families(stacked([each.to_frame() for each in comparisons], COMPARISON_COLUMNS), by=family)


def _check_alike(first: Sweeps, second: Sweeps, names: tuple[str, str]) -> None:
    """Refuse sweeps that cannot be compared."""
    words = {"first": names[0], "second": names[1]}
    if first.confidence != second.confidence:
        raise ValueError(OTHER_RESPONSE.format(**words))
    if first.values.shape != second.values.shape or not np.allclose(first.values, second.values, rtol=0, atol=1e-6):
        values = [", ".join(f"{value:g}" for value in sweeps.values) for sweeps in (first, second)]
        raise ValueError(OTHER_VALUES.format(**words, first_values=values[0], second_values=values[1]))


def _joined(reasons: Sequence[NDArray[np.str_]], names: tuple[str, str]) -> NDArray[np.str_]:
    """``(L,)`` the reasons of both sides, each with the side's name."""
    lines = [
        "; ".join(f"{name}: {reason}" for name, reason in zip(names, pair, strict=True) if reason != ESTIMABLE)
        for pair in zip(*reasons, strict=True)
    ]
    return np.array(lines, dtype=np.str_)


def _without(sweeps: Sweeps, photos: Sequence[str]) -> tuple[str, ...]:
    paired = set(photos)
    return tuple(photo for photo in (*sweeps.photos, *sweeps.incomplete) if photo not in paired)
