"""Normalised label slopes of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.analyses.base import Analysis, FamilyOptions, Result, option_of_run
from pipeline.analyses.inputs import RunSweeps, presence_thresholds, run_sweeps
from pipeline.run.folder import Run, settings_of
from pipeline.run.progress import Watch, unwatched
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import pandas as pd

LAYOUT_ONLY = {"max_p", "min_slope"}  # options that select findings and do not change the slopes


class SlopeOptions(FamilyOptions):
    """Options for this command only; the run keeps its own."""

    max_p: float | None = option_of_run("max_p")
    min_slope: float | None = option_of_run("min_slope")
    by: str | None = option_of_run("by")


class Slopes(Analysis[SlopeOptions]):
    """The slope of every label of a run; with other options they are estimated again for the printed table only.

    The run and its report do not change. ``counterslope report RUN`` takes the same options and stores the results.
    """

    name = "slopes"
    options = SlopeOptions
    tables = ("findings", "subgroups", "subgroup_differences")
    examples = ("counterslope slopes runs/portraits", "counterslope slopes runs/portraits --max-p 0.01 --format latex")

    def compute(self, source: Path, options: SlopeOptions, *, watch: Watch = unwatched) -> Result:
        """The run's slopes, or slopes estimated with other options."""
        changes = options.changes()
        if not set(changes) - LAYOUT_ONLY:
            run = Run(source)
            settings_of(run)
            return Result("Slopes", {self.name: run.read_csv(self.name)}, kept=dict)
        known = run_sweeps(source, changes)
        tables = {self.name: slope_frame_of(known, watch)}
        if options.by:
            from pipeline.analyses.subgroups import SUBGROUPS

            tables |= SUBGROUPS.of_every_run(known, watch)
        return Result("Slopes", tables, kept=dict)

    def of_every_run(self, known: RunSweeps, watch: Watch = unwatched) -> "Mapping[str, pd.DataFrame]":
        """Slopes and curves."""
        import pandas as pd

        from pipeline.statistics import CURVE_COLUMNS, curve_frame

        parts = [curve_frame(each, clusters=known.clusters) for each in known.sweeps]
        empty = pd.DataFrame(columns=list(CURVE_COLUMNS))
        return {"slopes": slope_frame_of(known, watch), "curves": pd.concat(parts or [empty], ignore_index=True)}


def slope_frame_of(known: RunSweeps, watch: Watch) -> "pd.DataFrame":
    """Slopes of a run's sweeps, with those of placebos in columns next to the edits'."""
    from pipeline.statistics import slope_frame, with_placebos

    family: Sequence[str] = known.options.family
    with watch("slopes", total=sum(len(each.labels) for each in known.sweeps)) as advance:
        slopes = slope_frame(known.sweeps, family=family, advance=advance, **known.drawing, **known.rules)
    return _with_truncation(with_placebos(slopes, known.sweeps, family=family, **known.rules), known)


def _with_truncation(slopes: "pd.DataFrame", known: RunSweeps) -> "pd.DataFrame":
    """Add the largest effect of the adapters' limits, which their accounts hold, to the slopes."""
    from pipeline.statistics.sweep_tables import ANSWER_COLUMNS, LABEL_COLUMNS
    from pipeline.statistics.truncation import KEYS, with_truncation

    presence, limits = presence_thresholds(known.run, known.options), {}
    for name, account in known.run.record.query.items():
        counts = known.options.confidence or (account.cut_off or 0.0) > presence.get(name, 1.0)
        limits[name] = (account.top_k if account.full else None, account.cut_off if counts else None)
    if not any(map(any, limits.values())):  # the usual case, without reading the tables
        return slopes
    labels, answers = (
        read_frame(known.run.path(f"{name}.parquet"), columns=list(columns), categories=(*KEYS, "photo"))
        for name, columns in (("labels", LABEL_COLUMNS), ("answers", ANSWER_COLUMNS))
    )
    return with_truncation(slopes, known.sweeps, labels, answers, limits=limits, presence=presence)


SLOPES = Slopes()
