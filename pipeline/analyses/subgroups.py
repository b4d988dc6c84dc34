"""Slopes for groups of photos: does a label move more in one group than in another?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from pipeline.analyses.base import Analysis, Family, Options, Result, option_of_run
from pipeline.analyses.inputs import PERCEIVED, RunSweeps, groups_of, run_sweeps
from pipeline.analyses.sections import (
    SURE,
    Column,
    Dots,
    Section,
    Subsection,
    Table,
    attributes_of,
    bounds,
    cut,
    dot_rows,
    edits_of,
    largest_first,
    listed,
    quoted,
    rows_by,
)
from pipeline.config.attributes import Attribute, attribute_of
from pipeline.config.options import Response
from pipeline.run.formats import count, decimal, p_equals, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

NAMED, DRAWN, COLOURS = 3, 6, 6  # differences in sentences, labels of the chart, groups of the chart
TESTS = (Column("p", "p", "p"), Column("q", "q", "p"))


class SubgroupOptions(Options):
    """Options that hold for this command only."""

    by: str = Field(PERCEIVED, description="a manifest column, perceived (how the face is perceived) or folder")
    response: Response | None = option_of_run("response")
    cluster: str | None = option_of_run("cluster")
    family: Family = option_of_run("family")
    min_count: float | None = option_of_run("min_count")


class Subgroups(Analysis[SubgroupOptions]):
    """The slopes of a run again for groups of its photos, and the differences between groups."""

    name = "subgroups"
    options = SubgroupOptions
    tables = ("subgroups", "subgroup_differences")
    uses = ("presence_threshold", "response", "cluster", "family", "min_count", "resamples", "seed")
    examples = ("counterslope subgroups runs/portraits --by perceived",)

    def compute(self, source: Path, options: SubgroupOptions, *, watch: Watch = unwatched) -> Result:
        """Slopes by group, and differences between every two groups.

        Raises:
            RunError: the folder holds no run, or one without labels.
            ConfigError: an option does not fit, or the manifest lacks its column.
        """
        known = run_sweeps(source, options.changes() | {"by": options.by})
        tables = self.of_every_run(known)
        return Result(f"Slopes by {options.by}", tables, about={"by": options.by}, inputs=self.inputs(options))

    def of_every_run(self, known: RunSweeps) -> "Mapping[str, pd.DataFrame]":
        """The tables of the groups that the run's options name; none where they name none."""
        from pipeline.statistics import subgroup_frames, subgroup_slopes

        by = known.options.by
        if by is None:
            return {}
        groups = groups_of(known.photos, by, faces=known.faces)
        found = [subgroup_slopes(each, groups, **known.drawing, **known.rules) for each in known.sweeps]
        slopes, differences = subgroup_frames(found, family=known.options.family)
        return {"subgroups": slopes, "subgroup_differences": differences}

    def sections(
        self, tables: "Mapping[str, pd.DataFrame]", about: Mapping[str, Any], *, swept: Mapping[str, Attribute]
    ) -> Sequence[Section]:
        """One part for each adapter and attribute."""
        slopes = edits_of(tables["subgroups"])
        differences = edits_of(tables.get("subgroup_differences", slopes[:0].assign(difference=0.0)))
        by = str(about.get("by", "group"))
        groups = "how the unchanged face is perceived" if by == PERCEIVED else by
        parts = []
        for (adapter, name), rows in rows_by(slopes, "adapter", "attribute"):
            own = differences[(differences["adapter"] == adapter) & (differences["attribute"] == name)]
            parts.append(_part(rows, own, adapter, attribute_of(name, swept)))
        section = Section(
            key="groups",
            heading="Groups of photos",
            explanation=f"The slopes again, for groups of photos by {groups}: "
            "does a label move more in one group than in another?",
            parts=parts,
            caveats=[
                "Groups hold fewer photos than the whole: more labels are too rare, and intervals are wider.",
                "q: Benjamini–Hochberg over all groups and labels.",
            ],
            attributes=attributes_of(slopes),
        )
        return (section,)


