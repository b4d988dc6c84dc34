"""Slopes of groups of photos (by the source face's perceived group, by task, by any column), and how they differ.

Two sweeps of the same photos are compared in ``comparison``.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics import inference
from pipeline.statistics.arrays import Floats
from pipeline.statistics.inference import RESAMPLES, Ratio, Units
from pipeline.statistics.multiplicity import within_families
from pipeline.statistics.photo_slopes import ESTIMABLE, blocks, slopes_and_centre, units_of
from pipeline.statistics.slopes import SLOPE_COLUMNS, Estimate, SlopeTable, slope_table
from pipeline.statistics.sweeps import Sweeps

SUBGROUP_COLUMNS = ("group", *SLOPE_COLUMNS)
DIFFERENCE_COLUMNS = (
    *("adapter", "attribute", "arm", "label", "group", "other", "group_slope", "other_slope"),
    *("difference", "difference_low", "difference_high", "p", "q", "rd_difference", "rd_low", "rd_high", "rd_p"),
    *("family", "tested"),
)


@dataclass(frozen=True, eq=False)
class GroupDifference:
    """Slopes of ``L`` labels in two groups of photos; NaN where either is not estimable.

    Attributes:
        group: the last of the two by name.
        other: the first.
        slopes: of z on a in the two, ``(2, L)``.
        difference: slope in ``group`` - in ``other``, with its t interval (Satterthwaite's degrees of freedom).
        p: of no difference.
        risk_difference: the same for the slopes of y on a.
        rd_p: its p.
    """

    group: str
    other: str
    slopes: Floats
    difference: Estimate
    p: Floats
    risk_difference: Estimate
    rd_p: Floats


@dataclass(frozen=True, eq=False)
class Subgroups:
    """Slopes of the labels of one adapter, attribute and arm, group by group.

    Attributes:
        tables: group -> its slopes, groups sorted.
        differences: every pair of groups.
        ungrouped: photos that belong to no group, and are left out.
    """

    tables: Mapping[str, SlopeTable]
    differences: tuple[GroupDifference, ...]
    ungrouped: tuple[str, ...]

    def to_frame(self) -> pd.DataFrame:
        """One row a group and label, ``SUBGROUP_COLUMNS``; q over all groups and labels."""
        frames = [table.to_frame().assign(group=group) for group, table in self.tables.items() if table.labels]
        return within_families(_stacked(frames, SUBGROUP_COLUMNS), by=("adapter", "attribute"))

    def differences_frame(self) -> pd.DataFrame:
        """One row a pair of groups and label that both can estimate, ``DIFFERENCE_COLUMNS``; q over all of them."""
        frames = []
        for pair in self.differences:
            table = self.tables[pair.group]
            columns = {
                "adapter": table.adapter,
                "attribute": table.attribute,
                "arm": table.arm,
                "label": list(table.labels),
                "group": pair.group,
                "other": pair.other,
                "group_slope": pair.slopes[0],
                "other_slope": pair.slopes[1],
                "difference": pair.difference.value,
                "difference_low": pair.difference.low,
                "difference_high": pair.difference.high,
                "p": pair.p,
                "rd_difference": pair.risk_difference.value,
                "rd_low": pair.risk_difference.low,
                "rd_high": pair.risk_difference.high,
                "rd_p": pair.rd_p,
            }
            tested = ~np.isnan(pair.p)
            frames.append(pd.DataFrame(columns)[tested])
        return within_families(_stacked(frames, DIFFERENCE_COLUMNS), by=("adapter", "attribute"))


def subgroup_slopes(
    sweeps: Sweeps,
    groups: Mapping[str, str],
    *,
    min_count: float = 30,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
    block: int | None = None,
) -> Subgroups:
    """Slopes of every label in every group of photos, and the differences between every two groups.

    A group's slopes are those of ``slope_table`` on its photos alone, divided by its own y_c. Groups have no photos in
    common, but clusters may lie in several (a person photographed for two tasks): then what they share is counted.

    Args:
        sweeps: the responses.
        groups: photo -> group; photos that it lacks are left out.
        min_count: y_c * n of a group below which a label is too rare in it.
        resamples, seed, level, clusters, block: as for ``slope_table``.

    Raises:
        ValueError: as ``slope_table``.
    """
    of_group: dict[str, list[str]] = {}
    for photo in sweeps.photos:
        if photo in groups:
            of_group.setdefault(groups[photo], []).append(photo)
    of_group = dict(sorted(of_group.items()))
    tables = {
        group: slope_table(
            sweeps.of_photos(photos), min_count=min_count, resamples=resamples, seed=seed, level=level,
            clusters=clusters, block=block,
        )
        for group, photos in of_group.items()
    }  # fmt: skip
    belongs = np.array([[photo in photos for photo in sweeps.photos] for photos in map(set, of_group.values())])
    units = units_of(sweeps, clusters)
    return Subgroups(
        tables=tables,
        differences=_differences(
            sweeps, tables, belongs.reshape(len(tables), len(sweeps.photos)), units, level=level, block=block
        ),
        ungrouped=tuple(photo for photo in sweeps.photos if photo not in groups),
    )


def subgroup_frames(subgroups: Sequence[Subgroups], *, family: Sequence[str] = ()) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Slopes and differences of many sweeps, each with q over the declared family, by default all of an arm.

    Args:
        subgroups: of any adapters, attributes and arms.
        family: columns in which the rows of one family agree, such as adapter, attribute and group.
    """
    slopes = _stacked([each.to_frame() for each in subgroups], SUBGROUP_COLUMNS)
    differences = _stacked([each.differences_frame() for each in subgroups], DIFFERENCE_COLUMNS)
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
    """Differences between every two groups; ``belongs`` ``(groups, n)`` tells which photos are of which group."""
    pairs = [(last, first) for first, last in combinations(range(len(tables)), 2)]  # a gap is the last less the first
    estimable = np.array([table.reason == ESTIMABLE for table in tables.values()])
    numbers = {pair: np.full((len(_COMPUTED), len(sweeps.labels)), np.nan) for pair in pairs}
    rows_of_any = np.flatnonzero(estimable.sum(axis=0) > 1) if pairs else np.empty(0, dtype=np.intp)
    for rows in blocks(rows_of_any, photos=len(sweeps.photos) * len(tables), size=block):
        slopes, means = zip(*_ratios(sweeps, rows, belongs, units), strict=True)
        for one, two in pairs:
            both = estimable[one, rows] & estimable[two, rows]
            computed = np.stack(
                [
                    *(slopes[group].value for group in (one, two)),
                    *inference.difference(slopes[one], slopes[two], level=level),
                    *inference.difference(means[one], means[two], level=level),
                ]
            )
            numbers[one, two][:, rows[both]] = computed[:, both]
    names = list(tables)
    return tuple(
        GroupDifference(
            group=names[one],
            other=names[two],
            slopes=found[:2],
            difference=Estimate(*found[2:5]),
            p=found[5],
            risk_difference=Estimate(*found[6:9]),
            rd_p=found[9],
        )
        for (one, two), found in numbers.items()
    )


_COMPUTED = ("slope", "other", "difference", "low", "high", "p", "rd", "rd_low", "rd_high", "rd_p")


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


def _stacked(frames: Sequence[pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    kept = [frame for frame in frames if len(frame)]
    return (
        pd.concat(kept, ignore_index=True).reindex(columns=list(columns))
        if kept
        else pd.DataFrame(columns=list(columns))
    )
