"""Slopes for groups of photos, and their differences."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, FamilyOptions, Kept, Result
from pipeline.analyses.inputs import PERCEIVED, RunSweeps, groups_of, run_sweeps
from pipeline.config.attributes import Attribute
from pipeline.run.formats import decimal, pluralise
from pipeline.run.progress import Watch, unwatched

if TYPE_CHECKING:
    import pandas as pd

MAX_LABELS, MAX_GROUPS = 6, 6  # of the chart
KEYS = ["adapter", "attribute"]
SLOPES: tuple[page.Column, ...] = (
    ("Label", "label", "text"), ("Group", "group", "text"), ("Photos", "photos", "count"), ("Slope", "slope", "signed"),
    ("95 % interval", ("slope_low", "slope_high"), "interval"), ("p", "p", "p"), ("q", "q", "p"),
)  # fmt: skip
DIFFERENCES: tuple[page.Column, ...] = (
    ("Label", "label", "text"), ("Group", "group", "text"), ("Less", "other", "text"), *page.DIFFERENCE,
)  # fmt: skip


class SubgroupOptions(FamilyOptions):
    """Options for this command only."""

    by: str = Field(PERCEIVED, description="a manifest column, perceived (how the face is perceived) or folder")


class Subgroups(Analysis[SubgroupOptions]):
    """The slopes of a run for groups of its photos, and the differences between groups."""

    name = "subgroups"
    options = SubgroupOptions
    tables = ("subgroups", "subgroup_differences")
    uses = ("presence_threshold", "resamples", "seed")
    examples = ("counterslope subgroups runs/portraits --by perceived",)

    def compute(self, source: Path, options: SubgroupOptions, *, watch: Watch = unwatched) -> Result:
        """Slopes by group, and differences between every two groups."""
        known = run_sweeps(source, options.changes() | {"by": options.by})
        tables = self.of_every_run(known, watch)
        layouts = dict(zip(self.tables, (SLOPES, DIFFERENCES), strict=True))
        shown = {name: page.printed(table, KEYS, layouts[name]) for name, table in tables.items()}
        about = {"by": options.by}
        return Result(f"Slopes by {options.by}", tables, printed=shown, about=about, inputs=self.inputs(options))

    def of_every_run(self, known: RunSweeps, watch: Watch = unwatched) -> "Mapping[str, pd.DataFrame]":
        """The tables for the run's option ``by``, if it is set."""
        from pipeline.statistics import subgroup_frames, subgroup_slopes

        by = known.options.by
        if by is None:
            return {}
        groups, found = groups_of(known.photos, by, faces=known.faces), []
        with watch(self.name, total=len(known.sweeps)) as advance:
            for each in known.sweeps:
                found.append(subgroup_slopes(each, groups, **known.drawing, **known.rules))
                advance(1)
        return dict(zip(self.tables, subgroup_frames(found, family=known.options.family), strict=True))

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A part for each adapter and attribute."""
        slopes = page.edits_of(kept.tables["subgroups"])
        between = page.edits_of(kept.tables.get("subgroup_differences", slopes[:0].assign(difference=0.0)))
        by = str(kept.about.get("by", "group"))
        groups = "how the unchanged face is perceived" if by == PERCEIVED else by
        parts = []
        for (adapter, name), rows in page.rows_by(slopes, "adapter", "attribute"):
            own = between[(between["adapter"] == adapter) & (between["attribute"] == name)]
            parts.append(_part(rows, own, adapter, kept.attribute(name)))
        section = page.Section(
            key="groups",
            heading="Groups of photos",
            explanation=f"The slopes for groups of photos by {groups}: "
            "does a label change more in one group than in another?",
            parts=parts,
            caveats=[
                "Groups have fewer photos than the run: more labels are too rare, and intervals are wider.",
                "q: Benjamini–Hochberg over all groups and labels.",
            ],
            attributes=page.attributes_of(slopes),
        )
        return (section,)


def _part(slopes: "pd.DataFrame", between: "pd.DataFrame", adapter: str, attribute: Attribute) -> page.Subsection:
    known = slopes[slopes["estimable"].astype(bool)]
    heading = f"{adapter}, {attribute.subject}"
    if known.empty:
        groups = page.listed(list(dict.fromkeys(slopes["group"])))
        return page.Subsection(heading, [f"No label can be estimated in any group ({groups})."])
    order = known["slope"].abs().groupby(known["label"]).max().sort_values(ascending=False, kind="stable")
    place = {str(label): number for number, label in enumerate(order.index)}
    known = known.assign(place=known["label"].map(place)).sort_values(["place", "group"], kind="stable")
    compared = page.largest_first(between[between["difference"].notna()], "difference")
    tables = [page.Table(f"{pluralise(len(known), 'slope')} by label and group", known, SLOPES)]
    if len(between):
        caption = f"{pluralise(len(compared), 'difference')} between two groups, largest first"
        tables.append(page.Table(caption, compared, DIFFERENCES))
    chart = _chart(known, list(place)[:MAX_LABELS], heading, attribute)
    return page.Subsection(heading, _sentences(compared, known), charts=[chart], tables=tables)


def _sentences(compared: "pd.DataFrame", known: "pd.DataFrame") -> list[str]:
    sizes = known.groupby("group")["photos"].max()
    groups = page.listed([f"{group} ({pluralise(photos, 'photo')})" for group, photos in sizes.items()], most=8)
    opening = f"{pluralise(known['label'].nunique(), 'label')} can be estimated in a group or more: {groups}."
    if compared.empty:
        return [opening, "No label can be estimated in two groups, so none can be compared."]
    tested = f"{pluralise(len(compared), 'difference')} between groups tested"
    return [
        opening,
        *page.differences(
            compared,
            tested,
            lambda row: (
                f"slope {decimal(row['group_slope'], sign=True)} among {row['group']}, "
                f"{decimal(row['other_slope'], sign=True)} among {row['other']}"
            ),
        ),
    ]


def _chart(known: "pd.DataFrame", labels: Sequence[str], heading: str, attribute: Attribute) -> page.Dots:
    sizes = known.groupby("group")["photos"].max().sort_values(ascending=False, kind="stable")
    groups = [str(group) for group in sizes.index[:MAX_GROUPS]]
    rows = known[known["label"].isin(labels) & known["group"].isin(groups)]
    low, high = attribute.poles
    return page.Dots(
        page.dot_rows(rows, "label", "slope", "slope_low", "slope_high", "group"),
        axis=f"← {low} · slope · {high} →",
        title=f"Slopes by group: {heading}",
        description=f"Labels {page.listed(labels)}, in the groups {page.listed(groups)}.",
        caption=f"Slopes by group with their 95 % intervals: the {len(labels)} labels with the largest slope in any "
        f"group.{page.cut(len(groups), len(sizes), noun=' groups')}",
        series=groups,
    )


SUBGROUPS = Subgroups()
