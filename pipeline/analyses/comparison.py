"""Comparison of two runs, or of two classifiers of a run, on the same photos."""

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from pipeline.analyses import sections as page
from pipeline.analyses.artifacts import ANSWERED
from pipeline.analyses.base import Analysis, FamilyOptions, Kept, Result
from pipeline.analyses.inputs import RunSweeps, run_sweeps
from pipeline.config.attributes import Attribute
from pipeline.config.flags import Flag, listed
from pipeline.run.formats import pluralise
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.statistics import Sweeps

FOR_MACHINES = ["estimable", "family", "tested", "arm", "rd_difference", "rd_low", "rd_high", "rd_p"]
MAX_NAMES = 10  # of photos in a note
PAIRED = (
    "The comparison is paired by photo, so common variation cancels out: the interval of a difference is narrower than "
    "the intervals of the two slopes suggest."
)
MULTIPLE = "q: Benjamini–Hochberg over the labels compared."


class ComparisonOptions(FamilyOptions):
    """Options for both runs; by default those of the first."""

    other: Annotated[Path | None, Flag(argument=True)] = Field(
        None, description="another run's folder; default: the same run"
    )
    adapters: Annotated[tuple[str, ...] | None, Flag(metavar="FIRST,SECOND", parse=listed)] = Field(
        None, description="the classifier of each run; default: every classifier with itself"
    )


class Comparison(Analysis[ComparisonOptions]):
    """The difference of every label's slope between two runs or classifiers, paired by photo."""

    name = "comparison"
    command = "compare"
    options = ComparisonOptions
    shows = ("adapter_comparison", "comparison")
    examples = (
        "counterslope compare runs/may runs/june",
        "counterslope compare runs/may --adapters google,rekognition",
    )

    def compute(self, source: Path, options: ComparisonOptions, *, watch: Watch = unwatched) -> Result:
        """Differences between two runs, or between two classifiers of a run; only the former are stored.

        Two photos are the same if their names and bytes are equal.
        """
        from pipeline.statistics import compare, comparison_frame
        from pipeline.statistics.comparison import only_in

        second = options.other or source
        same_run, adapters = source.resolve() == second.resolve(), options.adapters
        if adapters is not None and len(adapters) != 2:
            raise RunError(f"name two adapters, as in --adapters opencv,face-attributes, not {', '.join(adapters)!r}")
        if adapters is None and same_run:
            raise RunError("a run compared with itself differs by 0: name another run, or two adapters with --adapters")
        one = run_sweeps(source, options.changes())
        # The clusters are those of the first run; the manifest of the second need not have them.
        two = run_sweeps(second, options=one.options.model_copy(update={"cluster": None}))
        ours, theirs = (dict(zip(run.photos["photo"], run.photos["sha256"], strict=True)) for run in (one, two))
        names = ("{}", "{}") if same_run else (f"{source.name}: {{}}", f"{second.name}: {{}}")
        pairs, comparisons = _pairs(one, two, adapters), []
        compared, only_first = set[str](), set[str]()
        with watch(self.name, total=len(pairs)) as advance:
            for left, right in pairs:
                alike = right.of_photos([photo for photo in right.photos if ours.get(photo) == theirs[photo]])
                sides = names[0].format(left.adapter), names[1].format(right.adapter)
                comparisons.append(compare(left, alike, names=sides, **one.rules))
                compared |= set(left.photos) & set(alike.photos)
                only_first |= set(only_in(left, alike))
                advance(1)
        if pairs and not compared:
            raise RunError(
                f"{source} and {second} have no photo in common: photos are matched by their bytes and by their name "
                "relative to the folder or manifest (a.jpg is not portraits/a.jpg)"
            )
        only_second = {photo for _, right in pairs for photo in (*right.photos, *right.incomplete)} - compared
        frame = comparison_frame(comparisons, family=_family(one.options.family))
        order = ["attribute", "first", "p", "label"]
        edits = page.edits_of(frame)
        known = edits[edits["estimable"].astype(bool)]
        shown = known if len(known) else edits  # the latter for their reasons
        return Result(
            title="Difference of slopes, first less second, on the same photos",
            tables={self.name: frame},
            printed={self.name: shown.drop(columns=FOR_MACHINES).sort_values(order, ignore_index=True)},
            notes=[
                f"{pluralise(len(only), 'photo')} only in the {which}: {', '.join(sorted(only)[:MAX_NAMES])}"
                + (" …" if len(only) > MAX_NAMES else "")
                for which, only in (("first", only_first), ("second", only_second))
                if only
            ],
            kept=dict if same_run else None,
            about={"other": second.name, "only_first": len(only_first), "only_second": len(only_second)},
            inputs=self.inputs(options, elsewhere=[second / file for file in ANSWERED]),
        )

    def of_every_run(self, known: RunSweeps, watch: Watch = unwatched) -> "Mapping[str, pd.DataFrame]":
        """Compare every two classifiers of a run on the labels that both returned, by attribute."""
        from pipeline.statistics import compare, comparison_frame

        edits = sorted(known.edits, key=lambda each: (each.attribute, each.adapter))
        pairs = [pair for pair in combinations(edits, 2) if pair[0].attribute == pair[1].attribute]
        if not pairs:
            return {"adapter_comparison": comparison_frame([])}
        comparisons = []
        with watch(self.name, total=len(pairs)) as advance:
            for left, right in pairs:
                if shared := sorted(set(left.labels) & set(right.labels)):
                    sides, names = (left.of_labels(shared), right.of_labels(shared)), (left.adapter, right.adapter)
                    comparisons.append(compare(*sides, names=names, **known.rules))
                advance(1)
        return {"adapter_comparison": comparison_frame(comparisons, family=_family(known.options.family))}

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """Comparisons of the run's classifiers, and of the run with another."""
        found = []
        for name in self.shows:
            if name not in kept.tables:
                continue
            frame = page.edits_of(kept.tables[name])
            parts = [
                _part(rows, (first, second), kept.attribute(attribute))
                for (attribute, first, second), rows in page.rows_by(frame, "attribute", "first", "second")
            ]
            words = _of_classifiers() if name == "adapter_comparison" else _of_runs(kept.about)
            found.append(page.Section(**words, parts=parts, attributes=page.attributes_of(frame)))
        return found


