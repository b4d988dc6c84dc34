"""Slopes of groups of photos (by the source face's perceived group, by task, by any column), and how they differ.

Two sweeps of the same photos are compared in ``comparison``.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.comparison import Sides, differ
from pipeline.statistics.inference import Ratio, Units
from pipeline.statistics.multiplicity import within_families
from pipeline.statistics.photo_slopes import (
    ESTIMABLE,
    Part,
    blocks,
    label_frame,
    slopes_and_centre,
    stacked,
    units_of,
)
from pipeline.statistics.slopes import SLOPE_COLUMNS, slope_table
from pipeline.statistics.sweeps import Sweeps

SUBGROUP_COLUMNS = ("group", *SLOPE_COLUMNS)
DIFFERENCE_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "group", "other", "group_slope", "other_slope"),
    *("difference", "difference_low", "difference_high", "p", "q", "rd_difference", "rd_low", "rd_high", "rd_p"),
    *("family", "tested"),
)


Frames = tuple[pd.DataFrame, pd.DataFrame]


def subgroup_slopes(
    sweeps: Sweeps,
    groups: Mapping[str, str],
    *,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
    block: int | None = None,
    **options: Any,
) -> Frames:
    """Slopes of every label in every group of photos, and the differences between every two groups.

    The first frame has a row for each group, sorted, and label, with ``SUBGROUP_COLUMNS``; the second one for each pair
    of groups and label that both can estimate, with ``DIFFERENCE_COLUMNS``: the group that is last by name less the
    other, with Satterthwaite's degrees of freedom. q is over all rows of a frame.

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
    frames = [table.assign(group=group) for group, table in tables.items()]
    reasons = {group: table["reason"].to_numpy(dtype=np.str_) for group, table in tables.items()}
    differences = _differences(sweeps, reasons, groups, units_of(sweeps, clusters), level=level, block=block)
    found = stacked(frames, SUBGROUP_COLUMNS), stacked(differences, DIFFERENCE_COLUMNS)
    slopes, between = (within_families(frame, by=("adapter", "attribute")) for frame in found)
    return slopes, between


def subgroup_frames(subgroups: Sequence[Frames], *, family: Sequence[str] = ()) -> Frames:
    """Slopes and differences of many sweeps, each with q over the declared family, by default all of an arm.

    Args:
        subgroups: of any adapters, attributes and arms, as ``subgroup_slopes`` gives them.
        family: columns in which the rows of one family agree, such as adapter, attribute and group.
    """
    slopes = stacked([each for each, _ in subgroups], SUBGROUP_COLUMNS)
    differences = stacked([each for _, each in subgroups], DIFFERENCE_COLUMNS)
    return within_families(slopes, by=family), within_families(differences, by=family)


def _differences(
    sweeps: Sweeps,
    reasons: Mapping[str, NDArray[np.str_]],
    groups: Mapping[str, str],
    units: Units,
    *,
    level: float,
    block: int | None,
) -> list[pd.DataFrame]:
    """Differences between every two groups; ``reasons``: group -> why a label has no slope in it."""
    names = list(reasons)
    pairs = [(last, first) for first, last in combinations(range(len(names)), 2)]  # a gap is the last less the first
    belongs = [np.array([groups.get(photo) == group for photo in sweeps.photos], dtype=bool) for group in names]
    estimable = np.array([reason == ESTIMABLE for reason in reasons.values()])
    parts: dict[tuple[int, int], list[Part]] = {pair: [] for pair in pairs}
    rows_of_any = np.flatnonzero(estimable.sum(axis=0) > 1) if pairs else np.empty(0, dtype=np.intp)
    for rows in blocks(rows_of_any, photos=len(sweeps.photos) * len(names), size=block):
        ratios = _ratios(sweeps, rows, belongs, units)
        for one, two in pairs:
            both = estimable[one, rows] & estimable[two, rows]
            found = differ(ratios[one], ratios[two], names=("group", "other"), level=level)
            parts[one, two].append((rows[both], {name: column[both] for name, column in found.items()}))
    return [
        label_frame(
            sweeps, DIFFERENCE_COLUMNS, reasons[names[one]], parts[one, two], group=names[one], other=names[two]
        ).dropna(subset=["p"])
        for one, two in pairs
    ]


def _ratios(sweeps: Sweeps, rows: NDArray[np.intp], belongs: Sequence[NDArray[np.bool_]], units: Units) -> list[Sides]:
    """Slopes of z and of y in every group, over the units of all photos."""
    top, centre = slopes_and_centre(sweeps, rows)
    ratios = []
    for own in belongs:
        sizes = units.sums(own[None].astype(np.int64))
        members = sizes[0] > 0
        above, below = units.sums(top * own), units.sums(centre * own)
        ratios.append((Ratio.of(above, below, members), Ratio.of(above, sizes, members)))
    return ratios
