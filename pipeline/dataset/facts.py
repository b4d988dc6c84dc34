"""The facts about a dataset that its card and its Croissant description state."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version

from pipeline.config.dataset_options import DatasetOptions
from pipeline.config.sweep_options import SweepOptions
from pipeline.counterfactuals.files import METADATA
from pipeline.dataset.content import ORIGINAL, DatasetContent
from pipeline.dataset.layout import SPLITS
from pipeline.dataset.metadata import Column
from pipeline.report.card import CheckResult, card_counts
from pipeline.run.folder import SHARDS
from pipeline.run.image_store import Shards
from pipeline.run.tables import COUNTERFACTUALS, plain_rows, read_frame


@dataclass(frozen=True)
class SplitFacts:
    """A split: numbers of photos and synthetic images, and the sha256 of its metadata.csv."""

    photos: int
    images: int
    metadata_sha256: str


@dataclass(frozen=True)
class DatasetFacts:
    """The facts about a dataset.

    Attributes:
        name: its name.
        splits: split -> its facts.
        listed: number of photos in the input.
        left_out: reason -> number of excluded photos.
        opted_out: sha256 of the photos on the opt-out list.
        columns: column of metadata.csv -> its description.
        sweep: the options of the sweeps.
        options: the options of the dataset.
        weights: network -> sha256 of its file.
        terms: the terms of use of the weights.
        validity: the validity card.
        shards: the kind of shards that hold the images, if any.
        published: date of publication, YYYY-MM-DD.
        program: name and version of this program.
    """

    name: str
    splits: Mapping[str, SplitFacts]
    listed: int
    left_out: Mapping[str, int]
    opted_out: Sequence[str]
    columns: Mapping[str, Column]
    sweep: SweepOptions
    options: DatasetOptions
    weights: Mapping[str, str]
    terms: str
    validity: Sequence[CheckResult]
    published: str
    program: str
    shards: Shards | None = None

    @property
    def validity_counts(self) -> str:
        """The number of checks by state, in words."""
        return card_counts(self.validity)

    @property
    def photos(self) -> int:
        """The number of photos with images."""
        return sum(split.photos for split in self.splits.values())

    @property
    def images(self) -> int:
        """The number of images, without masks."""
        return sum(split.images for split in self.splits.values())

    @property
    def suffix(self) -> str:
        """The images' file ending."""
        return ".png" if self.sweep.image_format == "png" else ".jpg"

    @property
    def image_files(self) -> str:
        """The pattern of the files in a split's folder that loaders read."""
        return f"*.{self.shards}" if self.shards else "**"

    @property
    def subjects(self) -> list[str]:
        """The edited attributes, such as "perceived gender"; for an intersection both."""
        swept = self.sweep.chosen().values()
        edited = [attribute.given[0] if attribute.given else attribute for attribute in swept]
        return list(dict.fromkeys(attribute.subject for attribute in edited))

    @property
    def description(self) -> str:
        """The dataset in three sentences."""
        swept = " and ".join(self.subjects)
        originals = ", and the original photos" if self.options.originals else ""
        return (
            f"Counterfactual face images: {self.photos:,} photos of people, each in several versions in which only the "
            f"{swept} of the face was changed step by step. Contains {self.images:,} synthetic images{originals}, and "
            "masks of the pixels that may differ from the photo. "
            "Made to audit image classifiers; the images say nothing about the people shown."
        )


def facts_of(content: DatasetContent, opted_out: Sequence[str]) -> DatasetFacts:
    """Collect the facts of a dataset whose images and metadata are written, and add the validity card to its run.

    Args:
        content: the images of the dataset.
        opted_out: sha256 of the photos on the opt-out list.
    """
    from models.weights import TERMS
    from pipeline.config.attributes import source_groups
    from pipeline.counterfactuals.validity import validity_card
    from pipeline.report.card import check_results
    from pipeline.stages.checks import pictures_of

    run, settings = content.run, content.settings
    used: Counter[str] = Counter()
    images: Counter[str] = Counter()
    for frame in content.frames():
        used.update(content.first_versions(frame)["split"])
        images.update(frame.loc[frame["attribute"] != ORIGINAL, "split"])
    # Without file names and hashes, which are most of the table.
    needed = [name for name in COUNTERFACTUALS if name not in ("file", "mask", "sha256")]
    versions = read_frame(run.path("counterfactuals.parquet"), columns=needed)
    groups, mode = source_groups(content.faces), settings.sweep.mode
    card = validity_card(
        versions, swept=settings.sweep.chosen(), groups=groups, options=settings.validity, mode=mode,
        pictures=pictures_of(run),
    )  # fmt: skip
    run.note(validity=plain_rows(card))
    lost = [
        table[table["status"] != "ok"].drop_duplicates("photo") for table in (content.photos, content.faces, versions)
    ]
    sums = content.images.sums(f"{split}/{METADATA}" for split in images)
    reasons = Counter(str(reason).partition(":")[0] for table in lost for reason in table["reason"])
    return DatasetFacts(
        name=settings.dataset.name or content.images.root.name,
        splits={
            split: SplitFacts(used[split], images[split], sums[f"{split}/{METADATA}"])
            for split in SPLITS
            if images[split]
        },
        listed=len(content.photos),
        left_out=dict(sorted(reasons.items())),
        opted_out=opted_out,
        columns=content.columns,
        sweep=settings.sweep,
        options=settings.dataset,
        weights=run.record.weights,
        terms=TERMS,
        validity=check_results(card.to_dict("records")),
        published=str(settings.dataset.published or run.record.created[:10]),
        program=f"Counterslope {version('counterslope')}",
        shards=SHARDS[settings.storage.images],
    )
