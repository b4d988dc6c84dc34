"""Where in a version a local network finds a label: shares of Gradient-SHAP by region of the person."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import BeforeValidator, Field

from pipeline.analyses import sections as page
from pipeline.analyses.base import Analysis, Kept, Options, Result, one_or_more
from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import ConfigError, Settings
from pipeline.run.files import digest, write_bytes
from pipeline.run.folder import Run, settings_of
from pipeline.run.formats import measured, pluralise
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd
    from numpy.typing import NDArray

    from adapters.base import Differentiable

FOLDER = "attribution"  # of the heat maps in the run
NOT_LOCAL = "{name} has no gradients: attribution needs a network of this machine, such as face-attributes"
COLUMNS: tuple[page.Column, ...] = (
    ("Label", "label", "text"), ("Region", "region", "text"), ("Photos", "photos", "count"),
    ("Share at the low end", "share_low_end", "share"), ("Share at the high end", "share_high_end", "share"),
    ("Change", "change", "signed"), ("95 % interval", ("change_low", "change_high"), "interval"),
    ("Share of pixels", "area", "share"),
)  # fmt: skip


class AttributionOptions(Options):
    """Which network and labels are looked into, and how finely."""

    adapter: str | None = Field(None, description="the local network; the run's only one unless given")
    label: Annotated[tuple[str, ...], BeforeValidator(one_or_more)] = Field(
        (), description="its labels; those with a finding unless given, at most five"
    )
    photos: int = Field(12, ge=2, description="photos, drawn at random among the run's")
    samples: int = Field(12, ge=1, description="noisy copies of an image that a gradient is averaged over")
    heatmaps: int = Field(4, ge=0, description="photos whose heat maps are written to the run's folder attribution")
    seed: int = Field(0, description="of the photos and of the noise")


@dataclass(frozen=True, eq=False)
class Version:
    """A version of a photo to look into: its attribute and value, its bytes, and the region of each of its pixels."""

    photo: str
    attribute: str
    value: float
    content: bytes
    regions: "NDArray[np.uint8]"


class AttributionAnalysis(Analysis[AttributionOptions]):
    """Where a local network finds a label: shares of Gradient-SHAP on face, skin, hair, clothes and background."""

    name = "attribution"
    tables = ("attribution", "attribution_photos")
    options = AttributionOptions
    examples = ("counterslope attribution runs/portraits --adapter face-attributes --label smiling --photos 12",)

    def compute(self, source: Path, options: AttributionOptions, *, watch: Watch = unwatched) -> Result:
        """Shares of absolute attribution at both ends of each sweep, by region, one row a photo and their summary."""
        import pandas as pd

        settings = settings_of(run := Run(source))
        network = _network(run, settings, options.adapter)
        adapter = options.adapter or next(name for name in run.record.query)
        labels = _labels(run, network, adapter, options.label)
        versions, photos, total = _versions(run, settings, options)
        drawn = photos[: options.heatmaps]
        rows = []
        with watch(self.name, total=total) as advance:
            for version in versions:
                maps = run.path(FOLDER) if version.photo in drawn else None
                rows += _shares(network, version, labels, options=options, maps=maps)
                advance(1)
        by_photo = pd.DataFrame(rows)
        if by_photo.empty:
            raise RunError(f"{adapter} looks at nothing in these versions of {source}")
        by_photo.insert(0, "adapter", adapter)
        return Result(
            title=f"Attribution of {adapter} at both ends of the sweeps, {pluralise(len(photos), 'photo')}",
            tables={"attribution": _summary(by_photo), "attribution_photos": by_photo},
            shown=("attribution",),
            inputs=self.inputs(options, files=("counterfactuals.parquet", "faces.parquet")),
            about={"drawn": list(drawn)},
            by=("adapter",),
        )

    def sections(self, kept: Kept) -> Sequence[page.Section]:
        """One part for each adapter and attribute."""
        section = page.Section(
            key=self.name,
            heading="Where a network looks",
            explanation="Which part of the picture carries a label's score: Gradient-SHAP gives every pixel a share "
            "of it; here the absolute shares are added up by region, at both ends of the edit.",
            parts=[
                page.Subsection(
                    f"{adapter}, {kept.attribute(name).subject}",
                    [_sentence(rows)],
                    tables=[page.Table("Share of absolute attribution by region", rows, COLUMNS)],
                    galleries=[_gallery(rows, kept.about.get("drawn", ()))],
                )
                for (adapter, name), rows in page.rows_by(kept.tables[self.name], "adapter", "attribute")
            ],
            caveats=[
                "A share says where the score depends on pixels, not why; compare it with the region's share of the "
                "pixels. Regions are the face parser's: what lies beyond its view counts as background.",
                f"Heat maps lie in the run's folder {FOLDER}/.",
            ],
        )
        return (section,)


def _gallery(rows: "pd.DataFrame", photos: Sequence[str]) -> page.Gallery:
    """The heat maps of the drawn photos: for each label and end of the sweep a row."""
    first = rows.drop_duplicates("label")
    return page.Gallery(
        "Heat maps of the same photos: yellow carries most",
        [
            (
                f"{row['label']}, a = {f'{row[end]:+g}'.replace('-', '−')}",
                [f"{FOLDER}/{_file(row, photo, row[end])}" for photo in photos],
            )
            for row in first.to_dict("records")
            for end in ("low_end", "high_end")
        ],
    )


def _file(row: Mapping[Any, Any], photo: str, value: float) -> str:
    return heatmap_name(attribute=row["attribute"], photo=photo, value=value, label=row["label"])


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


def _labels(run: Run, network: "Differentiable", adapter: str, wanted: Sequence[str]) -> list[str]:
    known = network.capabilities.labels or ()
    for label in wanted:
        if label not in known:
            raise ConfigError(f"{adapter} has no label {label!r}; it has {', '.join(known[:20])}")
    if wanted:
        return list(wanted)
    slopes = run.read_csv("slopes")
    own = slopes[(slopes["adapter"] == adapter) & (slopes["arm"] == EDIT_ARM) & slopes["estimable"].astype(bool)]
    found = own.sort_values("q")["label"].drop_duplicates()[:5]
    if found.empty:
        raise ConfigError(f"no slope of {adapter} can be estimated: name labels with --label")
    return [str(label) for label in found]


def _versions(
    run: Run, settings: Settings, options: AttributionOptions
) -> tuple[Iterator[Version], tuple[str, ...], int]:
    """Both ends of every sweep of some photos, these photos, and how many versions these are."""
    import numpy as np

    faces = read_frame(run.path("faces.parquet"))
    table = read_frame(run.path("counterfactuals.parquet"))
    table = table[(table["status"] == "ok") & (table["arm"] == EDIT_ARM)]
    ends = table.groupby("attribute")["value"].agg(["min", "max"])
    low, high = (table["attribute"].map(ends[end]) for end in ("min", "max"))
    table = table[(table["value"] == low) | (table["value"] == high)]
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
                content = run.path(row["file"]).read_bytes()
            except OSError as error:
                raise RunError(
                    f"the versions in {run.folder} are gone ({error}): run the audit's command again"
                ) from error
            landmarks = np.array(points[row["photo"]], dtype=np.float64).reshape(5, 2)
            subject = Subject(photo=row["photo"], pixels=decode_rgb(content), landmarks=landmarks, own={})
            yield Version(row["photo"], row["attribute"], row["value"], content, region_maps(parser, [subject])[0])

    return opened(), names, len(chosen)


def _shares(
    network: "Differentiable",
    version: Version,
    labels: Sequence[str],
    *,
    options: AttributionOptions,
    maps: Path | None,
) -> list[dict[str, Any]]:
    """Rows of one version: label, region, share, area; its heat maps go into the folder ``maps``, if there is one."""
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
            "attribute": version.attribute, "photo": version.photo, "value": version.value, "label": label
        }  # fmt: skip
        if maps is not None:
            write_bytes(maps / heatmap_name(**same), heatmap(inputs, found))
        rows += [
            same | {"region": region, "share": share, "area": area}
            for region, share, area in region_shares(found, regions)
        ]
    return rows


def heatmap_name(*, attribute: str, photo: str, value: float, label: str) -> str:
    """The file of a heat map within its folder."""
    return f"{digest([attribute, photo, value, label])}.webp"


def _summary(by_photo: "pd.DataFrame") -> "pd.DataFrame":
    """Mean shares at both ends over photos, and their change with its t interval, photos being the unit."""
    import pandas as pd
    from statsmodels.stats.weightstats import DescrStatsW

    keys = ["adapter", "attribute", "label", "region"]
    rows = []
    for key, own in by_photo.groupby(keys, sort=False):
        table = own.pivot(index="photo", columns="value", values="share").dropna()
        low, high = table.columns.min(), table.columns.max()
        change = DescrStatsW((table[high] - table[low]).to_numpy())
        bounds = change.tconfint_mean() if len(table) > 1 else (float("nan"), float("nan"))
        rows.append(
            dict(zip(keys, key, strict=True))
            | {"photos": len(table), "area": own["area"].mean(), "low_end": low, "high_end": high}
            | {"share_low_end": table[low].mean(), "share_high_end": table[high].mean()}
            | {"change": change.mean if len(table) else float("nan"), "change_low": bounds[0], "change_high": bounds[1]}
        )
    return pd.DataFrame(rows)


def _sentence(rows: "pd.DataFrame") -> str:
    from pipeline.counterfactuals.face_regions import OUTSIDE

    outside = rows[rows["region"] == OUTSIDE]
    shares = (outside["share_low_end"] + outside["share_high_end"]) / 2
    found = [
        f"{page.quoted(label)} {measured(share, 'share')}"
        for label, share in zip(outside["label"], shares, strict=True)
    ]
    return f"Outside the face lies, of the absolute attribution: {page.listed(found)}."


ATTRIBUTION = AttributionAnalysis()
