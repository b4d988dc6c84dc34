"""How many photos a run like this one needs, from how much slopes differ between its photos."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipeline.analyses.base import Analysis, Options, Result, option_of_run
from pipeline.analyses.inputs import run_sweeps
from pipeline.analyses.sections import Column, Section, Subsection, Table, rows_by
from pipeline.config.attributes import Attribute, attribute_of
from pipeline.run.formats import count, plain, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

FOR_MACHINES = ["arm", "estimable", "spread"]


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
        """Photos needed, one row a label.

        Raises:
            RunError: the folder holds no run, or one without labels.
            ConfigError: an option of the run does not fit.
            ValueError: a width, slope, power or p out of range.
        """
        from pipeline.statistics import power_frame, power_table

        known = run_sweeps(source, options.changes())
        slope = known.options.min_slope if options.slope is None else options.slope
        wanted: dict[str, Any] = {"width": options.width, "power": options.power}
        wanted |= {"slope": slope, "max_p": known.options.max_p}
        tables = [power_table(sweeps, **wanted, **known.rules) for sweeps in known.edits]
        order = ["adapter", "attribute", "photos_for_width", "label"]
        frame = power_frame(tables).sort_values(order, ignore_index=True)
        return Result(
            title=f"Photos for an interval {options.width:g} wide, and to find a slope of {slope:g} "
            f"(p < {wanted['max_p']:g}) with probability {options.power:g}",
            tables={self.name: frame},
            printed={self.name: frame.drop(columns=FOR_MACHINES)},
            about=wanted,
            inputs=self.inputs(options),
        )

    def sections(
        self, tables: "Mapping[str, pd.DataFrame]", about: Mapping[str, Any], *, swept: Mapping[str, Attribute]
    ) -> Sequence[Section]:
        """One part for each adapter and attribute."""
        section = Section(
            key=self.name,
            heading="How many photos it takes",
            explanation="From how much slopes differ between the photos of this run: how many such photos for an "
            f"interval {plain(about['width'])} wide, and how many for a slope of {plain(about['slope'])} found "
            f"(p < {plain(about['max_p'])}) with probability {plain(about['power'])}?",
            parts=[
                _part(rows, f"{adapter}, {attribute_of(name, swept).subject}")
                for (adapter, name), rows in rows_by(tables[self.name], "adapter", "attribute")
            ],
            caveats=["The figures hold for photos like these; of few photos they are themselves unsure."],
        )
        return (section,)


def _part(rows: "pd.DataFrame", heading: str) -> Subsection:
    known = rows[rows["estimable"].astype(bool)].sort_values("photos_for_width", kind="stable")
    if known.empty:
        none = "No label can be estimated, so nothing can be said of how many photos it would take."
        return Subsection(heading, [none])
    columns = (
        Column("Label", "label"),
        Column("Photos now", "photos", "count"),
        Column("Rate at a = 0", "y_c", "share"),
        Column("Width now", "width", "decimal"),
        Column("Photos for the width", "photos_for_width", "count"),
        Column("Photos for the slope", "photos_to_detect", "count"),
    )
    enough = int((known["photos_to_detect"] <= known["photos"]).sum())
    return Subsection(
        heading,
        [f"{count(enough)} of {count(len(known))} labels have photos enough now to find such a slope."],
        tables=[Table(f"{pluralise(len(known), 'label')}, those that take the fewest photos first", columns, known)],
    )


POWER = Power()
