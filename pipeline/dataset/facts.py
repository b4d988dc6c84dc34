"""The facts of a dataset, from which its card and its Croissant description are written."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import DatasetOptions, SweepOptions
from pipeline.counterfactuals.files import METADATA
from pipeline.dataset.layout import SPLITS
from pipeline.dataset.metadata import Column, columns_of, dataset_frames, photo_facts
from pipeline.dataset.originals import ORIGINAL, original_rows
from pipeline.report.card import CheckResult
from pipeline.run.files import sha256_of
from pipeline.run.progress import Advance
from pipeline.run.tables import COUNTERFACTUALS, plain_rows, read_frame
from pipeline.stages.base import Audit

if TYPE_CHECKING:
    import pandas as pd


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
        originals: whether the source photos are published, too.
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
    originals: bool
    sweep: SweepOptions
    options: DatasetOptions
    weights: Mapping[str, str]
    terms: str
    validity: Sequence[CheckResult]
    published: str
    program: str

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
    def description(self) -> str:
        """The dataset in three sentences."""
        swept = " and ".join(f"perceived {attribute}" for attribute in self.sweep.attributes)
        return (
            f"Counterfactual face images: {self.photos:,} photos of people, each in versions in which only the {swept} "
            f"of the face was changed, step by step, by a neural network. The images are synthetic; {self.images:,} in "
            f"all{', next to the photos themselves' if self.originals else ''}, with masks of where they may differ "
            "from the photo. Made to audit image classifiers, not to say anything about the people shown."
        )


@dataclass(frozen=True, eq=False)
class DatasetContent:
    """The images of a dataset as its run has them.

    Attributes:
        work: the audit whose versions are complete.
        folder: the dataset's.
        photos: the run's photos table.
        faces: the run's faces table.
        advance: is called with how many versions were gone through.
    """

    work: Audit
    folder: Path
    photos: "pd.DataFrame"
    faces: "pd.DataFrame"
    advance: Advance = lambda count, note="": None

    @property
    def columns(self) -> dict[str, Column]:
        """The columns of metadata.csv."""
        options = self.work.settings.dataset
        return columns_of(
            self.work.settings.sweep.attributes, photo_names=options.photo_names, manifest=options.columns
        )

    def frames(self) -> "Iterator[pd.DataFrame]":
        """The images, some at a time: the versions that were made, then the originals if they are published."""
        for frame in self.versions():
            yield frame
            self.advance(len(frame))
        if self.work.settings.dataset.originals:
            for frame in self.versions():
                yield original_rows(self.first_versions(frame), self.folder)

    def versions(self) -> "Iterator[pd.DataFrame]":
        """The versions that were made, some at a time."""
        swept, manifest = self.work.settings.sweep.chosen(), self.work.settings.dataset.columns
        facts = photo_facts(self.photos, self.faces, swept=swept, manifest=manifest)
        yield from dataset_frames(self.work.run.path("counterfactuals.parquet"), facts, swept=swept)

    def first_versions(self, frame: "pd.DataFrame") -> "pd.DataFrame":
        """One row a photo."""
        attribute = self.work.settings.sweep.attributes[0]
        return frame[(frame["attribute"] == attribute) & (frame["arm"] == EDIT_ARM) & (frame["step"] == 1)]


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

    run, settings = content.work.run, content.work.settings
    used: Counter[str] = Counter()
    images: Counter[str] = Counter()
    for frame in content.frames():
        used.update(content.first_versions(frame)["split"])
        images.update(frame.loc[frame["attribute"] != ORIGINAL, "split"])
    # Without the names and sums of the files, most of the table.
    needed = [name for name in COUNTERFACTUALS if name not in ("file", "mask", "sha256")]
    versions = read_frame(run.path("counterfactuals.parquet"), columns=needed)
    groups, mode = source_groups(content.faces), settings.sweep.mode
    card = validity_card(versions, swept=settings.sweep.chosen(), groups=groups, options=settings.validity, mode=mode)
    run.note(validity=plain_rows(card))
    lost = [
        table[table["status"] != "ok"].drop_duplicates("photo") for table in (content.photos, content.faces, versions)
    ]
    reasons = Counter(str(reason).partition(":")[0] for table in lost for reason in table["reason"])
    return DatasetFacts(
        name=settings.dataset.name or content.folder.name,
        splits={
            split: SplitFacts(used[split], images[split], sha256_of(content.folder / split / METADATA))
            for split in SPLITS
            if images[split]
        },
        listed=len(content.photos),
        left_out=dict(sorted(reasons.items())),
        opted_out=opted_out,
        columns=content.columns,
        originals=settings.dataset.originals,
        sweep=settings.sweep,
        options=settings.dataset,
        weights=run.record.weights,
        terms=TERMS,
        validity=check_results(card.to_dict("records")),
        published=str(settings.dataset.published or run.record.created[:10]),
        program=f"Counterslope {version('counterslope')}",
    )
