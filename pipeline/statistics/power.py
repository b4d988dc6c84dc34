"""Number of photos needed for an interval of a given width and to detect a given slope, estimated from a pilot."""

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
MAX_UNITS = 2**40


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
    """Number of photos that every label needs, if further photos vary as the pilot's do: ``POWER_COLUMNS``.

    ``photos_for_width`` are needed for an interval of the target width; ``width`` is the pilot's own, by the same
    formula. ``photos_to_detect`` are needed to detect the target slope with the target power; ``detectable`` is the
    smallest |slope| that the pilot can detect. ``spread`` is the slope's standard deviation between photos.

    With s the spread, the width is ``2 t s / sqrt(n)``. A slope b of z is detected by the t test of the photos' own
    slopes, whose mean is ``b y_c``: ``sqrt(n) |b| y_c / s_y = t(1 - max_p / 2) + t(power)``, where s_y is the spread
    of the slope of y. Both t have n - 1 degrees of freedom; they approximate the noncentral t, with an error of the
    power of some hundredths at a few dozen photos. With clusters, n is their number, and the pilot's mean cluster size
    converts it to photos. Every label needs enough photos to be present ``min_count`` times at a = 0.

    Args:
        sweeps: the pilot's responses.
        width: target width of the interval of the slope of z.
        slope: |slope| to detect.
        power: probability of detecting it, 0-1.
        max_p: largest p that counts as detected.
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
    photos_per_unit = len(sweeps.photos) / max(len(units), 1)
    rate = np.where(y_c > 0, y_c, np.nan)
    relative, least = spread_of_rate / rate, min_count / rate

    def photos(units_needed: Floats) -> Floats:
        needed = np.maximum(np.ceil(units_needed * photos_per_unit), np.ceil(least * (1 - 1e-12)))
        return np.where(np.isnan(spread), np.nan, needed)

    def half_width(units: Floats) -> Floats:
        """Half the width of an interval in standard errors."""
        return np.asarray(stdtrit(units - 1, (1 + level) / 2))

    def distance(units: Floats) -> Floats:
        """Distance from 0, in standard errors, of a slope that is detected."""
        return np.asarray(stdtrit(units - 1, 1 - max_p / 2) + stdtrit(units - 1, power))

    pilot = np.full(len(sweeps.labels), float(max(len(units), 2)))
    return label_frame(
        sweeps,
        POWER_COLUMNS,
        reason,
        y_c=y_c,
        spread=spread * np.sqrt(photos_per_unit),
        width=2 * half_width(pilot) * spread / np.sqrt(pilot),
        photos_for_width=photos(_fewest(spread, width / 2, half_width)),
        photos_to_detect=photos(_fewest(relative, slope, distance)),
        detectable=distance(pilot) * relative / np.sqrt(pilot),
    )


def _fewest(spread: Floats, target: float, factor: Callable[[Floats], Floats]) -> Floats:
    """Smallest number of units G >= 2 with ``factor(G) spread / sqrt(G) <= target``, ``(L,)``, by bisection."""
    low, high = np.full(len(spread), 1.0), np.full(len(spread), float(MAX_UNITS))
    while (high - low > 1).any():
        middle = np.floor((low + high) / 2)
        enough = (factor(middle) * spread <= target * np.sqrt(middle)) & (middle >= 2)
        low, high = np.where(enough, low, middle), np.where(enough, middle, high)
    return high
