"""How many photos a run needs, told from a run that there is. The formulas are in ``statistics.power``."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.analyses.sweeps import run_sweeps

if TYPE_CHECKING:
    import pandas as pd

FOR_MACHINES = ["arm", "estimable", "spread"]


@dataclass(frozen=True, eq=False)
class Needed:
    """Photos needed, one row a label, and what they are needed for: interval ``width``, or ``slope`` with ``power``."""

    frame: "pd.DataFrame"
    width: float
    slope: float
    power: float
    max_p: float

    @property
    def title(self) -> str:
        """What the table shows."""
        return (
            f"Photos for an interval {self.width:g} wide, and to find a slope of {self.slope:g} "
            f"(p < {self.max_p:g}) with probability {self.power:g}"
        )

    @property
    def printed(self) -> "pd.DataFrame":
        """The columns that people read."""
        return self.frame.drop(columns=FOR_MACHINES)


def photos_needed(
    run: Path,
    *,
    width: float = 0.05,
    slope: float | None = None,
    power: float = 0.8,
    max_p: float | None = None,
    changes: Mapping[str, Any] | None = None,
) -> Needed:
    """How many photos a run like this one needs, from how much slopes differ between its photos.

    Args:
        run: a pilot run's folder; nothing in it is changed.
        width: wanted width of a slope's 95 % interval, end to end.
        slope: size of a slope to be found; the run's ``min_slope`` unless given.
        power: probability to find it.
        max_p: largest p that counts as found; the run's unless given.
        changes: options of the section ``statistics`` in place of the run's.

    Raises:
        RunError: the folder holds no run, or one without labels.
        ConfigError: an option of the run does not fit.
        ValueError: a width, slope, power or p out of range.
    """
    from pipeline.statistics import power_frame, power_table

    pilot = run_sweeps(run, changes)
    options = pilot.options
    slope = options.min_slope if slope is None else slope
    max_p = options.max_p if max_p is None else max_p
    tables = [
        power_table(
            sweeps,
            width=width,
            slope=slope,
            power=power,
            max_p=max_p,
            min_count=options.min_count,
            clusters=pilot.clusters,
        )
        for sweeps in pilot.edits
    ]
    frame = power_frame(tables).sort_values(["adapter", "attribute", "photos_for_width", "label"], ignore_index=True)
    return Needed(frame, width, slope, power, max_p)
