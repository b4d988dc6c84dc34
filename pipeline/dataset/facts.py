"""What a dataset's card and its Croissant description are written from."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pipeline.config.options import DatasetOptions, SweepOptions
from pipeline.report.card import CheckResult


@dataclass(frozen=True)
class SplitFacts:
    """Of one split: its photos, its images, and the sha256 of its metadata.csv."""

    photos: int
    images: int
    metadata_sha256: str


@dataclass(frozen=True)
class DatasetFacts:
    """Of one dataset.

    Attributes:
        name: what it is called.
        splits: by name.
        listed: photos in the input; ``left_out``: reason -> how many of them.
        opted_out: sha256 of the photos on the opt-out list.
        columns: of metadata.csv.
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
    columns: Sequence[str]
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
            "all, with masks of where they may differ from the photo. Made to audit image classifiers, not to say "
            "anything about the people shown."
        )
