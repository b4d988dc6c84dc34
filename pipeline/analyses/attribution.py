"""Attribution of a local network's labels: shares of Gradient-SHAP by region of the person."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Options, Result, one_or_more
from pipeline.config.attributes import EDIT_ARM, Attribute
from pipeline.config.options import ConfigError, Settings
from pipeline.run.files import digest, write_bytes
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import is_missing, measured, plain, pluralise
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from adapters.base import Differentiable

FOLDER = "attribution"  # of the heat maps in the run
NOT_LOCAL = "{name} has no gradients: attribution needs a local network, such as face-attributes"
LABEL = ["adapter", "attribute", "label"]
_OF_CURVE = {"region": "label", "value": "value", "share": "y", "share_low": "low", "share_high": "high"}
_OF_LABEL = {name: f"label_{name}" for name in ("slope", "slope_low", "slope_high")}
COLUMNS: tuple[page.Column, ...] = (
    ("Label", "label", "text"), ("The label’s slope", "label_slope", "signed"),
    ("95 % interval", ("label_slope_low", "label_slope_high"), "interval"), ("Region", "region", "text"),
    ("Mean share", "share", "share"), ("Share of pixels", "area", "share"), ("Slope of the share", "slope", "signed"),
    ("95 % interval", ("slope_low", "slope_high"), "interval"), ("Photos", "photos", "count"),
)  # fmt: skip


class AttributionOptions(Options):
    """The network and its labels, the versions, and the precision of the attribution."""

    adapter: str | None = Field(None, description="the local network; default: the run's only one")
    label: Annotated[tuple[str, ...], BeforeValidator(one_or_more)] = Field(
        (), description="its labels; default: the five with the smallest q"
    )
    photos: int = Field(12, ge=2, description="number of photos, drawn at random from the run")
    steps: int | None = Field(
        None, ge=2, description="number of evenly spread steps of each sweep, with both ends; default: all"
    )
    samples: int = Field(12, ge=1, description="number of noisy copies of an image that a gradient is averaged over")
    heatmaps: int = Field(2, ge=0, description="photos whose heat maps are written to the run's folder attribution")
    seed: int = Field(0, description="seed of the choice of photos and of the noise")


@dataclass(frozen=True, eq=False)
class Version:
    """A version of a photo: its attribute and value, its bytes, and the region of each pixel."""

    photo: str
    attribute: str
    value: float
    content: bytes
    regions: "NDArray[np.uint8]"


class AttributionAnalysis(Analysis[AttributionOptions]):
    """Attribution of a local network's labels: shares of Gradient-SHAP on face, skin, hair, clothes and background."""

    name = "attribution"
    tables = ("attribution", "attribution_steps", "attribution_photos")
    shows = ("attribution_steps",)  # earlier versions stored both ends only
    options = AttributionOptions
    uses = ()
    examples = (
        "counterslope attribution runs/portraits --adapter face-attributes --label smiling --photos 12 --steps 3",
    )

    def compute(self, source: Path, options: AttributionOptions, *, watch: Watch = unwatched) -> Result:
        """Shares of absolute attribution by region along each sweep: by photo, their means and their slopes."""
        import pandas as pd

        settings = settings_of(run := Run(source))
        network = _network(run, settings, options.adapter)
        adapter = options.adapter or next(name for name in run.record.query)
        _check_labels(network, adapter, options.label)
        slopes = run.read_csv("slopes")
        slopes = slopes[(slopes["adapter"] == adapter) & (slopes["arm"] == EDIT_ARM)]
        labels = options.label or _estimable(slopes, adapter)
        versions, photos, total = _versions(run, settings, options)
        drawn = photos[: options.heatmaps]
        rows = []
        with watch(self.name, total=total) as advance:
            for version in versions:
                maps = run.path(FOLDER) if version.photo in drawn else None
                rows += _shares(network, version, labels, adapter=adapter, options=options, maps=maps)
                advance(1)
        by_photo = pd.DataFrame(rows)
        if by_photo.empty:
            raise RunError(f"{adapter} has no attribution for any of these versions of {source}")
        summary, by_step = summaries(by_photo)
        own = slopes[[*LABEL, *_OF_LABEL]].rename(columns=_OF_LABEL)
        return Result(
            title=f"Attribution of {adapter} along the sweeps, {pluralise(len(photos), 'photo')}",
            tables={
                "attribution": summary.merge(own, on=LABEL, how="left"),
                "attribution_steps": by_step,
                "attribution_photos": by_photo,
            },
            shown=("attribution",),
            inputs=self.inputs(options, files=("counterfactuals.parquet", "faces.parquet", "tables/slopes.csv")),
            by=("adapter",),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """A part for each adapter and attribute."""
        steps, photos = kept.tables["attribution_steps"], kept.tables["attribution_photos"]
        section = page.Section(
            key=self.name,
            heading="Where a network looks",
            explanation="Which part of the picture determines a label's score? Gradient-SHAP attributes a share of the "
            "score to every pixel. The absolute shares are summed by region at each step of the edit and shown next to "
            "the slope of the label.",
            parts=[
                _part(kept.attribute(name), rows, *(_of(table, adapter, name) for table in (steps, photos)))
                for (adapter, name), rows in page.rows_by(kept.tables[self.name], "adapter", "attribute")
            ],
            caveats=[
                "A share shows where the score depends on pixels, not why; compare it with the region's share of the "
                "pixels. Regions are those of the face parser; pixels outside its view count as background.",
                "The slope of a share is its change per unit of a, with a t interval over photos for each row "
                "separately: of 20 rows without any change, one interval excludes 0 on average.",
                f"Heat maps are in the run's folder {FOLDER}/.",
            ],
        )
        return (section,)


def _of(table: "pd.DataFrame", adapter: str, attribute: str) -> "pd.DataFrame":
    return table[(table["adapter"] == adapter) & (table["attribute"] == attribute)]


def _part(attribute: Attribute, rows: "pd.DataFrame", steps: "pd.DataFrame", photos: "pd.DataFrame") -> page.Subsection:
    """Charts, sentences, tables and heat maps of an adapter and attribute."""
    from pipeline.counterfactuals.face_regions import OUTSIDE, REGIONS

    charts = [
        page.Curves(
            own[own["region"].isin(REGIONS)][list(_OF_CURVE)].set_axis(list(_OF_CURVE.values()), axis=1),
            attribute=attribute,
            axis="share of absolute attribution",
            title=f"Attribution of {page.quoted(label)} by region",
            description=_sentence(rows[rows["label"] == label].to_dict("records")),
            caption=f"{page.quoted(label)}: shares of the absolute attribution, with 95 % intervals over photos.",
        )
        for (label,), own in page.rows_by(steps, "label")
    ]
    drawn = photos[(photos["region"] == OUTSIDE) & (photos["heatmap"] != "")].sort_values("value", kind="stable")
    return page.Subsection(
        f"{rows['adapter'].iloc[0]}, {attribute.subject}",
        [_sentence(own.to_dict("records")) for _, own in page.rows_by(rows, "label")],
        charts=charts,
        tables=[page.Table("Share of absolute attribution by region", rows, COLUMNS)],
        galleries=[_gallery(label, own) for (label,), own in page.rows_by(drawn, "label")],
    )


def _gallery(label: str, drawn: "pd.DataFrame") -> page.Gallery:
    """Heat maps of a label along the sweep, a row per photo."""
    ends = " to ".join(plain(value) for value in (drawn["value"].min(), drawn["value"].max()))
    return page.Gallery(
        f"Heat maps of {page.quoted(label)}, a = {ends}: yellow is the largest attribution",
        [(photo, [f"{FOLDER}/{name}" for name in own["heatmap"]]) for (photo,), own in page.rows_by(drawn, "photo")],
    )


def _network(run: Run, settings: Settings, name: str | None) -> "Differentiable":
    from adapters.base import Differentiable
    from adapters.registry import create

    known = list(run.record.query)
    if name is None and len(known) != 1:
        raise ConfigError(f"{run.folder} has the classifiers {', '.join(known) or 'none'}: name one with --adapter")
    spec = name or known[0]
    adapter = create(spec, settings.query.options.get(spec, {}))
    if not isinstance(adapter, Differentiable):
        raise ConfigError(NOT_LOCAL.format(name=spec))
    return adapter


def _check_labels(network: "Differentiable", adapter: str, wanted: Sequence[str]) -> None:
    known = network.capabilities.labels or ()
    for label in wanted:
        if label not in known:
            raise ConfigError(f"{adapter} has no label {label!r}; it has {', '.join(known[:20])}")


def _estimable(slopes: "pd.DataFrame", adapter: str) -> list[str]:
    """The estimable labels with the smallest q, at most five."""
    found = slopes[slopes["estimable"].astype(bool)].sort_values("q")["label"].drop_duplicates()[:5]
    if found.empty:
        raise ConfigError(f"no slope of {adapter} can be estimated: name labels with --label")
    return [str(label) for label in found]


def _versions(
    run: Run, settings: Settings, options: AttributionOptions
) -> tuple[Iterator[Version], tuple[str, ...], int]:
    """Versions of random photos at the wanted steps; the names of these photos; and the number of versions."""
    import numpy as np

    faces = read_frame(run.path("faces.parquet"))
    table = read_frame(run.path("counterfactuals.parquet"))
    table = table[(table["status"] == "ok") & (table["arm"] == EDIT_ARM)]
    table = table[table.groupby("attribute")["value"].transform(_evenly, options.steps).astype(bool)]
    known = np.array(sorted(table["photo"].unique()), dtype=object)
    names = tuple(np.random.default_rng([options.seed, 7]).permutation(known)[: options.photos])
    chosen = table[table["photo"].isin(names)].sort_values(["photo", "attribute", "value"])
    points = dict(zip(faces["photo"], faces["landmarks"], strict=True))

    def opened() -> Iterator[Version]:
        from adapters.local.preprocessing import decode_rgb
        from models.weights import load_parser
        from pipeline.counterfactuals.editors.base import Subject
        from pipeline.counterfactuals.face_regions import region_maps

        parser = load_parser(settings.sweep.parser, weights=settings.sweep.parser_weights)
        for row in chosen.to_dict("records"):
            try:
                content = run.images.file(row["file"]).read_bytes()
            except OSError as error:
                raise RunError(
                    f"the versions in {run.folder} are gone ({error}): run the audit's command again"
                ) from error
            landmarks = np.array(points[row["photo"]], dtype=np.float64).reshape(5, 2)
            subject = Subject(photo=row["photo"], pixels=decode_rgb(content), landmarks=landmarks, own={})
            yield Version(row["photo"], row["attribute"], row["value"], content, region_maps(parser, [subject])[0])

    return opened(), names, len(chosen)


def _evenly(values: "pd.Series[float]", steps: int | None) -> "pd.Series[bool]":
    """Select ``steps`` evenly spread values of a sweep, with both ends; all by default."""
    import numpy as np

    known = np.unique(values)
    places = np.linspace(0, len(known) - 1, min(steps or len(known), len(known)))
    return values.isin(known[np.round(places).astype(int)])


def _shares(
    network: "Differentiable",
    version: Version,
    labels: Sequence[str],
    *,
    adapter: str,
    options: AttributionOptions,
    maps: Path | None,
) -> list[dict[str, Any]]:
    """Label, region, share and area of a version; its heat maps are written to the folder ``maps``, if any."""
    from adapters.local.gradient_shap import attribute_scores, heatmap
    from pipeline.counterfactuals.face_regions import region_shares

    inputs = network.network_input(version.content)
    if inputs is None:
        return []
    regions = network.map_on_input(version.content, version.regions)
    rows = []
    for label in labels:
        place = (network.capabilities.labels or ()).index(label)
        found = attribute_scores(network, inputs, place, samples=options.samples, seed=options.seed)
        same: dict[str, Any] = {
            "adapter": adapter, "attribute": version.attribute, "photo": version.photo, "value": version.value,
            "label": label,
        }  # fmt: skip
        name = "" if maps is None else f"{digest(list(same.values()))}.webp"
        if maps is not None:
            write_bytes(maps / name, heatmap(inputs, found))
        rows += [
            same | {"region": region, "share": share, "area": area, "heatmap": name}
            for region, share, area in region_shares(found, regions)
        ]
    return rows


def summaries(by_photo: "pd.DataFrame") -> "tuple[pd.DataFrame, pd.DataFrame]":
    """Mean shares of each label and region with their slopes, and mean shares at each step.

    A photo's slope is that of a straight line through its shares at the steps, per unit of a. The t intervals are over
    photos. A photo that lacks a step is left out of a label's rows.

    Args:
        by_photo: columns adapter, attribute, photo, value, label, region, share (0-1, NaN without attribution), area
            (0-1).
    """
    import numpy as np
    import pandas as pd

    rows, steps = [], []
    for key, own in by_photo.groupby([*LABEL, "region"], sort=False):
        table = own.pivot(index="photo", columns="value", values="share").dropna()
        same: dict[str, Any] = dict(zip([*LABEL, "region"], key, strict=True)) | {"photos": len(table)}
        values = table.columns.to_numpy(dtype=np.float64)
        centred = values - values.mean()
        slope = _means((table @ centred / (centred @ centred)).to_frame(), "slope")
        by_step = _means(table, "share").assign(value=values, **same)
        area = own.loc[own["photo"].isin(table.index), "area"].mean()
        rows.append(same | {"share": by_step["share"].mean(), "area": area} | dict(slope.iloc[0]))
        steps.append(by_step)
    return pd.DataFrame(rows), pd.concat(steps, ignore_index=True)


def _means(numbers: "pd.DataFrame", name: str) -> "pd.DataFrame":
    """Mean of each column with a t interval, which is NaN for fewer than two rows."""
    import numpy as np
    import pandas as pd
    from statsmodels.stats.weightstats import DescrStatsW

    enough = len(numbers) > 1
    ends = DescrStatsW(numbers.to_numpy()).tconfint_mean() if enough else np.full((2, numbers.shape[1]), np.nan)
    return pd.DataFrame({name: numbers.mean().to_numpy(), f"{name}_low": ends[0], f"{name}_high": ends[1]})


def _sentence(rows: Sequence[Mapping[Any, Any]]) -> str:
    """Describe the share of a label outside the face, its slope along the sweep, and the slope of the label."""
    from pipeline.counterfactuals.face_regions import OUTSIDE

    row = next(row for row in rows if row["region"] == OUTSIDE)
    slope = page.bounds(row["slope"], row["slope_low"], row["slope_high"])
    own = page.bounds(row["label_slope"], row["label_slope_low"], row["label_slope_high"])
    label = "not estimable" if is_missing(row["label_slope"]) else own
    return (
        f"{page.quoted(row['label'])}: {measured(row['share'], 'share')} of the absolute attribution lies outside the "
        f"face, with a slope of {slope} per unit of a; the label’s own slope is {label}."
    )


ATTRIBUTION = AttributionAnalysis()
