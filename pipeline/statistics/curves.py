"""Curves of a label: its rate and its normalised rate at every value of the attribute, with bands.

Slopes live in ``slopes``; charts are the report's.
"""

from collections.abc import Hashable, Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.statistics import inference
from pipeline.statistics.inference import Spread
from pipeline.statistics.photo_slopes import units_of
from pipeline.statistics.sweeps import Sweeps

CURVE_COLUMNS = ("adapter", "attribute", "arm", "label", "value", "y", "z", "z_low", "z_high")


def curve_frame(
    sweeps: Sweeps,
    *,
    labels: Sequence[str] | None = None,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
) -> pd.DataFrame:
    """Rates y and normalised rates z against a, with Fieller's pointwise bands: the columns of ``CURVE_COLUMNS``.

    z is NaN where y_c = 0, the band too where there are fewer than two photos. At a = 0 z is 1 by definition.

    Args:
        sweeps: the responses.
        labels: which ones; all unless given.
        level: of each band, 0-1.
        clusters: as for ``slope_table``.

    Raises:
        KeyError: a label that the sweeps do not have.
    """
    place = {label: row for row, label in enumerate(sweeps.labels)}
    chosen = sweeps.labels if labels is None else tuple(labels)
    units, rates, steps = units_of(sweeps, clusters), sweeps.rates(), len(sweeps.values)
    frames = []
    for label in chosen:
        if label not in place:
            raise KeyError(f"no label {label!r} was returned by {sweeps.adapter!r}")
        y = rates[place[label]]
        z, low, high = np.full((3, steps), np.nan)
        if y[steps // 2] > 0:
            z = y / y[steps // 2]
            if len(units) > 1:
                sums = units.sums(sweeps.block([place[label]])[0])
                centre = Spread.of(sums[[steps // 2] * steps], units)
                low, high = inference.ratio_interval(Spread.of(sums, units), centre, units, level=level)
        frames.append(
            pd.DataFrame({"label": label, "value": sweeps.values, "y": y, "z": z, "z_low": low, "z_high": high})
        )
    if not frames:
        return pd.DataFrame(columns=list(CURVE_COLUMNS))
    frame = pd.concat(frames, ignore_index=True)
    return frame.assign(adapter=sweeps.adapter, attribute=sweeps.attribute, arm=sweeps.arm)[list(CURVE_COLUMNS)]
