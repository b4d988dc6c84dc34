"""Shares of perceived attributes in photos by group, raw and corrected for estimation errors."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import Field

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Names, Options, Result, option_of_run
from pipeline.analyses.inputs import FOLDER, InputError, clusters_of, groups_of, read_predictions, share_table
from pipeline.config.attributes import GROUPING, Attribute
from pipeline.config.flags import Flag
from pipeline.review.answers import FILE as REVIEWS
from pipeline.review.answers import read_faces
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import MISSING, count, is_missing, measured
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import pandas as pd

COMPARED, CORRELATIONS = "representation_compared", "representation_correlations"
RAW, CORRECTED = "as perceived", "corrected for the estimator's errors"
ALSO = "also_found_by"  # column of a collection's manifest
SOURCE = "photo of the search"
CHARTS = 6
_WORDS = {
    (name, category): [category, *(word for names in attribute.pole_names if category in names for word in names)]
    for name, attribute in GROUPING.items()
    for category in attribute.classes
}
CLASSES = {name: attribute.classes for name, attribute in GROUPING.items()}


class RepresentationOptions(Options):
    """Groups of photos, references and intervals."""

    renamed: ClassVar[Mapping[str, str]] = {"method": "interval"}

    by: str = Field(
        FOLDER, description="a manifest column, several separated by commas, such as keyword,modifier, or folder"
    )
    compare: Annotated[Path | None, Flag(metavar="FILE")] = Field(
        None, description="table of reference shares, such as labour statistics by occupation"
    )
    compare_column: Names = Field(
        (), description="its columns of shares, named by a class (pct_female, White); default: all such columns"
    )
    interval: Literal["wilson", "exact"] = Field(
        "wilson", description="interval of the raw shares: wilson or exact; with --cluster a bootstrap interval"
    )
    cluster: str | None = option_of_run("cluster")


class RepresentationAnalysis(Analysis[RepresentationOptions]):
    """Shares of perceived gender and race in photos or in a run, raw and corrected for estimation errors."""

    name = "representation"
    command = "represent"
    reads = ("photos", "run")
    tables = ("representation", COMPARED, CORRELATIONS)
    options = RepresentationOptions
    uses = ("resamples", "seed")
    examples = (
        "counterslope represent results.csv --by keyword --out runs/results",
        "counterslope represent results.csv --by keyword,modifier --compare occupations-stats.tsv --out runs/results",
    )

    def compute(self, source: Path, options: RepresentationOptions, *, watch: Watch = unwatched) -> Result:
        """Shares among the central faces of a run, a row per group, attribute and class."""
        from pipeline.statistics.representation import REPRESENTATION_COLUMNS, doubts, shares_by_group

        run = Run(source)
        own = settings_of(run, {"statistics": options.changes()}).statistics
        if not run.path("faces.parquet").is_file():
            raise RunError(f"{source} has no table of faces yet: finish the run, or name photos")
        table = read_frame(run.path("photos.parquet"))
        total, photos = len(table), by_search(table)
        groups, clusters = groups_of(photos, options.by), clusters_of(photos, own.cluster)
        # A photo found by several searches counts once in each group.
        grouped = photos[["photo", SOURCE]].assign(group=photos["photo"].map(groups)).dropna(subset=["group"])
        faces = read_faces(run).rename(columns={"photo": SOURCE})
        shown = grouped.drop_duplicates([SOURCE, "group"]).merge(faces[faces["status"] == "ok"], on=SOURCE)
        confusion, notes = _confusion()
        shares = shares_by_group(
            {name: attribute.classes_of(shown) for name, attribute in GROUPING.items()},
            CLASSES,
            [groups[photo] for photo in shown["photo"]],
            confusion=confusion,
            probabilities={name: _probabilities(attribute, shown) for name, attribute in GROUPING.items()},
            method=options.interval,
            clusters=None if clusters is None else [clusters[photo] for photo in shown["photo"]],
            resamples=own.resamples,
            seed=own.seed,
        )
        doubted = {name: list(doubts(shares[shares["attribute"] == name])) for name in GROUPING}
        counted = shown[SOURCE].nunique()
        if left_out := total - counted:
            notes.append(f"{left_out} of {total} photos are not counted: no usable face, or no group.")
        if several := len(shown) - counted:
            notes.append(
                f"{several} of {total} photos count in more than one group: they were found by several searches."
            )
        tables, elsewhere = {self.name: shares[list(REPRESENTATION_COLUMNS)]}, [options.compare]
        if options.compare is not None:
            compared, correlations = _compared(tables[self.name], photos, options, path=options.compare)
            tables |= {CORRELATIONS: correlations, COMPARED: compared}
        return Result(
            title=f"Perceived {' and '.join(GROUPING)} by {_spoken(options.by)}, as perceived and corrected",
            tables=tables,
            notes=[*(note for each in doubted.values() for note in each), *notes],
            about={"by": options.by, "interval": options.interval, "notes": notes, "doubts": doubted},
            inputs=self.inputs(options, files=("photos.parquet", "faces.parquet", REVIEWS), elsewhere=elsewhere),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A part for each attribute."""
        by = str(kept.about["by"])
        section = page.Section(
            key=self.name,
            heading="Who is shown",
            explanation=f"How the faces of these photos are perceived, by {_spoken(by)}: the shares as the estimator "
            "perceives them, and shares corrected for its errors on held-out faces.",
            parts=[
                _part(rows, by, name, doubts=kept.about.get("doubts", {}).get(name, ()))
                for (name,), rows in page.rows_by(kept.tables[self.name], "attribute")
            ]
            + _comparisons(kept),
            caveats=[
                *map(str, kept.about.get("notes", ())),
                "The corrected shares are valid if the estimator errs on these photos as it does on the held-out "
                "faces; their intervals include the uncertainty of its error rates.",
                "They are shares of perceived attributes among the central faces of these photos, not of anybody's "
                "identity, and say nothing about other photos.",
            ],
        )
        return (section,)


