"""How many photos a run needs, for narrow intervals and to find slopes of a given size, from a pilot's spread.

The slopes of the pilot itself live in ``slopes``.
"""

from collections.abc import Callable, Hashable, Mapping

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from pipeline.statistics.arrays import Floats, check_level
from pipeline.statistics.inference import Ratio
from pipeline.statistics.photo_slopes import ESTIMABLE, blocks, counted, label_frame, slopes_and_centre
from pipeline.statistics.sweeps import Sweeps

POWER_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "photos", "y_c", "spread", "width", "photos_for_width"),
    *("photos_to_detect", "detectable", "estimable", "reason"),
)
MOST_UNITS = 2**40


def power_table(
    sweeps: Sweeps,
    *,
    width: float = 0.05,
    slope: float = 0.03,
    power: float = 0.8,
    max_p: float = 0.001,
    level: float = 0.95,
    min_count: float = 30,
    clusters: Mapping[str, Hashable] | None = None,
    block: int | None = None,
) -> pd.DataFrame:
    """Photos that every label of a pilot needs, if further photos vary as the pilot's do: ``POWER_COLUMNS``.

    ``photos_for_width`` are those for an interval of the target width, ``width`` is the pilot's own by the same
    formula; ``photos_to_detect`` those to find a slope of the target size with the target power, ``detectable`` is the
    smallest |slope| that the pilot's photos find; ``spread`` is the slope's standard deviation from photo to photo.

    With s the spread, an interval's width is ``2 t s / sqrt(n)``. A slope b of z is found by the t test of the photos'
    own slopes, with the mean ``b y_c``: ``sqrt(n) |b| y_c / s_y = t(1 - max_p / 2) + t(power)``, s_y being the spread
    of the slope of y. Both t have n - 1 degrees of freedom; that stands for the noncentral t, from which the power of a
    few dozen photos differs by some hundredths. With clusters n counts them, and photos are counted at the
    pilot's photos a cluster. No label needs fewer photos than show it ``min_count`` times at a = 0.

    Args:
        sweeps: the pilot's responses.
        width: target, from end to end, of the interval of the slope of z.
        slope: |slope| to be found.
        power: probability to find it, 0-1.
        max_p: largest p that counts as found.
        level: of the interval, 0-1.
        min_count: y_c * n below which a label is too rare, in the pilot and later.
        clusters, block: as for ``slope_table``.

    Raises:
        ValueError: a target is not positive, or a probability not between 0 and 1.
    """
    for name, number in {"width": width, "slope": slope}.items():
        if not number > 0:
            raise ValueError(f"{name} must be greater than 0, not {number}")
    for name, number in {"power": power, "max_p": max_p, "level": level}.items():
        check_level(number, name)
    units, rates, reason = counted(sweeps, min_count=min_count, clusters=clusters)
    y_c = rates[:, len(sweeps.values) // 2]
    spread, spread_of_rate = np.full((2, len(sweeps.labels)), np.nan)
    for rows in blocks(np.flatnonzero(reason == ESTIMABLE), photos=len(sweeps.photos), size=block):
        top, centre = (units.sums(part) for part in slopes_and_centre(sweeps, rows))
        spread[rows] = Ratio.of(top, centre).error() * np.sqrt(len(units))
        spread_of_rate[rows] = Ratio.of(top, units.sizes[None]).error() * np.sqrt(len(units))
    each = len(sweeps.photos) / max(len(units), 1)  # photos of a unit
    rate = np.where(y_c > 0, y_c, np.nan)
    relative, least = spread_of_rate / rate, min_count / rate

    def photos(units_needed: Floats) -> Floats:
        wanted = np.maximum(np.ceil(units_needed * each), np.ceil(least * (1 - 1e-12)))
        return np.where(np.isnan(spread), np.nan, wanted)

    def reach(units: Floats) -> Floats:
        """Half an interval's width in standard errors."""
        return np.asarray(stdtrit(units - 1, (1 + level) / 2))

    def found(units: Floats) -> Floats:
        """How many standard errors a slope must be away from 0."""
        return np.asarray(stdtrit(units - 1, 1 - max_p / 2) + stdtrit(units - 1, power))

    here = np.full(len(sweeps.labels), float(max(len(units), 2)))
    return label_frame(
        sweeps,
        POWER_COLUMNS,
        reason,
        y_c=y_c,
        spread=spread * np.sqrt(each),
        width=2 * reach(here) * spread / np.sqrt(here),
        photos_for_width=photos(_fewest(spread, width / 2, reach)),
        photos_to_detect=photos(_fewest(relative, slope, found)),
        detectable=found(here) * relative / np.sqrt(here),
    )


def _fewest(spread: Floats, target: float, factor: Callable[[Floats], Floats]) -> Floats:
    """``(L,)`` smallest number of units G >= 2 with ``factor(G) spread / sqrt(G) <= target``, by bisection."""
    low, high = np.full(len(spread), 1.0), np.full(len(spread), float(MOST_UNITS))
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        enough = (factor(middle) * spread <= target * np.sqrt(middle)) & (middle >= 2)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
