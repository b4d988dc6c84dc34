"""Slopes of groups of photos (by the source face's perceived group, by task, by any column), and how they differ.

Two sweeps of the same photos are compared in ``comparison``.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.arrays import Floats
from pipeline.statistics.comparison import SlopeDifference, differ, fields_of
from pipeline.statistics.inference import Ratio, Units
from pipeline.statistics.multiplicity import within_families
from pipeline.statistics.photo_slopes import ESTIMABLE, blocks, slopes_and_centre, stacked, units_of
from pipeline.statistics.slopes import SLOPE_COLUMNS, SlopeTable, slope_table
from pipeline.statistics.sweeps import Sweeps

SUBGROUP_COLUMNS = ("group", *SLOPE_COLUMNS)
DIFFERENCE_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "group", "other", "group_slope", "other_slope"),
    *("difference", "difference_low", "difference_high", "p", "q", "rd_difference", "rd_low", "rd_high", "rd_p"),
    *("family", "tested"),
)


@dataclass(frozen=True, eq=False, kw_only=True)
class GroupDifference(SlopeDifference):
    """Slopes of ``L`` labels in two groups of photos: ``group``, the last by name, less ``other``, the first.

    Degrees of freedom are Satterthwaite's.
    """

    group: str
    other: str


@dataclass(frozen=True, eq=False)
class Subgroups:
    """Slopes of the labels of one adapter, attribute and arm, group by group."""

    tables: Mapping[str, SlopeTable]  # group -> its slopes, groups sorted
    differences: tuple[GroupDifference, ...]  # every pair of groups
    ungrouped: tuple[str, ...]  # photos that belong to no group, and are left out

    def to_frame(self) -> pd.DataFrame:
        """One row a group and label, ``SUBGROUP_COLUMNS``; q over all groups and labels."""
        frames = [table.to_frame().assign(group=group) for group, table in self.tables.items()]
        return within_families(stacked(frames, SUBGROUP_COLUMNS), by=("adapter", "attribute"))

    def differences_frame(self) -> pd.DataFrame:
        """One row a pair of groups and label that both can estimate, ``DIFFERENCE_COLUMNS``; q over all of them."""
        frames = []
        for pair in self.differences:
            numbers = {"group": pair.group, "other": pair.other, **pair.columns("group", "other")}
            frames.append(self.tables[pair.group].frame(DIFFERENCE_COLUMNS, numbers)[~np.isnan(pair.p)])
        return within_families(stacked(frames, DIFFERENCE_COLUMNS), by=("adapter", "attribute"))


def subgroup_slopes(
    sweeps: Sweeps,
    groups: Mapping[str, str],
    *,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
    block: int | None = None,
    **options: Any,
) -> Subgroups:
    """Slopes of every label in every group of photos, and the differences between every two groups.

    A group's slopes are those of ``slope_table`` on its photos alone, divided by its own y_c, with ``min_count`` for
    each group. Clusters may lie in several groups (a person photographed for two tasks): then what they share is
    counted.

    Args:
        sweeps: the responses.
        groups: photo -> group; photos that it lacks are left out.
        level, clusters, block, **options: as for ``slope_table``.

    Raises:
        ValueError: as ``slope_table``.
    """
    of_group: dict[str, list[str]] = {}
    for photo in sweeps.photos:
        if photo in groups:
            of_group.setdefault(groups[photo], []).append(photo)
    drawing: dict[str, Any] = {"level": level, "clusters": clusters, "block": block, **options}
    tables = {group: slope_table(sweeps.of_photos(photos), **drawing) for group, photos in sorted(of_group.items())}
    belongs = np.array([[groups.get(photo) == group for photo in sweeps.photos] for group in tables], dtype=bool)
    belongs = belongs.reshape(len(tables), len(sweeps.photos))
    ungrouped = tuple(photo for photo in sweeps.photos if photo not in groups)
    units = units_of(sweeps, clusters)
    return Subgroups(tables, _differences(sweeps, tables, belongs, units, level=level, block=block), ungrouped)


def subgroup_frames(subgroups: Sequence[Subgroups], *, family: Sequence[str] = ()) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Slopes and differences of many sweeps, each with q over the declared family, by default all of an arm.

    Args:
        subgroups: of any adapters, attributes and arms.
        family: columns in which the rows of one family agree, such as adapter, attribute and group.
    """
    slopes = stacked([each.to_frame() for each in subgroups], SUBGROUP_COLUMNS)
    differences = stacked([each.differences_frame() for each in subgroups], DIFFERENCE_COLUMNS)
    return within_families(slopes, by=family), within_families(differences, by=family)


def _differences(
    sweeps: Sweeps,
    tables: Mapping[str, SlopeTable],
    belongs: NDArray[np.bool_],
    units: Units,
    *,
    level: float,
    block: int | None,
) -> tuple[GroupDifference, ...]:
    """Differences between every two groups; ``belongs`` ``(groups, n)`` says which photos are of which group."""
    names = list(tables)
    pairs = [(last, first) for first, last in combinations(range(len(names)), 2)]  # a gap is the last less the first
    estimable = np.array([table.reason == ESTIMABLE for table in tables.values()])
    found: dict[tuple[int, int], Floats] = {pair: np.full((10, len(sweeps.labels)), np.nan) for pair in pairs}
    rows_of_any = np.flatnonzero(estimable.sum(axis=0) > 1) if pairs else np.empty(0, dtype=np.intp)
    for rows in blocks(rows_of_any, photos=len(sweeps.photos) * len(names), size=block):
        ratios = _ratios(sweeps, rows, belongs, units)
        for one, two in pairs:
            both = estimable[one, rows] & estimable[two, rows]
            found[one, two][:, rows[both]] = differ(ratios[one], ratios[two], level=level)[:, both]
    return tuple(
        GroupDifference(group=names[one], other=names[two], **fields_of(numbers))
        for (one, two), numbers in found.items()
    )


def _ratios(
    sweeps: Sweeps, rows: NDArray[np.intp], belongs: NDArray[np.bool_], units: Units
) -> list[tuple[Ratio, Ratio]]:
    """Slopes of z and of y in every group, over the units of all photos."""
    top, centre = slopes_and_centre(sweeps, rows)
    ratios = []
    for own in belongs:
        sizes = units.sums(own[None].astype(np.int64))
        members = sizes[0] > 0
        above, below = units.sums(top * own), units.sums(centre * own)
        ratios.append((Ratio.of(above, below, members), Ratio.of(above, sizes, members)))
    return ratios
