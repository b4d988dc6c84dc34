"""Every option of a run, declared once: name, type, default, bounds, meaning and flag.

The command line's options are generated from these fields. Options of a sweep are in ``sweep_options``, of a dataset in
``dataset_options``; the precedence of sources is in ``sources``.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from adapters.credentials import planted_secret
from pipeline.config.dataset_options import DatasetOptions
from pipeline.config.flags import EVERY, Flag, Section, adapter_options, by_adapter, listed_unless
from pipeline.config.sweep_options import SweepOptions

Response = Literal["presence", "confidence"]


class ConfigError(ValueError):
    """An option is unknown or has an invalid value. The message names the option and where it was set."""


class PhotoOptions(Section):
    """Which photos are processed, and at what size."""

    long_side: int = Field(1280, ge=64, le=8192, description="pixels; larger photos are shrunk to this")
    max_megapixels: float = Field(
        50.0, gt=0, le=1000, description="larger files are excluded without decoding (decompression bombs)"
    )
    opt_out: Annotated[str | Path | None, Flag(metavar="FILE")] = Field(
        None, description="file of photos that are never processed: names or sha256, one per line"
    )
    opt_out_allow_unmatched: Annotated[bool, Flag()] = Field(
        False, description="accept entries of the opt-out file that match a photo only if letter case is ignored"
    )


class FaceOptions(Section):
    """Which faces are good enough to be edited."""

    min_score: float = Field(0.90, ge=0, le=1, description="lowest detection score")
    min_eye_distance: float = Field(16.0, ge=4, description="pixels between the eyes")
    max_rotation: float = Field(40.0, ge=0, le=180, description="degrees in the image plane")


class ValidityOptions(Section):
    """Thresholds of the validity card. The card fails if one check does."""

    effect: float = Field(0.40, ge=0, le=1, description="smallest rise of the judge's mean probability from -1 to +1")
    monotone: float = Field(
        0.85, ge=0, le=1, description="smallest share of faces with Spearman(a, probability) >= 0.9"
    )
    group_effect: float = Field(0.30, ge=0, le=1, description="smallest effect in any source group")
    falls: float = Field(0.05, ge=0, le=1, description="largest share of faces whose probability falls along the sweep")
    dead: float = Field(0.02, ge=0, le=1, description="largest share of faces that hardly change")
    dead_rise: float = Field(
        0.20, ge=0, le=1, description="rise over the whole sweep below which a face hardly changes"
    )
    years: float = Field(2.0, gt=0, description="largest mean change of perceived age from -1 to +1, in each gender")
    most_years: float = Field(6.0, gt=0, description="largest 90 % quantile of the change of perceived age")
    off_target: float = Field(0.05, ge=0, le=1, description="largest change of another attribute from -1 to +1")
    lightness: float = Field(
        5.0, gt=0, description="largest change of mean L* from -1 to +1, if the attribute excludes skin colour"
    )
    lightness_gap: float = Field(5.0, gt=0, description="largest difference of this change between source groups")
    tone: float = Field(
        6.0, gt=0, description="largest CIELAB distance between the skin's shift and the groups' difference"
    )
    neck_gap: float = Field(2.0, gt=0, description="largest mean gap between the shifts of face and neck at -1 and +1")
    concentration: float = Field(
        1.25, gt=0, description="largest concentration of the change, as a multiple of that of real faces' differences"
    )
    asymmetry: float = Field(0.40, gt=0, le=2, description="largest one-sidedness of the change, 0 to 2")
    clipped: float = Field(0.02, ge=0, le=1, description="largest share of the mask's pixels beyond black or white")
    seam: float = Field(0.10, gt=0, description="largest mean share of the mask's outline at which a line shows")
    null_psnr: float = Field(26.0, gt=0, description="smallest PSNR of the null edit inside the mask, in dB")
    null_ssim: float = Field(0.85, ge=0, le=1, description="smallest SSIM of the null edit inside the mask")
    identity: float = Field(0.60, ge=-1, le=1, description="smallest mean cosine similarity to the null edit, -1 to +1")
    identity_photos: int = Field(64, ge=0, description="photos given to the recognition network, if it is installed")
    stencil: float = Field(6.0, gt=0, description="largest deviation of the mean change of L* from its own mean")
    detection: float = Field(
        0.80, ge=0.5, le=1, description="largest AUC of a small classifier trained to detect edits"
    )
    real_paste: float = Field(1.05, gt=0, description="largest effect as a share of the effect of pasted real faces")
    picture_photos: int = Field(100, ge=0, description="photos in the checks that compare images across photos")
    smallest_group: int = Field(10, ge=2, description="smallest source group that is compared, in photos")


# The options of ``QueryOptions`` that are tables by adapter.
TABLES = ("rate", "concurrency", "workers_for", "price")


class QueryOptions(Section):
    """The classifiers to audit, and limits of rate and cost. In tables by adapter, ``*`` is all remote classifiers."""

    adapters: Annotated[tuple[str, ...], Flag(("--adapter",), "NAME")] = Field(
        ("opencv", "face-attributes"),
        min_length=1,
        description="a classifier listed by counterslope adapters, or your own function, python:MODULE:FUNCTION; "
        "repeat, or separate by commas",
    )
    options: Annotated[dict[str, dict[str, Any]], Flag(("--adapter-option",), "NAME.OPTION=VALUE", adapter_options)] = (
        Field(default_factory=dict, description="an option of one classifier; may be repeated")
    )
    max_calls: Annotated[int | None, Flag()] = Field(None, ge=0, description="largest total number of calls")
    max_cost: Annotated[float | None, Flag(metavar="USD")] = Field(None, ge=0, description="largest total cost, in US$")
    rate: Annotated[dict[str, Annotated[float, Field(gt=0, le=10_000)]], Flag(metavar="[NAME=]N", parse=by_adapter)] = (
        Field(default_factory=dict, description="requests per second, for one or for all remote classifiers")
    )
    concurrency: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=512)]], Flag(metavar="[NAME=]N", parse=by_adapter)
    ] = Field(default_factory=dict, description="simultaneous calls, for one or for all remote classifiers")
    workers_for: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=1024)]], Flag(metavar="[NAME=]N", parse=by_adapter)
    ] = Field(
        default_factory=dict,
        description="processes that query a classifier on this machine; default: all workers for networks, one for "
        "your own functions",
    )
    price: Annotated[dict[str, Annotated[float, Field(ge=0)]], Flag(metavar="[NAME=]USD", parse=by_adapter)] = Field(
        default_factory=dict, description="US$ per 1,000 images and feature, instead of the built-in price"
    )
    patience: Annotated[float, Flag(metavar="SECONDS")] = Field(
        600, ge=0, le=604_800, description="seconds without an answer after which a service is given up"
    )
    sentinels: Annotated[int, Flag()] = Field(
        3, ge=0, le=20, description="synthetic portraits queried at start, middle and end to detect a change of service"
    )

    @field_validator("adapters")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ValueError(f"{name} is named twice; each classifier is queried once")
        return names

    @field_validator("options")
    @classmethod
    def _no_secrets(cls, options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for adapter, given in options.items():
            secret = planted_secret(given)
            if secret is not None:
                raise ValueError(
                    f"the option {secret!r} of {adapter} looks like a credential. Options are stored in run.json and "
                    "visible to other processes. Set an environment variable instead; `counterslope adapters info "
                    f"{adapter}` lists those that are read"
                )
        return options

    def check_adapters(self) -> None:
        """Check that every option by adapter belongs to one of ``adapters``.

        Raises:
            ConfigError: an option belongs to another adapter.
        """
        given: list[tuple[str, ...]] = [
            ("options", name, option) for name, options in self.options.items() for option in options
        ]
        given += [(table, name) for table in TABLES for name in getattr(self, table)]
        for table, name, *option in given:
            if name not in (*self.adapters, EVERY):
                raise ConfigError(
                    f"query.{'.'.join([table, name, *option])}: the adapter {name} is not queried, only "
                    f"{', '.join(self.adapters)}. Add it with --adapter, or correct the option's name"
                )

    def of(self, option: Literal["rate", "concurrency", "price"], adapter: str, *, remote: bool) -> float | None:
        """Return the value of an option for one adapter, or None if it is not set."""
        table: Mapping[str, float] = getattr(self, option)
        return table.get(adapter, table.get(EVERY) if remote else None)

    def processes(self, adapter: str) -> int | None:
        """Return the number of processes that query a classifier on this machine, or None if it is not set."""
        return self.workers_for.get(adapter, self.workers_for.get(EVERY))


class StatisticsOptions(Section):
    """How slopes are estimated, and which of them are findings."""

    response: Annotated[Response, Flag()] = Field(
        "presence", description="what is regressed: the rate at which a label is present, or its mean score"
    )
    presence_threshold: Annotated[float | None, Flag()] = Field(
        None, ge=0, le=1, description="smallest score at which a label is present; default: the adapter's own threshold"
    )
    min_count: Annotated[float, Flag()] = Field(
        30, ge=0, description="smallest number of photos with the label at a = 0 for which a slope is estimated"
    )
    max_p: Annotated[float, Flag()] = Field(0.001, gt=0, le=1, description="a finding's largest p")
    min_slope: Annotated[float, Flag()] = Field(0.03, ge=0, le=10, description="a finding's smallest |slope|")
    family: Annotated[
        tuple[Literal["adapter", "attribute"], ...], Flag(metavar="COLUMNS", parse=listed_unless("all"))
    ] = Field(
        (),
        description="columns (adapter,attribute) that define the families of tests for q; all: one family of all tests",
    )
    cluster: Annotated[str | None, Flag(metavar="COLUMN")] = Field(
        None, description="manifest column that identifies dependent photos, such as person"
    )
    by: Annotated[str | None, Flag(metavar="COLUMN")] = Field(
        None,
        description="also estimate slopes within groups of photos: a manifest column, perceived (the group in which "
        "the face is perceived) or folder",
    )
    resamples: int = Field(2000, ge=100, le=100_000, description="bootstrap resamples and sign-flip permutations")
    seed: int = Field(0, ge=0, description="seed of the resamples")

    @field_validator("by", "cluster", mode="before")
    @classmethod
    def _empty_is_none(cls, column: Any) -> Any:
        """Read an empty name on the command line as None, which resets the column of an existing run."""
        return None if column == "" else column

    @property
    def confidence(self) -> bool:
        """Whether the response is the score itself."""
        return self.response == "confidence"

    def thresholds(self, declared: Mapping[str, float]) -> dict[str, float]:
        """Return adapter -> the smallest score at which a label is present: the option, or the adapter's own."""
        given = self.presence_threshold
        return {adapter: own if given is None else given for adapter, own in declared.items()}


