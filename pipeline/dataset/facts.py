"""The facts of a dataset, from which its card and its Croissant description are written."""

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
from pipeline.run.tables import COUNTERFACTUALS, plain_rows, read_frame


@dataclass(frozen=True)
class SplitFacts:
    """One split: its photos, its synthetic images, the sha256 of its metadata.csv."""

    photos: int
    images: int
    metadata_sha256: str


@dataclass(frozen=True)
class DatasetFacts:
    """One dataset.

    Attributes:
        name: what it is called.
        splits: by name.
        listed: photos in the input.
        left_out: reason -> how many of them.
        opted_out: sha256 of the photos on the opt-out list.
        columns: of metadata.csv, by name.
        sweep: what was made.
        options: how it was split, and what was stated.
        weights: network -> sha256 of its file.
        terms: of the weights.
        validity: the validity card.
        published: the day, as YYYY-MM-DD.
        program: name and version of what made it.
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

    @property
    def validity_counts(self) -> str:
        """How many checks hold, fail, were not measured or have no threshold, in words."""
        return card_counts(self.validity)

    @property
    def photos(self) -> int:
        """Photos that have images."""
        return sum(split.photos for split in self.splits.values())

    @property
    def images(self) -> int:
        """All images, masks not counted."""
        return sum(split.images for split in self.splits.values())

    @property
    def suffix(self) -> str:
        """The images' file ending."""
        return ".png" if self.sweep.image_format == "png" else ".jpg"

    @property
    def subjects(self) -> list[str]:
        """What was changed, such as "perceived gender", both of an intersection."""
        swept = self.sweep.chosen().values()
        changed = [one.given[0] if one.given else one for one in swept]
        return list(dict.fromkeys(one.subject for one in changed))

    @property
    def description(self) -> str:
        """The dataset in three sentences."""
        swept = " and ".join(self.subjects)
        originals = ", next to the photos themselves" if self.options.originals else ""
        return (
            f"Counterfactual face images: {self.photos:,} photos of people, each in versions in which only the {swept} "
            f"of the face was changed, step by step, by a neural network. The images are synthetic; {self.images:,} in "
            f"all{originals}, with masks of where they may differ from the photo. "
            "Made to audit image classifiers, not to say anything about the people shown."
        )


def facts_of(content: DatasetContent, opted_out: Sequence[str]) -> DatasetFacts:
    """Gather the facts of a dataset whose images and metadata are written; the run's record gets the validity card.

    Args:
        content: its versions.
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
    # Without the names and sums of the files, most of the table.
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
    )
