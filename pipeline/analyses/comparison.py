"""Two runs, or two classifiers of one run, on the same photos: the difference of every label's slope."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from pipeline.analyses.artifacts import ANSWERED
from pipeline.analyses.base import Analysis, Family, Options, Result, option_of_run
from pipeline.analyses.inputs import RunSweeps, run_sweeps
from pipeline.analyses.sections import (
    MOST,
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
    quoted,
    rows_by,
)
from pipeline.config.attributes import Attribute, attribute_of
from pipeline.config.options import Flag, listed
from pipeline.run.formats import count, decimal, p_equals, pluralise
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.statistics import Sweeps

FOR_MACHINES = ["estimable", "family", "tested", "arm", "rd_difference", "rd_low", "rd_high", "rd_p"]
NAMED = 3  # differences in sentences
MOST_PHOTOS = 10  # named in a note
PAIRED = (
    "The same photos are compared with themselves, so what both see in a photo cancels out: the interval of a "
    "difference is narrower than the two slopes' own suggest."
)
MULTIPLE = "q: Benjamini–Hochberg over the labels compared."


class ComparisonOptions(Options):
    """Options of the first run hold for both unless given."""

    other: Annotated[Path | None, Flag(argument=True)] = Field(
        None, description="another run's folder; the same run unless given"
    )
    adapters: Annotated[tuple[str, ...] | None, Flag(metavar="FIRST,SECOND", parse=listed)] = Field(
        None, description="the classifier of each run; every classifier with itself unless given"
    )
    min_count: float | None = option_of_run("min_count")
    cluster: str | None = option_of_run("cluster")
    family: Family = option_of_run("family")


class Comparison(Analysis[ComparisonOptions]):
    """The difference of every label's slope between two runs or classifiers, paired photo by photo."""

    name = "comparison"
    command = "compare"
    options = ComparisonOptions
    shows = ("adapter_comparison", "comparison")
    uses = ("presence_threshold", "response", "cluster", "min_count", "family")
    examples = (
        "counterslope compare runs/may runs/june",
        "counterslope compare runs/may --adapters google,rekognition",
    )

    def compute(self, source: Path, options: ComparisonOptions, *, watch: Watch = unwatched) -> Result:
        """Differences between two runs, or between two classifiers of one run; only the former stay in the run.

        Two photos are the same if they have the same name and the same bytes.

        Raises:
            RunError: nothing to compare: no run, no labels, or no adapter and attribute in common.
            ConfigError: an option has an impossible value.
            ValueError: the sweeps have other values.
        """
        from pipeline.statistics import compare, comparison_frame

        second = options.other or source
        same_run, adapters = source.resolve() == second.resolve(), options.adapters
        if adapters is not None and len(adapters) != 2:
            raise RunError(f"name two adapters, as in --adapters opencv,face-attributes, not {', '.join(adapters)!r}")
        if adapters is None and same_run:
            raise RunError("a run compared with itself differs by 0: name another run, or two adapters with --adapters")
        one = run_sweeps(source, options.changes())
        # The clusters are the first run's; the second's manifest need not have them.
        two = run_sweeps(second, options=one.options.model_copy(update={"cluster": None}))
        ours, theirs = _sha256(one), _sha256(two)
        names = ("{0}", "{0}") if same_run else (f"{source.name}: {{0}}", f"{second.name}: {{0}}")
        pairs = _pairs(one, two, adapters)
        comparisons = [
            compare(
                left,
                right.of_photos([photo for photo in right.photos if ours.get(photo) == theirs[photo]]),
                names=(names[0].format(left.adapter), names[1].format(right.adapter)),
                **one.rules,
            )
            for left, right in pairs
        ]
        compared = {photo for each in comparisons for photo in each.photos}
        only_first = {photo for each in comparisons for photo in each.only_first}
        only_second = {photo for _, right in pairs for photo in (*right.photos, *right.incomplete)} - compared
        frame = comparison_frame(comparisons, family=_family(one.options.family))
        return Result(
            title="Difference of slopes, first less second, on the same photos",
            tables={self.name: frame},
            printed={
                self.name: frame.drop(columns=FOR_MACHINES).sort_values(
                    ["attribute", "first", "p", "label"], ignore_index=True
                )
            },
            notes=[
                f"{pluralise(len(only), 'photo')} only in the {which}: {', '.join(sorted(only)[:MOST_PHOTOS])}"
                + (" …" if len(only) > MOST_PHOTOS else "")
                for which, only in (("first", only_first), ("second", only_second))
                if only
            ],
            kept=dict if same_run else None,
            about={"other": second.name, "only_first": len(only_first), "only_second": len(only_second)},
            inputs=self.inputs(options, elsewhere=[second / file for file in ANSWERED]),
        )

    def of_every_run(self, known: RunSweeps) -> "Mapping[str, pd.DataFrame]":
        """Every two classifiers of a run on the labels that both returned, by attribute."""
        from pipeline.statistics import compare, comparison_frame

        edits = sorted(known.edits, key=lambda each: (each.attribute, each.adapter))
        comparisons = []
        for left, right in combinations(edits, 2):
            shared = sorted(set(left.labels) & set(right.labels))
            if left.attribute == right.attribute and shared:
                sides, names = (left.of_labels(shared), right.of_labels(shared)), (left.adapter, right.adapter)
                comparisons.append(compare(*sides, names=names, **known.rules))
        return {"adapter_comparison": comparison_frame(comparisons, family=_family(known.options.family))}

    def sections(
        self, tables: "Mapping[str, pd.DataFrame]", about: Mapping[str, Any], *, swept: Mapping[str, Attribute]
    ) -> Sequence[Section]:
        """The classifiers of this run, and this run against another."""
        found = []
        if "adapter_comparison" in tables:
            frame = edits_of(tables["adapter_comparison"])
            found.append(
                Section(
                    key="classifiers",
                    heading="Classifiers compared",
                    explanation="Labels of the same name from two classifiers: does one move more with the perceived "
                    f"attribute than the other? {PAIRED}",
                    parts=_parts(frame, swept),
                    caveats=[
                        "Labels of the same name need not mean the same to both classifiers, nor be given as often.",
                        MULTIPLE,
                    ],
                    attributes=attributes_of(frame),
                )
            )
        if self.name in tables:
            frame, other = edits_of(tables[self.name]), quoted(about["other"])
            left_out = [
                f"Not compared, being in {where} only: {pluralise(about[name], 'photo')}."
                for name, where in (("only_first", "this run"), ("only_second", other))
                if about[name]
            ]
            found.append(
                Section(
                    key="runs",
                    heading="Runs compared",
                    explanation=f"This run against the run {other} on the photos that both have. {PAIRED}",
                    parts=_parts(frame, swept),
                    caveats=[
                        *left_out,
                        "Two runs differ in whatever was changed between them: the classifier's version, its options, "
                        "the edits. The difference does not say which.",
                        MULTIPLE,
                    ],
                    attributes=attributes_of(frame),
                )
            )
        return found


