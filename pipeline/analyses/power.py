"""How many photos a run like this one needs, from how much slopes differ between its photos."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Options, Result, option_of_run
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


class PowerOptions(Options):
    """What the photos are needed for."""

    width: float = Field(0.05, description="wanted width of a slope's 95 % interval, end to end")
    slope: float | None = Field(None, description="size of a slope to be found; the run's min_slope unless given")
    power: float = Field(0.8, description="probability to find it")
    max_p: float | None = option_of_run("max_p", "largest p that counts as found")
    min_count: float | None = option_of_run("min_count")
    cluster: str | None = option_of_run("cluster")


class Power(Analysis[PowerOptions]):
    """How many photos a run like this one needs, from how much slopes differ between its photos."""

    name = "power"
    options = PowerOptions
    uses = ("presence_threshold", "response", "cluster", "min_count")
    examples = ("counterslope power runs/pilot --width 0.05",)

    def compute(self, source: Path, options: PowerOptions, *, watch: Watch = unwatched) -> Result:
        """Photos needed, one row a label."""
        from pipeline.statistics import POWER_COLUMNS, power_table, stacked

        known = run_sweeps(source, options.changes())
        slope = known.options.min_slope if options.slope is None else options.slope
        wanted: dict[str, Any] = {"width": options.width, "power": options.power}
        wanted |= {"slope": slope, "max_p": known.options.max_p}
        tables = [power_table(sweeps, **wanted, **known.rules) for sweeps in known.edits]
        order = ["adapter", "attribute", "photos_for_width", "label"]
        frame = stacked(tables, POWER_COLUMNS).sort_values(order, ignore_index=True)
        nothing = "no label can be estimated from these photos: --min-count takes rarer labels, with wider intervals"
        return Result(
            notes=() if frame["estimable"].any() else (nothing,),
            title=f"Photos for an interval {options.width:g} wide, and to find a slope of {slope:g} "
            f"(p < {wanted['max_p']:g}) with probability {options.power:g}",
            tables={self.name: frame},
            printed={self.name: frame.drop(columns=FOR_MACHINES)},
            about=wanted,
            inputs=self.inputs(options),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """One part for each adapter and attribute."""
        wanted = {name: plain(kept.about[name]) for name in ("width", "slope", "max_p", "power")}
        section = page.Section(
            key=self.name,
            heading="How many photos it takes",
            explanation="From how much slopes differ between the photos of this run: how many such photos for an "
            f"interval {wanted['width']} wide, and how many for a slope of {wanted['slope']} found "
            f"(p < {wanted['max_p']}) with probability {wanted['power']}?",
            parts=[
                _part(rows, f"{adapter}, {kept.attribute(name).subject}")
                for (adapter, name), rows in page.rows_by(kept.tables[self.name], "adapter", "attribute")
            ],
            caveats=["The figures hold for photos like these; of few photos they are themselves unsure."],
        )
        return (section,)


def _part(rows: "pd.DataFrame", heading: str) -> page.Subsection:
    known = rows[rows["estimable"].astype(bool)].sort_values("photos_for_width", kind="stable")
    if known.empty:
        return page.Subsection(
            heading, ["No label can be estimated, so it is not known how many photos it would take."]
        )
    enough = int((known["photos_to_detect"] <= known["photos"]).sum())
    sentence = f"{count(enough)} of {count(len(known))} labels have photos enough now to find such a slope."
    caption = f"{pluralise(len(known), 'label')}, those that take the fewest photos first"
    return page.Subsection(heading, [sentence], tables=[page.Table(caption, known, COLUMNS)])


POWER = Power()
