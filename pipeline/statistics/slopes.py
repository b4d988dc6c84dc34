"""Normalised label slopes (Joo & Kärkkäinen 2020) with intervals and tests over photos."""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import stdtr

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats, check_count, check_level
from pipeline.statistics.inference import RESAMPLES, Spread, Units
from pipeline.statistics.multiplicity import within_families
from pipeline.statistics.photo_slopes import (
    ESTIMABLE,
    NOISE,
    Part,
    blocks,
    counted,
    label_frame,
    photo_slopes,
    slope_unit,
    stacked,
    units_of,
)
from pipeline.statistics.sweep_tables import sweeps_of
from pipeline.statistics.sweeps import Sweeps

# Responses in a block where resamples are drawn again for every block, which then dominates the time.
LARGE_BLOCK_CELLS = 2**28
INNER_REACH = 1.0  # faces of photos lie within |a| <= 1; beyond are counterfactuals only

SLOPE_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "photos", "count_centre", "y_c"),
    *("slope", "slope_low", "slope_high", "p", "q", "permutation_p", "ols_p"),
    *("rd_slope", "rd_low", "rd_high", "bootstrap_low", "bootstrap_high"),
    *("inner_slope", "inner_low", "inner_high", "inner_p", "estimable", "reason", "family", "tested"),
)
CURVE_COLUMNS = ("adapter", "attribute", "arm", "label", "value", "y", "z", "z_low", "z_high")


