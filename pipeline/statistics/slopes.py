"""Normalised label slopes (Joo & Kärkkäinen 2020) with honest uncertainty: how each label moves with the attribute.

How sure they are is computed by ``inference``, the arrays come from ``sweeps``; tables to print are the report's.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats, check_count, check_level
from pipeline.statistics.inference import RESAMPLES, Spread, Units
from pipeline.statistics.multiplicity import benjamini_hochberg, within_families
from pipeline.statistics.photo_slopes import (
    ESTIMABLE,
    NOISE,
    blocks,
    photo_slopes,
    reasons_of,
    slope_unit,
    units_of,
)
from pipeline.statistics.sweeps import Sweeps, sweeps_of

INNER_REACH = 1.0  # the labels of photos lie within; a face further out exists as a counterfactual only

SLOPE_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "photos", "count_centre", "y_c"),
    *("slope", "slope_low", "slope_high", "p", "q", "permutation_p", "ols_p"),
    *("rd_slope", "rd_low", "rd_high", "bootstrap_low", "bootstrap_high"),
    *("inner_slope", "inner_low", "inner_high", "inner_p", "estimable", "reason", "family", "tested"),
)


@dataclass(frozen=True, eq=False)
class Estimate:
    """Numbers with the ends of their intervals; each ``(L,)``, NaN where not estimable."""

    value: Floats
    low: Floats
    high: Floats


@dataclass(frozen=True, eq=False)
class SlopeTable:
    """Slopes of the ``L`` labels of one adapter, attribute and arm; NaN where not estimable.

    Attributes:
        adapter: the classifier.
        attribute: what was changed.
        arm: "edit", or the placebo's name.
        labels: names.
        photos: n, the photos with a complete sweep.
        rates: ``(L, K)`` y_k.
        slope: of z = y / y_c on a, per unit of a, with Fieller's interval.
        p: of the t test over photos that the slope is 0.
        q: Benjamini-Hochberg over the labels of this table.
        permutation_p: of the sign-flip test over photos.
        ols_p: the seed's own p, of OLS on the K points (K - 2 degrees of freedom); not to be relied on, see ``ols``.
        risk_difference: slope of y on a, with its t interval.
        bootstrap: ``slope`` with the bootstrap's percentile interval.
        inner: slope of z on a over |a| <= 1, with Fieller's interval.
        inner_p: of the t test over photos that the inner slope is 0.
        reason: why a label is not estimable; empty where it is.
    """

    adapter: str
    attribute: str
    arm: str
    labels: tuple[str, ...]
    photos: int
    rates: Floats
    slope: Estimate
    p: Floats
    q: Floats
    permutation_p: Floats
    ols_p: Floats
    risk_difference: Estimate
    bootstrap: Estimate
    inner: Estimate
    inner_p: Floats
    reason: NDArray[np.str_]

    def to_frame(self) -> pd.DataFrame:
        """One row a label, the columns of ``SLOPE_COLUMNS``."""
        y_c = self.rates[:, self.rates.shape[1] // 2]
        columns = {
            "adapter": self.adapter,
            "attribute": self.attribute,
            "arm": self.arm,
            "label": list(self.labels),
            "photos": self.photos,
            "count_centre": y_c * self.photos,
            "y_c": y_c,
            "slope": self.slope.value,
            "slope_low": self.slope.low,
            "slope_high": self.slope.high,
            "p": self.p,
            "q": self.q,
            "permutation_p": self.permutation_p,
            "ols_p": self.ols_p,
            "rd_slope": self.risk_difference.value,
            "rd_low": self.risk_difference.low,
            "rd_high": self.risk_difference.high,
            "bootstrap_low": self.bootstrap.low,
            "bootstrap_high": self.bootstrap.high,
            "inner_slope": self.inner.value,
            "inner_low": self.inner.low,
            "inner_high": self.inner.high,
            "inner_p": self.inner_p,
            "estimable": self.reason == ESTIMABLE,
            "reason": self.reason.tolist(),
        }
        frame = pd.DataFrame(columns, columns=list(SLOPE_COLUMNS), index=range(len(self.labels)))
        return within_families(frame, by=("adapter", "attribute"))


def ols(y: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Slope of each row of ``y`` on ``values`` and its p by ordinary least squares, K - 2 degrees of freedom.

    The seed's own test. The K means share their photos, so it rejects a true null far too often when every photo
    reacts smoothly but differently. p does not change when a row is divided by a constant.

    Args:
        y: ``(L, K)``.
        values: ``(K,)``.

    Returns:
        slope and p, ``(L,)``. A constant row has slope 0 and p NaN, never a p from rounding noise; a row exactly on a
        line has p 0.
    """
    a = values - values.mean()
    spread = a @ a
    centred = y - y.mean(axis=1, keepdims=True)
    noise = NOISE * np.abs(y).max(axis=1, initial=0)
    constant = np.abs(centred).max(axis=1, initial=0) <= noise
    slope = np.where(constant, 0.0, centred @ a / spread)
    freedom = y.shape[1] - 2
    deviation = np.sqrt(((centred - slope[:, None] * a) ** 2).sum(axis=1) / freedom)
    on_a_line = deviation <= noise
    t = slope * np.sqrt(spread) / np.where(on_a_line, 1.0, deviation)
    p = np.where(on_a_line, 0.0, 2 * stdtr(freedom, -np.abs(t)))
    return slope, np.where(constant, np.nan, p)


