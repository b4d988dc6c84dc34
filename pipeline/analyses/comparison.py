"""Two runs, or two adapters, compared: which of their sweeps belong together, and which photos are the same."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.analyses.sweeps import RunSweeps, run_sweeps
from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import StatisticsOptions
from pipeline.run.record import RunError

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.statistics import Sweeps

FOR_MACHINES = ["estimable", "family", "tested", "arm", "rd_difference", "rd_low", "rd_high", "rd_p"]


@dataclass(frozen=True, eq=False)
class Compared:
    """A frame as ``statistics.comparison.comparison_frame`` gives it, and the photos that only one of the two has."""

    frame: "pd.DataFrame"
    only_first: tuple[str, ...]
    only_second: tuple[str, ...]

    @property
    def printed(self) -> "pd.DataFrame":
        """The columns that people read, the surest differences of each pair first."""
        frame = self.frame.drop(columns=FOR_MACHINES)
        return frame.sort_values(["attribute", "first", "p", "label"], ignore_index=True)


def compare_runs(
    first: Path, second: Path, *, adapters: Sequence[str] | None = None, changes: Mapping[str, Any] | None = None
) -> Compared:
    """Differences of slopes between two runs, or between two adapters of one run.

    Two photos are the same if they have the same name and the same bytes.

    Args:
        first: a run's folder.
        second: another's, or the same.
        adapters: one name for each; unless given, adapters that both have are compared with themselves.
        changes: options of the section ``statistics`` in place of the first run's, whose options hold for both.

    Raises:
        RunError: nothing to compare: no run, no labels, or no adapter and attribute in common.
        ConfigError: an option has an impossible value.
        ValueError: the sweeps have other values.
    """
    from pipeline.statistics import compare, comparison_frame

    if adapters is not None and len(adapters) != 2:
        raise RunError(f"name two adapters, as in --adapters opencv,face-attributes, not {', '.join(adapters)!r}")
    if adapters is None and first.resolve() == second.resolve():
        raise RunError("a run compared with itself differs by 0: name another run, or two adapters with --adapters")
    one = run_sweeps(first, changes)
    # The clusters are the first run's; the second's manifest need not have them.
    two = run_sweeps(second, options=one.options.model_copy(update={"cluster": None}))
    pairs = _pairs(one, two, adapters)
    alike = {photo for photo, sha256 in one.sha256.items() if two.sha256.get(photo) == sha256}
    names = _names(first, second, adapters)
    comparisons = [
        compare(
            left,
            _only(right, alike),
            names=names(left.adapter, right.adapter),
            min_count=one.options.min_count,
            clusters=one.clusters,
        )
        for left, right in pairs
    ]
    return Compared(
        frame=comparison_frame(comparisons, family=_family(one.options.family)),
        only_first=tuple(sorted({photo for each in comparisons for photo in each.only_first})),
        only_second=tuple(
            sorted(
                {photo for _, right in pairs for photo in (*right.photos, *right.incomplete)}
                - {photo for each in comparisons for photo in each.photos}
            )
        ),
    )


def adapters_compared(
    sweeps: "Sequence[Sweeps]", *, options: StatisticsOptions, clusters: Mapping[str, Hashable] | None
) -> "pd.DataFrame":
    """Every two adapters of a run on the labels that both returned, by attribute; empty where there are none.

    Args:
        sweeps: of the run, as its options read them.
        options: of the section ``statistics``.
        clusters: photo -> cluster, or None.
    """
    from pipeline.statistics import compare, comparison_frame

    edits = sorted((each for each in sweeps if each.arm == EDIT_ARM), key=lambda each: (each.attribute, each.adapter))
    comparisons = []
    for left, right in combinations(edits, 2):
        shared = sorted(set(left.labels) & set(right.labels))
        if left.attribute == right.attribute and shared:
            sides = (left.of_labels(shared), right.of_labels(shared))
            names = (left.adapter, right.adapter)
            comparisons.append(compare(*sides, names=names, min_count=options.min_count, clusters=clusters))
    return comparison_frame(comparisons, family=_family(options.family))


def _pairs(one: RunSweeps, two: RunSweeps, adapters: Sequence[str] | None) -> "list[tuple[Sweeps, Sweeps]]":
    """Sweeps of the same attribute and arm, of the same adapter or of the two named ones."""
    for run, adapter in zip((one, two), adapters or (), strict=False):
        known = sorted({each.adapter for each in run.sweeps})
        if adapter not in known:
            raise RunError(f"{run.run.folder} has no adapter {adapter!r}; it has {', '.join(known)}")
    wanted = adapters or (None, None)
    right = {(each.adapter, each.attribute, each.arm): each for each in two.sweeps}
    pairs = [
        (each, right[key])
        for each in one.sweeps
        if wanted[0] in (None, each.adapter) and (key := (wanted[1] or each.adapter, each.attribute, each.arm)) in right
    ]
    if not pairs:
        raise RunError(f"{one.run.folder} and {two.run.folder} have no adapter and attribute in common")
    return pairs


def _only(sweeps: "Sweeps", photos: set[str]) -> "Sweeps":
    return sweeps.of_photos([photo for photo in sweeps.photos if photo in photos])


def _names(first: Path, second: Path, adapters: Sequence[str] | None) -> Any:
    """What the two sides are called: by run, by adapter, or by both where both differ."""
    same_run = first.resolve() == second.resolve()

    def names(left: str, right: str) -> tuple[str, str]:
        if same_run:
            return left, right
        return f"{first.name}: {left}", f"{second.name}: {right}"

    return names


def _family(columns: Sequence[str]) -> list[str]:
    """The run's columns by their names in a comparison."""
    return [name for column in columns for name in (("first", "second") if column == "adapter" else (column,))]
