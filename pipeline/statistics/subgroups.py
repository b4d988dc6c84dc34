"""Slopes by group of photos (perceived group of the source face, task, any column) and their differences.

Two sweeps of the same photos are compared in ``comparison``.
"""

from collections.abc import Hashable, Mapping, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.comparison import Ratios, difference_columns
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

    The slopes of a group are those of ``slope_table`` on its photos alone: divided by its own y_c, with ``min_count``
    applied to each group. A cluster may lie in several groups (a person photographed for two tasks); the differences
    then account for the dependence.

    Args:
        sweeps: the responses.
        groups: photo -> group; other photos are left out.
        level, clusters, block, **options: as for ``slope_table``.

    Returns:
        A frame with a row per group and label, ``SUBGROUP_COLUMNS``, groups sorted; and one with a row per pair of
        groups and label that both can estimate, ``DIFFERENCE_COLUMNS``: the group whose name sorts last less the
        other, with Satterthwaite's degrees of freedom. q is over all rows of a frame.

    Raises:
        ValueError: as ``slope_table``.
    """
    of_group: dict[str, list[str]] = {}
    for photo in sweeps.photos:
        if photo in groups:
            of_group.setdefault(groups[photo], []).append(photo)
    options |= {"level": level, "clusters": clusters, "block": block}
    tables = {group: slope_table(sweeps.of_photos(photos), **options) for group, photos in sorted(of_group.items())}
    reasons = {group: table["reason"].to_numpy(dtype=np.str_) for group, table in tables.items()}
    differences = _differences(sweeps, reasons, groups, units_of(sweeps, clusters), level=level, block=block)
    slopes = stacked([table.assign(group=group) for group, table in tables.items()], SUBGROUP_COLUMNS)
    return subgroup_frames([(slopes, stacked(differences, DIFFERENCE_COLUMNS))], family=("adapter", "attribute"))


def subgroup_frames(subgroups: Sequence[Frames], *, family: Sequence[str] = ()) -> Frames:
    """Concatenate results of ``subgroup_slopes``, with q over the family declared by ``family`` and the arm."""
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
    """Differences between every two groups; ``reasons``: group -> ``(L,)`` reasons as of ``reasons_of``."""
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
            columns = difference_columns(ratios[one], ratios[two], names=("group", "other"), level=level)
            parts[one, two].append((rows[both], {name: column[both] for name, column in columns.items()}))
    return [
        label_frame(
            sweeps, DIFFERENCE_COLUMNS, reasons[names[one]], parts[one, two], group=names[one], other=names[two]
        ).dropna(subset=["p"])
        for one, two in pairs
    ]


def _ratios(sweeps: Sweeps, rows: NDArray[np.intp], belongs: Sequence[NDArray[np.bool_]], units: Units) -> list[Ratios]:
    """Slopes of z and of y in every group, over the units of all photos."""
    top, centre = slopes_and_centre(sweeps, rows)
    ratios = []
    for own in belongs:
        sizes = units.sums(own[None].astype(np.int64))
        members = sizes[0] > 0
        above, below = units.sums(top * own), units.sums(centre * own)
        ratios.append((Ratio.of(above, below, members), Ratio.of(above, sizes, members)))
    return ratios