class EngineOptions(Section):
    """Processes and devices. Results do not depend on them, except for rounding on devices other than the CPU."""

    workers: Annotated[int | None, Flag()] = Field(
        None, ge=1, le=1024, description="number of worker processes; default: the number of cores"
    )
    kind: Annotated[Literal["local", "ray"], Flag(("--engine",))] = Field(
        "local", description="local: processes of this machine; ray: a Ray cluster whose nodes share the run's files"
    )
    ray_address: Annotated[str | None, Flag()] = Field(
        None, description="the Ray cluster, such as auto or HOST:6379; default: start one on this machine"
    )
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], Flag()] = Field(
        "auto", description="device of the networks that edit and judge faces; auto: a GPU if there is one"
    )


class StorageOptions(Section):
    """Where and in what form images and masks are stored. Results do not depend on it."""

    images: Annotated[Literal["folder", "shards", "parquet"], Flag()] = Field(
        "folder",
        description="folder: one file per version; shards: WebDataset tar files of several photos each; parquet: "
        "Parquet files of several photos each, with the images' bytes",
    )
    images_to: Annotated[str | None, Flag(metavar="URL")] = Field(
        None,
        description="folder of an object store (s3://, gs://, abfs://) for images and masks, with copies of the run's "
        "other files, if --out is a local folder",
    )

    @field_validator("images_to")
    @classmethod
    def _url(cls, address: str | None) -> str | None:
        if address is not None and "://" not in address:
            raise ValueError(f"{address!r} is not a URL such as s3://bucket/folder")
        return address


class Settings(Section):
    """All options of a run."""

    storage: StorageOptions = Field(default_factory=StorageOptions)
    engine: EngineOptions = Field(default_factory=EngineOptions)
    photos: PhotoOptions = Field(default_factory=PhotoOptions)
    faces: FaceOptions = Field(default_factory=FaceOptions)
    sweep: SweepOptions = Field(default_factory=SweepOptions)
    validity: ValidityOptions = Field(default_factory=ValidityOptions)
    query: QueryOptions = Field(default_factory=QueryOptions)
    statistics: StatisticsOptions = Field(default_factory=StatisticsOptions)
    dataset: DatasetOptions = Field(default_factory=DatasetOptions)