def _part(slopes: "pd.DataFrame", differences: "pd.DataFrame", adapter: str, attribute: Attribute) -> Subsection:
    known = slopes[slopes["estimable"].astype(bool)]
    heading = f"{adapter}, {attribute.subject}"
    if known.empty:
        groups = listed(list(dict.fromkeys(slopes["group"])))
        return Subsection(heading, [f"No label can be estimated in any group ({groups})."])
    order = known["slope"].abs().groupby(known["label"]).max().sort_values(ascending=False, kind="stable")
    place = {str(label): number for number, label in enumerate(order.index)}
    known = known.assign(place=known["label"].map(place)).sort_values(["place", "group"], kind="stable")
    compared = largest_first(differences[differences["difference"].notna()], "difference")
    return Subsection(
        heading=heading,
        sentences=_sentences(compared, known),
        charts=[_chart(known, list(place)[:DRAWN], heading, attribute)],
        tables=[
            Table(
                f"{pluralise(len(known), 'slope')} by label and group",
                (
                    Column("Label", "label"),
                    Column("Group", "group"),
                    Column("Photos", "photos", "count"),
                    Column("Slope", "slope", "signed"),
                    Column("95 % interval", ("slope_low", "slope_high"), "interval"),
                    *TESTS,
                ),
                known,
            ),
            *([_differences(compared)] if len(differences) else []),
        ],
    )


def _differences(compared: "pd.DataFrame") -> Table:
    columns = (
        Column("Label", "label"),
        Column("Group", "group"),
        Column("Less", "other"),
        Column("Difference", "difference", "signed"),
        Column("95 % interval", ("difference_low", "difference_high"), "interval"),
        *TESTS,
    )
    return Table(f"{pluralise(len(compared), 'difference')} between two groups, largest first", columns, compared)


def _sentences(compared: "pd.DataFrame", known: "pd.DataFrame") -> list[str]:
    sizes = known.groupby("group", sort=False)["photos"].max().sort_index()
    groups = listed([f"{group} ({pluralise(photos, 'photo')})" for group, photos in sizes.items()], most=8)
    opening = f"{pluralise(known['label'].nunique(), 'label')} can be estimated in a group or more: {groups}."
    if compared.empty:
        return [opening, "No label can be estimated in two groups, so none can be compared."]
    differ = compared[compared["q"] < SURE]
    if differ.empty:
        reach = compared[["difference_low", "difference_high"]].abs().to_numpy(float).max()
        return [
            opening,
            f"{pluralise(len(compared), 'difference')} between groups tested: no evidence of one larger than "
            f"{decimal(reach)}, the farthest end of the 95 % intervals (none has q < 0.05).",
        ]
    return [
        opening,
        f"{count(len(differ))} of {count(len(compared))} differences between groups have q < 0.05.",
        *map(_sentence, differ[:NAMED].to_dict("records")),
    ]


def _sentence(row: Mapping[Any, Any]) -> str:
    slopes = (
        f"slope {decimal(row['group_slope'], sign=True)} among {row['group']}, "
        f"{decimal(row['other_slope'], sign=True)} among {row['other']}"
    )
    difference = bounds(row["difference"], row["difference_low"], row["difference_high"])
    return f"{quoted(row['label'])}: {slopes}; difference {difference}, {p_equals('q', row['q'])}."


def _chart(known: "pd.DataFrame", labels: Sequence[str], heading: str, attribute: Attribute) -> Dots:
    sizes = known.groupby("group")["photos"].max().sort_values(ascending=False, kind="stable")
    groups = [str(group) for group in sizes.index[:COLOURS]]
    rows = known[known["label"].isin(labels) & known["group"].isin(groups)]
    low, high = attribute.poles
    return Dots(
        dot_rows(rows, label="label", value="slope", low="slope_low", high="slope_high", series="group"),
        axis=f"← {low} · slope · {high} →",
        title=f"Slopes by group: {heading}",
        description=f"Labels {listed(labels)}, in the groups {listed(groups)}.",
        caption=f"Slopes by group with their 95 % intervals: the {len(labels)} labels with the largest slope in any "
        f"group.{cut(len(groups), len(sizes), noun=' groups')}",
        series=groups,
    )


SUBGROUPS = Subgroups()
