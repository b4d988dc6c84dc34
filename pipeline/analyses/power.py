"""Number of photos that a run needs, from the variation of slopes between the photos of a pilot."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Result, RunOptions, option_of_run
from pipeline.analyses.inputs import run_sweeps
from pipeline.run.formats import count, plain, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

FOR_MACHINES = ["arm", "estimable", "spread"]
COLUMNS: tuple[page.Column, ...] = (
    ("Label", "label", "text"), ("Photos now", "photos", "count"), ("Rate at a = 0", "y_c", "share"),
    ("Width now", "width", "decimal"), ("Photos for the width", "photos_for_width", "count"),
    ("Photos for the slope", "photos_to_detect", "count"),
)  # fmt: skip


class PowerOptions(RunOptions):
    """Targets of the estimates."""

    width: float = Field(0.05, description="target width of a slope's 95 % interval")
    slope: float | None = Field(None, description="size of the slope to detect; default: the run's min_slope")
    power: float = Field(0.8, description="probability of detecting it")
    max_p: float | None = option_of_run("max_p", "largest p that counts as detected")


class Power(Analysis[PowerOptions]):
    """Number of photos needed for narrow intervals and to detect slopes, estimated from this run."""

    name = "power"
    options = PowerOptions
    examples = ("counterslope power runs/pilot --width 0.05",)

    def compute(self, source: Path, options: PowerOptions, *, watch: Watch = unwatched) -> Result:
        """Number of photos needed, a row per label."""
        from pipeline.statistics import POWER_COLUMNS, power_table, stacked

        known = run_sweeps(source, options.changes())
        slope = known.options.min_slope if options.slope is None else options.slope
        targets: dict[str, Any] = {"width": options.width, "power": options.power}
        targets |= {"slope": slope, "max_p": known.options.max_p}
        tables = [power_table(sweeps, **targets, **known.rules) for sweeps in known.edits]
        order = ["adapter", "attribute", "photos_for_width", "label"]
        frame = stacked(tables, POWER_COLUMNS).sort_values(order, ignore_index=True)
        nothing = "no label can be estimated from these photos: a lower --min-count takes rarer labels, less precisely"
        return Result(
            notes=() if frame["estimable"].any() else (nothing,),
            title=f"Photos for an interval {options.width:g} wide, and to detect a slope of {slope:g} "
            f"(p < {targets['max_p']:g}) with probability {options.power:g}",
            tables={self.name: frame},
            printed={self.name: frame.drop(columns=FOR_MACHINES)},
            about=targets,
            inputs=self.inputs(options),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A part for each adapter and attribute."""
        targets = {name: plain(kept.about[name]) for name in ("width", "slope", "max_p", "power")}
        section = page.Section(
            key=self.name,
            heading="How many photos it takes",
            explanation="Estimated from the variation of slopes between the photos of this run: how many such photos "
            f"does an interval {targets['width']} wide need, and how many the detection of a slope of "
            f"{targets['slope']} (p < {targets['max_p']}) with probability {targets['power']}?",
            parts=[
                _part(rows, f"{adapter}, {kept.attribute(name).subject}")
                for (adapter, name), rows in page.rows_by(kept.tables[self.name], "adapter", "attribute")
            ],
            caveats=["The figures hold for photos like these; from few photos they are imprecise."],
        )
        return (section,)


def _part(rows: "pd.DataFrame", heading: str) -> page.Subsection:
    known = rows[rows["estimable"].astype(bool)].sort_values("photos_for_width", kind="stable")
    if known.empty:
        nothing = "No label can be estimated, so the number of photos needed is not known."
        return page.Subsection(heading, [nothing])
    enough = int((known["photos_to_detect"] <= known["photos"]).sum())
    sentence = f"{count(enough)} of {count(len(known))} labels already have enough photos to detect such a slope."
    caption = f"{pluralise(len(known), 'label')}, fewest photos first"
    return page.Subsection(heading, [sentence], tables=[page.Table(caption, known, COLUMNS)])


POWER = Power()