def _sha256(known: RunSweeps) -> dict[str, str]:
    """Photo -> sha256 of its file."""
    return dict(zip(known.photos["photo"], known.photos["sha256"], strict=True))


def _pairs(one: RunSweeps, two: RunSweeps, adapters: Sequence[str] | None) -> "list[tuple[Sweeps, Sweeps]]":
    """Sweeps of the same attribute and arm, of the same adapter or of the two named ones."""
    for known, adapter in zip((one, two), adapters or (), strict=False):
        there = sorted({each.adapter for each in known.sweeps})
        if adapter not in there:
            raise RunError(f"{known.run.folder} has no adapter {adapter!r}; it has {', '.join(there)}")
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


def _family(columns: Sequence[str]) -> list[str]:
    """The run's columns by their names in a comparison."""
    return [name for column in columns for name in (("first", "second") if column == "adapter" else (column,))]


def _parts(frame: "pd.DataFrame", swept: Mapping[str, Attribute]) -> list[Subsection]:
    return [
        _part(rows, (first, second), attribute_of(name, swept))
        for (name, first, second), rows in rows_by(frame, "attribute", "first", "second")
    ]


def _part(rows: "pd.DataFrame", names: tuple[str, str], attribute: Attribute) -> Subsection:
    known = largest_first(rows[rows["estimable"].astype(bool)], "difference")
    heading = f"{names[0]} less {names[1]}, {attribute.subject}"
    columns = (
        Column("Label", "label"),
        Column(f"Slope, {names[0]}", "first_slope", "signed"),
        Column(f"Slope, {names[1]}", "second_slope", "signed"),
        Column("Difference", "difference", "signed"),
        Column("95 % interval", ("difference_low", "difference_high"), "interval"),
        Column("p", "p", "p"),
        Column("q", "q", "p"),
    )
    table = Table(f"{pluralise(len(known), 'label')}, largest difference first", columns, known)
    return Subsection(
        heading=heading,
        sentences=_sentences(known, names, missing=len(rows) - len(known)),
        charts=[_chart(known, heading, attribute)] if len(known) else [],
        tables=[table] if len(known) else [],
    )


def _sentences(known: "pd.DataFrame", names: tuple[str, str], *, missing: int) -> list[str]:
    left_out = [f"{count(missing)} more can be estimated in one of the two at most."] if missing else []
    if known.empty:
        return ["No label can be estimated in both, so nothing can be said about a difference.", *left_out]
    tested = f"{pluralise(len(known), 'label')} compared on {pluralise(known['photos'].max(), 'photo')}"
    differ = known[known["q"] < SURE]
    if differ.empty:
        reach = known[["difference_low", "difference_high"]].abs().to_numpy(float).max()
        return [
            f"{tested}: no evidence of a difference of slopes larger than {decimal(reach)}, the farthest end of the "
            "95 % intervals (none has q < 0.05).",
            *left_out,
        ]
    return [
        f"{tested}: the slopes of {count(len(differ))} differ (q < 0.05).",
        *(_sentence(row, names) for row in differ[:NAMED].to_dict("records")),
        *left_out,
    ]


def _sentence(row: Mapping[Any, Any], names: tuple[str, str]) -> str:
    first, second = (decimal(row[f"{side}_slope"], sign=True) for side in ("first", "second"))
    difference = bounds(row["difference"], row["difference_low"], row["difference_high"])
    return (
        f"{quoted(row['label'])}: slope {first} by {names[0]}, {second} by {names[1]}; difference {difference}, "
        f"{p_equals('q', row['q'])}."
    )


def _chart(known: "pd.DataFrame", heading: str, attribute: Attribute) -> Dots:
    shown = known[:MOST].sort_values("difference", ascending=False, kind="stable")
    largest = known.iloc[0]
    low, high = attribute.poles
    return Dots(
        dot_rows(shown, label="label", value="difference", low="difference_low", high="difference_high"),
        axis=f"← {low} · difference · {high} →",
        title=f"Differences of slopes: {heading}",
        description=f"{pluralise(len(shown), 'label')}; the largest difference is {decimal(largest['difference'])}, "
        f"{quoted(largest['label'])}.",
        caption="Differences of slopes with their 95 % intervals; full where the interval excludes 0."
        + cut(len(shown), len(known)),
    )


COMPARISON = Comparison()