def by_search(photos: "pd.DataFrame") -> "pd.DataFrame":
    """Repeat photos that several searches found, a row per search, by a collection's column ``also_found_by``.

    ``photo`` is made unique; the column ``SOURCE`` has the original name.
    """
    import pandas as pd

    photos = photos.assign(**{SOURCE: photos["photo"]})
    if ALSO not in photos:
        return photos
    further = [
        {**row, **columns, "photo": f"{row['photo']} ({number})"}
        for row in photos[photos[ALSO].notna()].to_dict("records")
        for number, columns in enumerate(_searches(row[ALSO]), start=2)
    ]
    return pd.concat([photos, pd.DataFrame(further, columns=photos.columns)], ignore_index=True)


def _searches(text: object) -> list[dict[str, Any]]:
    """Further searches that found a photo; none if the text is not that of a collection."""
    try:
        found = json.loads(str(text))
    except ValueError:
        return []
    return [search for search in found if isinstance(search, dict)] if isinstance(found, list) else []


def _compared(
    shares: "pd.DataFrame", photos: "pd.DataFrame", options: RepresentationOptions, *, path: Path
) -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Compare the shares with those of a table, whose first column holds the keywords.

    Raises:
        InputError: no column of the table is named by a class, or the photos have none of its keywords.
    """
    from pipeline.statistics.reference_shares import compare_shares, matched

    names = [part.strip() for part in options.by.split(",")]
    whole, keywords = groups_of(photos, options.by), groups_of(photos, names[0])
    rest = groups_of(photos, ",".join(names[1:])) if names[1:] else {}
    places = {group: (keywords[photo], rest.get(photo, "")) for photo, group in whole.items()}
    shares = shares.assign(
        keyword=[places[group][0] for group in shares["group"]],
        modifier=[places[group][1] for group in shares["group"]],
    )
    given = read_predictions(path)
    first, *columns = (str(column) for column in given.columns)
    found = matched(options.compare_column or columns, _WORDS)
    if not found:
        raise InputError(
            f"no column of {path} is named by a class, such as pct_female or White; its columns are "
            f"{', '.join(columns)}"
        )
    references = {(*found[column], column): share_table(path, task=first, share=column) for column in found}
    tables = compare_shares(shares, references)
    if tables[0].empty:
        there = page.listed(sorted(set(keywords.values())))
        raise InputError(f"column {first!r} of {path} has none of the photos' keywords ({there})")
    return tables


def _confusion() -> tuple[dict[str, list[list[int]]] | None, list[str]]:
    """Confusion matrices of the estimator on held-out faces by attribute, or a note that there are none."""
    from models.confusion import ConfusionError, read_confusion
    from models.weights import record

    try:
        matrix = read_confusion("estimator", weights=record("estimator").sha256)
    except ConfusionError as error:
        return None, [f"Shares are not corrected: {error}."]
    return {attribute: matrix.of(names) for attribute, names in CLASSES.items()}, []


def _probabilities(attribute: Attribute, faces: "pd.DataFrame") -> Any:
    """The estimator's probabilities ``(n, C)`` of the attribute's classes for each face."""
    import numpy as np

    if attribute.categories:
        table = faces[list(attribute.inputs)].to_numpy(dtype=np.float64)
        return table / table.sum(axis=1, keepdims=True)
    higher = (1 + faces[attribute.inputs[0]].to_numpy(dtype=np.float64)) / 2
    return np.column_stack([1 - higher, higher])


def _part(rows: "pd.DataFrame", by: str, attribute: str, *, doubts: Sequence[str]) -> page.Subsection:
    by = _spoken(by)
    classes, groups = list(dict.fromkeys(rows["category"])), page.rows_by(rows, "group")
    several = len(groups) > 1
    if len(classes) == 2 and several:
        one = rows[rows["category"] == classes[0]].sort_values("share", ascending=False, kind="stable")
        charts = [_chart(one, "group", f"share perceived as {classes[0]}, by {by}")]
    else:
        largest = sorted(groups, key=lambda item: -int(item[1]["photos"].iloc[0]))[:CHARTS]
        charts = [
            _chart(own, "category", f"perceived {attribute}" + (f", {group}" if several else ""))
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


def _comparisons(kept: Kept) -> list[page.Subsection]:
    """A part for each comparison with a reference, if there is one."""
    if COMPARED not in kept.tables or CORRELATIONS not in kept.tables:
        return []
    summary, parts = kept.tables[CORRELATIONS], []
    compared = kept.tables[COMPARED].fillna({"modifier": ""})
    for (category, reference), rows in page.rows_by(compared, "category", "reference"):
        own = summary[(summary["category"] == category) & (summary["reference"] == reference)]
        sentences = [
            f"{f'{modifier}: ' if modifier else ''}over {count(row['keywords'])} keywords, Spearman’s correlation is "
            f"{page.bounds(row['spearman'], row['spearman_low'], row['spearman_high'])}; the shares are "
            f"{_share(row['mean_absolute_difference'])} apart on average."
            for (modifier,), one in page.rows_by(own[own["shares"] == "raw"].fillna({"modifier": ""}), "modifier")
            for row in one.to_dict("records")
        ]
        caption = f"Share perceived as {category} against {reference}; on the dashed line both are equal."
        charts = [
            page.Scatter(
                part,
                x="reference_share",
                y="share",
                titles=(f"{reference}", f"perceived as {category}{named}"),
                title=f"{caption[:-1]}{named}",
                description="; ".join(sentences),
                caption=f"{caption[:-1]}{named}.",
            )
            for (modifier,), part in page.rows_by(rows, "modifier")[:CHARTS]
            for named in [f" ({modifier})" if modifier not in ("", "none") else ""]
        ]
        columns: list[page.Column] = [
            ("Keyword", "keyword", "text"), ("Modifier", "modifier", "text"), ("Faces", "photos", "count"),
            ("Share", "share", "share"), ("Reference", "reference_share", "share"), *page.DIFFERENCE[:1],
            ("95 % interval", ("difference_low", "difference_high"), "interval"),
        ]  # fmt: skip
        table = page.Table(f"Perceived as {category} and {reference}", page.largest_first(rows, "difference"), columns)
        parts.append(page.Subsection(f"{category} against {reference}", sentences, charts, [table]))
    return parts


def _sentence(rows: "pd.DataFrame", group: str, by: str) -> str:
    """Describe the largest share of a group, raw and corrected."""
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


def _spoken(by: str) -> str:
    """Columns of a grouping in text: "keyword and modifier"."""
    return page.listed([part.strip() for part in by.split(",")])


def _share(value: float) -> str:
    return measured(value, "share")


def _interval(low: float, high: float) -> str:
    return MISSING if is_missing(low) or is_missing(high) else f"{_share(low)} to {_share(high)}"


REPRESENTATION = RepresentationAnalysis()