def slope_table(
    sweeps: Sweeps,
    *,
    min_count: float = 30,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
    block: int | None = None,
) -> SlopeTable:
    """Slopes of every label of one adapter, attribute and arm.

    With y_ik the response to photo i at step k, y_k its mean over photos, c = (K + 1) / 2 and z_k = y_k / y_c, the
    slope is that of the least-squares line of z on a. It equals the mean of the photos' own slopes b_i divided by y_c;
    p and intervals come from how b_i and y_ic vary between photos. They speak of the population of faces that the
    photos stand for. All numbers of a label but q do not depend on the other labels.

    Args:
        sweeps: the responses.
        min_count: y_c * n below which a label is too rare.
        resamples: bootstrap resamples and sign flips, R.
        seed: of both; the same seed gives the same bytes.
        level: of the intervals, 0-1.
        clusters: photo -> cluster (e.g. the person), where photos are not independent; resampled in the photos' place.
        block: labels handled at a time; bounds the memory and changes no result.

    Raises:
        ValueError: ``clusters`` lacks a photo, or an option is out of range.
    """
    check_level(level)
    check_count(resamples, "resamples", least=1)
    units = units_of(sweeps, clusters)
    rates = sweeps.rates()
    reasons = reasons_of(rates, photos=len(sweeps.photos), units=len(units), min_count=min_count)
    estimable = np.flatnonzero(reasons == ESTIMABLE)
    columns = {name: np.full(len(sweeps.labels), np.nan) for name in _COMPUTED}
    if len(estimable):
        counts = inference.bootstrap_counts(units, resamples=resamples, seed=seed).astype(np.float32)
        flips = inference.sign_flips(units, resamples=resamples, seed=seed)
        columns["ols_p"][estimable] = ols(rates[estimable], sweeps.values)[1]
        for rows in blocks(estimable, photos=len(sweeps.photos), size=block):
            numbers = _block(sweeps.block(rows), sweeps.values, units, counts=counts, flips=flips, level=level)
            for name, column in numbers.items():
                columns[name][rows] = column
    return SlopeTable(
        adapter=sweeps.adapter,
        attribute=sweeps.attribute,
        arm=sweeps.arm,
        labels=sweeps.labels,
        photos=len(sweeps.photos),
        rates=rates,
        slope=Estimate(columns["slope"], columns["slope_low"], columns["slope_high"]),
        p=columns["p"],
        q=benjamini_hochberg(columns["p"]),
        permutation_p=columns["permutation_p"],
        ols_p=columns["ols_p"],
        risk_difference=Estimate(columns["rd_slope"], columns["rd_low"], columns["rd_high"]),
        bootstrap=Estimate(columns["slope"], columns["bootstrap_low"], columns["bootstrap_high"]),
        inner=Estimate(columns["inner_slope"], columns["inner_low"], columns["inner_high"]),
        inner_p=columns["inner_p"],
        reason=reasons,
    )


def slope_frame(
    sweeps: Sequence[Sweeps],
    *,
    family: Sequence[str] = (),
    min_count: float = 30,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
) -> pd.DataFrame:
    """Slopes of many sweeps: one row for every adapter, attribute, arm and label, the columns of ``SLOPE_COLUMNS``.

    q is Benjamini-Hochberg within a declared family, which the columns ``family`` and ``tested`` name and count.
    By default it is all labels tested in an arm, of all adapters and attributes: a run's edits are one
    family, each kind of placebo is another.

    Args:
        sweeps: of any adapters, attributes and arms.
        family: columns in which the labels of one family agree, such as adapter and attribute; the arm always is one.
        min_count, resamples, seed, level, clusters: as for ``slope_table``.

    Raises:
        ValueError: as ``slope_table``; and a column of ``family`` that there is not.
    """
    tables = [
        slope_table(
            each, min_count=min_count, resamples=resamples, seed=seed, level=level, clusters=clusters
        ).to_frame()
        for each in sweeps
        if each.labels
    ]
    frame = pd.concat(tables, ignore_index=True) if tables else pd.DataFrame(columns=list(SLOPE_COLUMNS))
    return within_families(frame, by=family)


