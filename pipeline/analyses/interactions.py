"""Interactions: differences of slopes between faces edited to the two poles of another attribute."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, FamilyOptions, Kept, Result
from pipeline.analyses.inputs import RunSweeps, run_sweeps
from pipeline.config.attributes import AT, CROSSED, Attribute
from pipeline.run.folder import settings_of
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError

if TYPE_CHECKING:
    import pandas as pd

OF_Z = {"difference": "z_difference", "difference_low": "z_low", "difference_high": "z_high", "p": "z_p"}
OF_Y = {"rd_difference": "difference", "rd_low": "difference_low", "rd_high": "difference_high", "rd_p": "p"}
FOR_MACHINES = ["estimable", "family", "tested", *OF_Z.values()]
NONE = "{folder} has no intersection: sweep one, such as --attribute gender*race"


class Interactions(Analysis[FamilyOptions]):
    """The difference of every label's slope between faces edited to the two poles of another attribute."""

    name = "interactions"
    options = FamilyOptions
    examples = ("counterslope interactions runs/portraits",)

    def compute(self, source: Path, options: FamilyOptions, *, watch: Watch = unwatched) -> Result:
        """Differences of all intersections of a run."""
        tables = self.of_every_run(run_sweeps(source, options.changes()), watch)
        if not tables:
            raise RunError(NONE.format(folder=source))
        title, frame = "Differences of slopes, higher less lower pole", tables[self.name]
        order = ["adapter", "attribute", "arm", "p", "label"]
        printed = frame.drop(columns=FOR_MACHINES).sort_values(order, ignore_index=True)
        return Result(title, tables, printed={self.name: printed}, inputs=self.inputs(options))

    def of_every_run(self, known: RunSweeps, watch: Watch = unwatched) -> "Mapping[str, pd.DataFrame]":
        """A table of all arms, if the run has an intersection."""
        import pandas as pd

        from pipeline.statistics import COMPARISON_COLUMNS, compare, within_families

        swept = settings_of(known.run).sweep.chosen()
        pairs = crossed(swept)
        if not pairs:
            return {}
        sweeps = {(each.adapter, each.attribute, each.arm): each for each in known.sweeps}
        found = []
        with watch(self.name, total=len(sweeps)) as advance:
            for (adapter, attribute, arm), high in sweeps.items():
                if attribute in pairs and (low := sweeps.get((adapter, pairs[attribute], arm))) is not None:
                    names = attribute, pairs[attribute]
                    frame = compare(high, low, names=names, **known.rules)
                    found.append(_of_y(frame).assign(adapter=adapter, attribute=_name(swept[attribute])))
                advance(1)
        columns = ["adapter", *(name for name in COMPARISON_COLUMNS if name not in OF_Y), *OF_Z.values()]
        table = pd.concat(found, ignore_index=True)[columns] if found else pd.DataFrame(columns=columns)
        return {self.name: within_families(table, by=known.options.family)}

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A part for each adapter and intersection."""
        frame = page.edits_of(kept.tables[self.name])
        slopes = kept.tables.get("slopes")
        parts = [
            _part(rows, str(adapter), kept.attribute(str(first)), slopes)
            for (adapter, first), rows in page.rows_by(frame, "adapter", "first")
        ]
        section = page.Section(
            key="interactions",
            heading="Intersections",
            explanation="Each face is edited to either pole of a second attribute and then swept along the first: does "
            "a label change more with the first attribute on one side of the second? The comparison is paired by "
            "photo. A difference means that the effects of the two attributes are not additive.",
            parts=parts,
            caveats=[
                "Slopes are of y, the label's share or mean score, for which additive effects have a difference of 0. "
                "Slopes of z differ even then if the label is more frequent on one side (columns z_… of "
                "tables/interactions.csv).",
                "The effect of the edit may be smaller at one pole: the validity card has it for each.",
                "Differences for the placebos, which start from the same edited faces, are in the table by arm.",
                "q: Benjamini–Hochberg over the labels compared.",
            ],
            attributes=tuple(dict.fromkeys([*frame["first"], *frame["second"]])),
        )
        return (section,)


def crossed(swept: Mapping[str, Attribute]) -> dict[str, str]:
    """Map the sweep at the higher pole of the second attribute to that at the lower one, for each intersection."""
    return {
        name: f"{attribute.base}{AT}{attribute.given[0].poles[0]}"
        for name, attribute in swept.items()
        if attribute.given is not None and attribute.given[1] > 0
    }


def _of_y(frame: "pd.DataFrame") -> "pd.DataFrame":
    """Use slopes and differences of y instead of z: additive effects would differ in z, because y_c differs."""
    slopes = {f"{side}_slope": frame[f"{side}_slope"] * frame[f"{side}_y_c"] for side in ("first", "second")}
    return frame.assign(**slopes).rename(columns=OF_Z | OF_Y)


def _name(attribute: Attribute) -> str:
    """The intersection as in the option, such as gender*race."""
    other = "" if attribute.given is None else attribute.given[0].name
    return f"{attribute.base}{CROSSED}{other}"


def _part(rows: "pd.DataFrame", adapter: str, attribute: Attribute, slopes: "pd.DataFrame | None") -> page.Subsection:
    base, _, high = attribute.name.partition(AT)
    low = str(rows["second"].iloc[0]).partition(AT)[2]
    heading = f"{adapter}, perceived {base} on faces edited to perceived {high} less {low}"
    also: list[page.Column] = []
    if slopes is not None:
        own = slopes[(slopes["adapter"] == adapter) & (slopes["attribute"] == base)]
        rows = rows.assign(as_is=rows["label"].map(page.edits_of(own).set_index("label")["rd_slope"]))
        also = [("Slope, as is", "as_is", "signed")]
    return page.differences_part(
        rows,
        heading,
        names=(high, low),
        sides=(f"on faces edited to perceived {high}", f"on those edited to perceived {low}"),
        both=("at both poles", "at one pole"),
        axis=f"← steeper at {low} · difference of slopes · steeper at {high} →",
        title=f"Interactions: {heading}",
        also=also,
    )


INTERACTIONS = Interactions()