def ols(y: Floats, values: Floats) -> tuple[Floats, Floats]:
    """Slope of each row of ``y`` on ``values`` and its p by ordinary least squares, K - 2 degrees of freedom.

    This is the papers' test. The K means share their photos, so it rejects a true null far too often when every photo
    reacts smoothly but differently. p does not change when a row is divided by a constant. The closed form handles
    thousands of labels at once; statsmodels fits them one by one (a test compares the two).

    Args:
        y: ``(L, K)``.
        values: ``(K,)``.

    Returns:
        slope and p, ``(L,)``. A constant row has slope 0 and p NaN; a row exactly on a line has p 0.
    """
    a = values - values.mean()
    spread, freedom = a @ a, y.shape[1] - 2
    centred = y - y.mean(axis=1, keepdims=True)
    noise = NOISE * np.abs(y).max(axis=1, initial=0)
    constant = np.abs(centred).max(axis=1, initial=0) <= noise
    slope = np.where(constant, 0.0, centred @ a / spread)
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
    advance: Callable[[int], None] = lambda _: None,
) -> pd.DataFrame:
    """Slopes of every label of one adapter, attribute and arm, with ``SLOPE_COLUMNS``; NaN where not estimable.

    With y_ik the response to photo i at step k, y_k its mean over photos, c = (K + 1) / 2 and z_k = y_k / y_c, the
    slope is that of the least-squares line of z on a. It equals the mean of the photos' own slopes b_i divided by y_c;
    p and intervals follow from the variation of b_i and y_ic between photos. All numbers of a label except q
    (Benjamini-Hochberg over the labels of this table) are independent of the other labels.

    ``slope`` is of z = y / y_c on a, with Fieller's interval, a bootstrap interval, p of the t test and
    ``permutation_p`` of the sign-flip test over photos. ``ols_p`` is the papers' p, of OLS on the K points, and not
    reliable (see ``ols``). ``rd_slope`` is of y on a, with its t interval; ``inner_slope`` is of z over |a| <= 1.

    Args:
        sweeps: the responses.
        min_count: y_c * n below which a label is too rare.
        resamples: number R of bootstrap resamples and of sign flips.
        seed: of both; the same seed gives the same bytes.
        level: of the intervals, 0-1.
        clusters: photo -> cluster (e.g. the person) if photos are not independent; clusters are then resampled.
        block: labels handled at a time; bounds the memory and changes no result.
        advance: called with the number of labels done since the last call.

    Raises:
        ValueError: ``clusters`` lacks a photo, or an option is out of range.
    """
    check_level(level)
    check_count(resamples, "resamples", least=1)
    units, rates, reasons = counted(sweeps, min_count=min_count, clusters=clusters)
    estimable = np.flatnonzero(reasons == ESTIMABLE)

    def parts(block: int | None) -> Iterator[Part]:
        counts = inference.bootstrap_draws(units, resamples=resamples, seed=seed)
        flips = inference.sign_flips(units, resamples=resamples, seed=seed)
        yield estimable, {"ols_p": ols(rates[estimable], sweeps.values)[1]}
        if block is None and isinstance(counts, inference.Draws):  # drawn again for every block
            block = max(1, LARGE_BLOCK_CELLS // (len(sweeps.photos) * len(sweeps.values)))
        for rows in blocks(estimable, photos=len(sweeps.photos), size=block):
            yield rows, _block(sweeps.block(rows), sweeps.values, units, counts=counts, flips=flips, level=level)
            advance(len(rows))

    y_c = rates[:, len(sweeps.values) // 2]
    known = {"y_c": y_c, "count_centre": y_c * len(sweeps.photos)}
    frame = label_frame(sweeps, SLOPE_COLUMNS, reasons, parts(block) if len(estimable) else (), **known)
    advance(len(sweeps.labels) - len(estimable))
    return within_families(frame, by=("adapter", "attribute"))


def slope_frame(sweeps: Sequence[Sweeps], *, family: Sequence[str] = (), **options: Any) -> pd.DataFrame:
    """Slopes of many sweeps: a row per adapter, attribute, arm and label, with ``SLOPE_COLUMNS``.

    q is Benjamini-Hochberg within a declared family, described by the columns ``family`` and ``tested``.

    Args:
        sweeps: of any adapters, attributes and arms.
        family: columns that, with the arm, declare a family, such as adapter and attribute; by default a family is all
            labels tested in an arm.
        **options: of ``slope_table``.

    Raises:
        ValueError: as ``slope_table``, or an unknown column in ``family``.
    """
    frames = [slope_table(each, **options) for each in sweeps if each.labels]
    return within_families(stacked(frames, SLOPE_COLUMNS), by=family)


def slopes_of(
    labels: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    presence: float | Mapping[str, float] = 0.5,
    confidence: bool = False,
    **options: Any,
) -> pd.DataFrame:
    """Slopes of a run: ``slope_frame`` of ``sweeps_of`` its tables, with the arguments and errors of both."""
    return slope_frame(sweeps_of(labels, answers, presence=presence, confidence=confidence), **options)


def curve_frame(
    sweeps: Sweeps,
    *,
    labels: Sequence[str] | None = None,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
) -> pd.DataFrame:
    """Rates y and normalised rates z against a, with Fieller's pointwise bands: the columns of ``CURVE_COLUMNS``.

    z is NaN where y_c = 0; the band is also NaN for fewer than two photos. At a = 0, z is 1 by definition.

    Args:
        sweeps: the responses.
        labels: default: all.
        level, clusters: as for ``slope_table``.

    Raises:
        KeyError: the sweeps lack a label.
    """
    row_of = {label: row for row, label in enumerate(sweeps.labels)}
    units, rates, steps = units_of(sweeps, clusters), sweeps.rates(), len(sweeps.values)
    frames = []
    for label in sweeps.labels if labels is None else labels:
        if label not in row_of:
            raise KeyError(f"no label {label!r} was returned by {sweeps.adapter!r}")
        y = rates[row_of[label]]
        z, low, high = np.full((3, steps), np.nan)
        if y[steps // 2] > 0:
            z = y / y[steps // 2]
            if len(units) > 1:
                sums = units.sums(sweeps.block([row_of[label]])[0])
                centre = Spread.of(sums[[steps // 2] * steps], units)
                low, high = inference.ratio_interval(Spread.of(sums, units), centre, units, level=level)
        curve = {"label": label, "value": sweeps.values, "y": y, "z": z, "z_low": low, "z_high": high}
        frames.append(pd.DataFrame({name: getattr(sweeps, name) for name in CURVE_COLUMNS[:3]} | curve))
    return stacked(frames, CURVE_COLUMNS)


def findings(
    frame: pd.DataFrame,
    *,
    max_p: float = 0.001,
    min_slope: float = 0.03,
    by: Literal["p", "q", "permutation_p", "ols_p"] = "p",
) -> pd.DataFrame:
    """Select the rows with p < ``max_p`` and |slope| > ``min_slope`` (the papers' rule).

    Where there are placebos, the slope must also exceed theirs: ``exceeds_placebos`` of ``with_placebos``. The column
    ``direction`` is -1 where the label rises towards the attribute's lower pole (perceived femininity, the race at -1)
    and +1 where it rises towards the higher one. Rows are sorted by adapter, attribute, arm, direction and descending
    |slope|.

    Args:
        frame: the result of ``slopes_of``.
        max_p, min_slope: exclusive limits of p and |slope|.
        by: the column that is compared with ``max_p``.
    """
    rows = frame[(frame[by] < max_p) & (frame["slope"].abs() > min_slope)]
    if "exceeds_placebos" in rows:
        rows = rows[rows["exceeds_placebos"].ne(False).to_numpy(dtype=bool)]
    rows = rows.assign(direction=np.sign(rows["slope"].astype(float)).astype(int), size=rows["slope"].abs())
    keys = ["adapter", "attribute", "arm", "direction", "size", "label"]
    ascending = [key != "size" for key in keys]
    return rows.sort_values(keys, ascending=ascending, ignore_index=True).drop(columns="size")


def _block(
    y: NDArray[Any],
    values: Floats,
    units: Units,
    *,
    counts: NDArray[np.float32] | inference.Draws,
    flips: NDArray[np.float32] | inference.Draws,
    level: float,
) -> dict[str, Floats]:
    """All columns that depend on the single photos, for a block ``(L, K, n)`` of labels."""
    centre, size = y.shape[1] // 2, units.sizes.sum()
    at_centre = units.sums(y[:, centre])
    bottom = Spread.of(at_centre, units)
    numbers: dict[str, Floats] = {}

    def add_interval(name: str, ends: tuple[Floats, Floats], margin: Floats) -> None:
        """Add both ends of an interval, widened by a margin and converted to slopes per unit of a."""
        numbers[f"{name}_low"], numbers[f"{name}_high"] = unit * (ends[0] - margin), unit * (ends[1] + margin)

    inner = int(np.count_nonzero((values > 0) & (values <= INNER_REACH * (1 + 1e-9))))
    for name, reach in (("slope", centre), ("inner", inner)):
        if not reach:
            continue
        sums = units.sums(photo_slopes(y, reach=reach))
        top, unit = Spread.of(sums, units), slope_unit(values, reach=reach)
        # If all photos agree, the intervals allow for photos outside the sample. Responses lie in 0-1, so the slope of
        # such a photo can differ from the common one by at most this.
        largest = reach * (reach + 1) / 2 + np.abs(top.total / size)
        unseen = inference.unseen_reach(top, units, largest=largest, level=level)
        relative = unseen / (bottom.total / size)
        numbers["slope" if name == "slope" else "inner_slope"] = unit * top.total / bottom.total
        numbers["p" if name == "slope" else "inner_p"] = inference.t_test(top, units)
        add_interval(name, inference.ratio_interval(top, bottom, units, level=level), relative)
        if name == "slope":
            numbers["permutation_p"] = inference.sign_flip_test(sums, flips)
            numbers["rd_slope"] = unit * top.total / size
            add_interval("rd", inference.mean_interval(top, units, level=level), unseen)
            add_interval("bootstrap", inference.percentile_interval(sums, at_centre, counts, level=level), relative)
    return numbers
