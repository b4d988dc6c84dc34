"""Who is shown in a set of photos: shares of perceived attributes by group, raw and corrected."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from pydantic import Field

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Options, Result, option_of_run
from pipeline.analyses.inputs import FOLDER, clusters_of, groups_of
from pipeline.config.attributes import ATTRIBUTES, Attribute
from pipeline.review.answers import FILE as REVIEWS
from pipeline.review.answers import read_faces
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import MISSING, count, is_missing, measured
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import pandas as pd

RAW, CORRECTED = "as perceived", "corrected for the estimator's errors"
CHARTS = 6
COUNTED = {name: attribute for name, attribute in ATTRIBUTES.items() if attribute.names_groups}
CLASSES = {name: attribute.classes for name, attribute in COUNTED.items()}


class RepresentationOptions(Options):
    """How the photos are grouped and the intervals are made."""

    renamed: ClassVar[Mapping[str, str]] = {"method": "interval"}

    by: str = Field(FOLDER, description="a manifest column, such as keyword; or folder")
    interval: Literal["wilson", "exact"] = Field(
        "wilson", description="of the raw shares; the bootstrap's with --cluster"
    )
    cluster: str | None = option_of_run("cluster")


class RepresentationAnalysis(Analysis[RepresentationOptions]):
    """Shares of perceived gender and race in photos, or in those of a run, raw and corrected for estimation errors."""

    name = "representation"
    command = "represent"
    reads = ("photos", "run")
    options = RepresentationOptions
    uses = ("cluster", "resamples", "seed")
    examples = ("counterslope represent results.csv --by keyword --out runs/results",)

    def compute(self, source: Path, options: RepresentationOptions, *, watch: Watch = unwatched) -> Result:
        """Shares of the photos' central faces, one row a group, attribute and class, of a run that has its faces."""
        from pipeline.statistics import representation_frame, shares_by_group

        run = Run(source)
        own = settings_of(run, {"statistics": options.changes()}).statistics
        if not run.path("faces.parquet").is_file():
            raise RunError(f"the faces of {source} are not found yet: finish the run, or name photos")
        photos, faces = read_frame(run.path("photos.parquet")), read_faces(run)
        groups, clusters = groups_of(photos, options.by), clusters_of(photos, own.cluster)
        shown = faces[(faces["status"] == "ok") & faces["photo"].isin(list(groups))]
        confusion, notes = _confusion()
        parts = shares_by_group(
            {name: attribute.classes_of(shown) for name, attribute in COUNTED.items()},
            CLASSES,
            [groups[photo] for photo in shown["photo"]],
            confusion=confusion,
            probabilities={name: _probabilities(attribute, shown) for name, attribute in COUNTED.items()},
            method=options.interval,
            clusters=None if clusters is None else [clusters[photo] for photo in shown["photo"]],
            resamples=own.resamples,
            seed=own.seed,
        )
        doubts = {name: [note for each in parts if each.attribute == name for note in each.notes] for name in COUNTED}
        left_out = len(photos) - len(shown)
        if left_out:
            notes.append(f"{left_out} of {len(photos)} photos are not counted: no usable face, or no group.")
        return Result(
            title=f"Perceived {' and '.join(COUNTED)} by {options.by}, as perceived and corrected",
            tables={self.name: representation_frame(parts)},
            notes=[*(note for each in doubts.values() for note in each), *notes],
            about={"by": options.by, "interval": options.interval, "notes": notes, "doubts": doubts},
            inputs=self.inputs(options, files=("photos.parquet", "faces.parquet", REVIEWS)),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """One part for each attribute."""
        by = str(kept.about["by"])
        section = page.Section(
            key=self.name,
            heading="Who is shown",
            explanation=f"How the faces of these photos are perceived, by {by}: the shares as the estimator perceives "
            "them, and the true shares that explain these best, given how often it errs on held-out faces.",
            parts=[
                _part(rows, by, name, doubts=kept.about.get("doubts", {}).get(name, ()))
                for (name,), rows in page.rows_by(kept.tables[self.name], "attribute")
            ],
            caveats=[
                *map(str, kept.about.get("notes", ())),
                "The corrected shares hold if the estimator errs on these photos as it does on the held-out faces; "
                "their intervals count how well its errors are known.",
                "They are shares of perceived attributes among the central faces of these photos, not of anybody's "
                "identity, and say nothing of photos that are not here.",
            ],
        )
        return (section,)


def _confusion() -> tuple[dict[str, list[list[int]]] | None, list[str]]:
    """The estimator's errors on held-out faces by attribute; without them a note says so."""
    from models.confusion import ConfusionError, read_confusion
    from models.weights import record

    try:
        matrix = read_confusion("estimator", weights=record("estimator").sha256)
    except ConfusionError as error:
        return None, [f"Shares are not corrected: {error}."]
    return {attribute: matrix.of(names) for attribute, names in CLASSES.items()}, []


def _probabilities(attribute: Attribute, faces: "pd.DataFrame") -> Any:
    """``(n, C)`` probabilities of the attribute's classes, as the estimator gives them for each face."""
    import numpy as np

    if attribute.categories:
        table = faces[list(attribute.inputs)].to_numpy(dtype=np.float64)
        return table / table.sum(axis=1, keepdims=True)
    higher = (1 + faces[attribute.inputs[0]].to_numpy(dtype=np.float64)) / 2
    return np.column_stack([1 - higher, higher])


def _part(rows: "pd.DataFrame", by: str, attribute: str, *, doubts: Sequence[str]) -> page.Subsection:
    classes, groups = list(dict.fromkeys(rows["category"])), page.rows_by(rows, "group")
    several = len(groups) > 1
    if len(classes) == 2 and several:
        one = rows[rows["category"] == classes[0]].sort_values("share", ascending=False, kind="stable")
        charts = [_chart(one, "group", f"share perceived as {classes[0]}, by {by}")]
    else:
        largest = sorted(groups, key=lambda item: -int(item[1]["photos"].iloc[0]))[:CHARTS]
        charts = [
            _chart(own, "category", f"perceived {attribute}" + (f", {by} {group}" if several else ""))
            for (group,), own in largest
        ]
    columns: list[page.Column] = [
        (by.capitalize(), "group", "text"), ("Perceived as", "category", "text"), ("Faces", "faces", "text"),
        ("Share", "share", "share"), ("95 % interval", ("share_low", "share_high"), "share interval"),
        ("Corrected", "corrected", "share"), ("95 % interval", ("corrected_low", "corrected_high"), "share interval"),
    ]  # fmt: skip
    faces = [f"{count(some)} of {count(all_)}" for some, all_ in zip(rows["count"], rows["photos"], strict=True)]
    return page.Subsection(
        heading=f"Perceived {attribute}",
        sentences=[*doubts, *(_sentence(own, group if several else "", by) for (group,), own in groups[:CHARTS])],
        charts=charts,
        tables=[page.Table(f"Perceived {attribute} by {by}", rows.assign(faces=faces), columns)],
    )


def _sentence(rows: "pd.DataFrame", group: str, by: str) -> str:
    """The largest share of a group, as perceived and corrected."""
    row = rows.sort_values("share", ascending=False, kind="stable").iloc[0]
    about = f"{by} “{group}”: " if group else ""
    raw = f"{_share(row['share'])} of {count(row['photos'])} faces perceived as {row['category']}"
    bounds = f"95 % interval {_interval(row['share_low'], row['share_high'])}"
    if is_missing(row["corrected"]):
        return f"{about}{raw} ({bounds}; not corrected)."
    corrected = f"{_share(row['corrected'])}, {_interval(row['corrected_low'], row['corrected_high'])}"
    return f"{about}{raw} ({bounds}; corrected {corrected})."


def _chart(rows: "pd.DataFrame", column: str, about: str) -> page.Dots:
    import pandas as pd

    shown = rows[: page.MOST]
    parts = {RAW: page.dot_rows(shown, column, "share", "share_low", "share_high")}
    corrected = shown[shown["corrected"].notna()]
    if len(corrected):
        parts[CORRECTED] = page.dot_rows(corrected, column, "corrected", "corrected_low", "corrected_high")
    names = page.listed([f"{name} {_share(share)}" for name, share in zip(shown[column], shown["share"], strict=True)])
    caption = f"{about[:1].upper()}{about[1:]}, with 95 % intervals.{page.cut(len(shown), len(rows))}"
    return page.Dots(
        pd.concat([part.assign(series=series) for series, part in parts.items()]),
        axis=about,
        title=caption,
        description=f"As perceived: {names}.",
        caption=caption,
        around=None,
        shares=True,
        series=list(parts),
    )


def _share(value: float) -> str:
    return measured(value, "share")


def _interval(low: float, high: float) -> str:
    return MISSING if is_missing(low) or is_missing(high) else f"{_share(low)} to {_share(high)}"


REPRESENTATION = RepresentationAnalysis()