def _of_classifiers() -> dict[str, Any]:
    return {
        "key": "classifiers",
        "heading": "Classifiers compared",
        "explanation": "Labels of the same name from two classifiers: does one change more with the perceived "
        f"attribute than the other? {PAIRED}",
        "caveats": [
            "Labels of the same name may have different meanings and frequencies in the two classifiers.",
            MULTIPLE,
        ],
    }


def _of_runs(about: Mapping[str, Any]) -> dict[str, Any]:
    other = page.quoted(about["other"])
    left_out = [
        f"Not compared, because only in {where}: {pluralise(about[name], 'photo')}."
        for name, where in (("only_first", "this run"), ("only_second", other))
        if about[name]
    ]
    return {
        "key": "runs",
        "heading": "Runs compared",
        "explanation": f"This run against the run {other} on the photos that both have. {PAIRED}",
        "caveats": [
            *left_out,
            "Two runs may differ in the classifier's version, its options and the edits. The difference does not show "
            "which is the cause.",
            MULTIPLE,
        ],
    }


def _pairs(one: RunSweeps, two: RunSweeps, adapters: Sequence[str] | None) -> "list[tuple[Sweeps, Sweeps]]":
    """Pairs of sweeps of the same attribute and arm, of the same adapter or of the two given ones."""
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


def _family(columns: Sequence[str]) -> list[str]:
    """The run's family columns by their names in a comparison."""
    return [name for column in columns for name in (("first", "second") if column == "adapter" else (column,))]


def _part(rows: "pd.DataFrame", names: tuple[str, str], attribute: Attribute) -> page.Subsection:
    low, high = attribute.poles
    heading = f"{names[0]} less {names[1]}, {attribute.subject}"
    return page.differences_part(
        rows,
        heading,
        names=names,
        sides=(f"by {names[0]}", f"by {names[1]}"),
        both=("in both", "in one of the two"),
        axis=f"← {low} · difference · {high} →",
        title=f"Differences of slopes: {heading}",
    )


COMPARISON = Comparison()
