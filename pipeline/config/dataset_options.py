"""Options of a dataset of counterfactuals: its splits and the statements of its card."""

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Literal

from pydantic import Field, field_validator

from pipeline.config.flags import Flag, Section

Split = Literal["train", "validation", "test"]
NOT_STATED = "not stated: state it before you publish"


class DatasetOptions(Section):
    """The splits of a dataset of counterfactuals, and the statements of its card that only its publisher can make."""

    name: Annotated[str | None, Flag()] = Field(None, description="the dataset's name; default: the name of its folder")
    split: Annotated[Mapping[Split, Annotated[float, Field(ge=0, le=1)]], Flag(metavar="NAME=SHARE,…")] = Field(
        {"train": 0.8, "test": 0.2}, description="share of the photos in each split"
    )
    seed: Annotated[int, Flag(("--split-seed",))] = Field(0, ge=0, description="seed of the split")
    cluster: Annotated[str | None, Flag(metavar="COLUMN")] = Field(
        None, description="manifest column whose photos stay in one split, such as person"
    )
    licence: Annotated[str, Flag()] = Field(NOT_STATED, description="licence under which the dataset is published")
    source_licence: Annotated[str, Flag()] = Field(NOT_STATED, description="licence of the source photos")
    source: Annotated[str, Flag()] = Field(NOT_STATED, description="where the photos come from")
    contact: Annotated[str, Flag()] = Field(NOT_STATED, description="where people can ask for their photo's removal")
    creator: Annotated[str, Flag()] = Field(NOT_STATED, description="who publishes the dataset")
    url: Annotated[str | None, Flag()] = Field(None, description="address at which the dataset will be published")
    published: Annotated[date | None, Flag(metavar="YYYY-MM-DD")] = Field(
        None, description="date of publication; default: the date on which the run was started"
    )
    photo_names: Annotated[bool, Flag()] = Field(
        False, description="publish the photos' file names, not only their sha256"
    )
    columns: Annotated[tuple[str, ...], Flag(("--manifest-column",), metavar="COLUMN")] = Field(
        (), description="manifest columns to copy into metadata.csv"
    )
    originals: Annotated[bool, Flag()] = Field(False, description="publish the source photos, too")

    @field_validator("split")
    @classmethod
    def _whole(cls, split: Mapping[Split, float]) -> Mapping[Split, float]:
        if abs(sum(split.values()) - 1) > 1e-9:
            raise ValueError(f"the shares must sum to 1, not {sum(split.values()):g}")
        return split