def slopes_of(
    labels: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    presence: float | Mapping[str, float] = 0.5,
    confidence: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Slopes of a whole run: ``slope_frame`` of ``sweeps_of`` its tables. Arguments and errors are those of the two."""
    return slope_frame(sweeps_of(labels, answers, presence=presence, confidence=confidence), **options)


def findings(
    frame: pd.DataFrame,
    *,
    max_p: float = 0.001,
    min_slope: float = 0.03,
    by: Literal["p", "q", "permutation_p", "ols_p"] = "p",
) -> pd.DataFrame:
    """The rows with p < ``max_p`` and |slope| > ``min_slope`` (the seed's rule), largest |slope| first.

    A column ``direction`` is added: -1 where the label rises with perceived femininity or towards the race at -1,
    +1 where it rises with perceived masculinity or towards the race at +1. Rows are sorted by adapter, attribute,
    arm and direction first.

    Args:
        frame: as ``slopes_of`` gives it.
        max_p: largest p.
        min_slope: smallest |slope|.
        by: the column that is compared with ``max_p``.
    """
    called = frame[(frame[by] < max_p) & (frame["slope"].abs() > min_slope)]
    called = called.assign(direction=np.sign(called["slope"].astype(float)).astype(int), size=called["slope"].abs())
    keys = ["adapter", "attribute", "arm", "direction", "size", "label"]
    ascending = [key != "size" for key in keys]
    return called.sort_values(keys, ascending=ascending, ignore_index=True).drop(columns="size")


_COMPUTED = (
    *("slope", "slope_low", "slope_high", "p", "permutation_p", "ols_p", "rd_slope", "rd_low", "rd_high"),
    *("bootstrap_low", "bootstrap_high", "inner_slope", "inner_low", "inner_high", "inner_p"),
)


def _block(
    y: NDArray[Any],
    values: Floats,
    units: Units,
    *,
    counts: NDArray[np.float32],
    flips: NDArray[np.float32],
    level: float,
) -> dict[str, Floats]:
    """All numbers that need the photos one by one, for a ``(L, K, n)`` block of labels."""
    centre = y.shape[1] // 2
    at_centre = units.sums(y[:, centre])
    whole = units.sums(photo_slopes(y, reach=centre))
    bottom, top = Spread.of(at_centre, units), Spread.of(whole, units)
    unit = slope_unit(values, reach=centre)
    mean = bottom.total / units.sizes.sum()
    # Where all photos agree, the intervals allow for photos that were not seen; the responses lie in 0-1.
    unseen = inference.unseen_reach(top, units, largest=_largest(centre, top, units), level=level)
    numbers = {
        "slope": unit * top.total / bottom.total,
        "p": inference.t_test(top, units),
        "permutation_p": inference.sign_flip_test(whole, flips),
        "rd_slope": unit * top.total / units.sizes.sum(),
    }
    ends = {
        "slope": (inference.ratio_interval(top, bottom, units, level=level), unseen / mean),
        "rd": (inference.mean_interval(top, units, level=level), unseen),
        "bootstrap": (inference.percentile_interval(whole, at_centre, counts, level=level), unseen / mean),
    }
    numbers |= _widened(ends, unit)
    reach = int(np.count_nonzero((values > 0) & (values <= INNER_REACH * (1 + 1e-9))))
    if reach:
        inner = Spread.of(units.sums(photo_slopes(y, reach=reach)), units)
        unit = slope_unit(values, reach=reach)
        unseen = inference.unseen_reach(inner, units, largest=_largest(reach, inner, units), level=level)
        numbers["inner_slope"] = unit * inner.total / bottom.total
        numbers |= _widened(
            {"inner": (inference.ratio_interval(inner, bottom, units, level=level), unseen / mean)}, unit
        )
        numbers["inner_p"] = inference.t_test(inner, units)
    return numbers


def _largest(reach: int, top: Spread, units: Units) -> Floats:
    """``(L,)`` how far a photo's slope over ``2 reach + 1`` steps can be from the one that all have, in its unit."""
    largest: Floats = reach * (reach + 1) / 2 + np.abs(top.total / units.sizes.sum())
    return largest


def _widened(ends: Mapping[str, tuple[tuple[Floats, Floats], Floats]], unit: float) -> dict[str, Floats]:
    """Both ends of named intervals, per unit of a, with what is added to either side."""
    return {
        f"{name}_{side}": unit * (interval[place] + sign * more)
        for name, (interval, more) in ends.items()
        for place, (side, sign) in enumerate((("low", -1), ("high", 1)))
    }
