"""The sweeps of a finished run as its own options read them: what the commands that only compute start from."""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import StatisticsOptions
from pipeline.run.folder import Run, settings_of
from pipeline.run.record import RunError
from pipeline.run.tables import ANSWERS, LABELS, read_frame

if TYPE_CHECKING:
    from pipeline.statistics import Sweeps


@dataclass(frozen=True, eq=False)
class RunSweeps:
    """A run's sweeps, its options, the clusters of its photos, and the sha256 of each photo."""

    run: Run
    options: StatisticsOptions
    sweeps: "tuple[Sweeps, ...]"
    clusters: Mapping[str, Hashable] | None
    sha256: Mapping[str, str]

    @property
    def edits(self) -> "tuple[Sweeps, ...]":
        """Those of the edits, without placebos."""
        return tuple(each for each in self.sweeps if each.arm == EDIT_ARM)


def run_sweeps(
    folder: Path, changes: Mapping[str, Any] | None = None, *, options: StatisticsOptions | None = None
) -> RunSweeps:
    """Read a run; nothing in its folder is changed.

    Args:
        folder: of a run whose classifiers have answered.
        changes: options of the section ``statistics`` in place of what the run was made with; None keeps them.
        options: the whole section, another run's, in place of this run's.

    Raises:
        RunError: the folder holds no run, or one without labels.
        ConfigError: an option has an impossible value, or the manifest lacks its column.
    """
    from pipeline.analyses.groups import clusters_of
    from pipeline.statistics import sweeps_of

    run = Run(folder)
    own = settings_of(run, {"statistics": changes or {}}).statistics
    options = own if options is None else options
    if not run.record.presence_thresholds:
        raise RunError(f"no classifier has labelled the versions in {folder}: ask one with `counterslope query`")
    photos = read_frame(run.path("photos.parquet"))
    declared = run.record.presence_thresholds
    presence = options.thresholds(declared)
    labels = read_frame(run.path("labels.parquet"), columns=list(LABELS))
    answers = read_frame(run.path("answers.parquet"), columns=list(ANSWERS))
    return RunSweeps(
        run=run,
        options=options,
        sweeps=tuple(sweeps_of(labels, answers, presence=presence, confidence=options.confidence)),
        clusters=clusters_of(photos, options.cluster),
        sha256=dict(zip(photos["photo"], photos["sha256"], strict=True)),
    )
