"""Every option of a run, declared once: its name, type, default, bounds, meaning, and its flag.

Those of a sweep are in ``sweep_options``, of a dataset in ``dataset_options``; which source of an option wins is in
``sources``. The command line's options are made from these fields.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from pipeline.config.dataset_options import DatasetOptions
from pipeline.config.flags import EVERY, Flag, Section, adapter_options, by_adapter, families
from pipeline.config.redaction import planted_secret
from pipeline.config.sweep_options import SweepOptions

Response = Literal["presence", "confidence"]


class ConfigError(ValueError):
    """An option is unknown or has an impossible value; the message names it and where it was set."""


class PhotoOptions(Section):
    """Which files are read and how large a photo may be."""

    long_side: int = Field(1280, ge=64, le=8192, description="pixels; larger photos are shrunk to this")
    max_megapixels: float = Field(
        50.0, gt=0, le=1000, description="larger files are excluded unread (decompression bombs)"
    )
    opt_out: Annotated[str | Path | None, Flag(metavar="FILE")] = Field(
        None, description="file of photos that are never processed, by name or sha256, one a line"
    )
    opt_out_allow_unmatched: Annotated[bool, Flag()] = Field(
        False, description="accept entries of that file that name no photo, but would in other letter case"
    )


class FaceOptions(Section):
    """Which faces are good enough to be edited."""

    min_score: float = Field(0.90, ge=0, le=1, description="lowest detection score")
    min_eye_distance: float = Field(16.0, ge=4, description="pixels between the eyes")
    max_rotation: float = Field(40.0, ge=0, le=180, description="degrees in the image plane")


class ValidityOptions(Section):
    """Thresholds of the validity card; a check that misses one fails the card."""

    effect: float = Field(0.40, ge=0, le=1, description="least rise of the judge's mean probability from -1 to +1")
    monotone: float = Field(0.85, ge=0, le=1, description="least share of faces with Spearman(a, probability) >= 0.9")
    group_effect: float = Field(0.30, ge=0, le=1, description="least effect in the source group where it is smallest")
    falls: float = Field(0.05, ge=0, le=1, description="largest share of faces whose probability falls along the sweep")
    dead: float = Field(0.02, ge=0, le=1, description="largest share of faces that hardly change")
    dead_rise: float = Field(
        0.20, ge=0, le=1, description="rise over the whole sweep below which a face hardly changes"
    )
    years: float = Field(2.0, gt=0, description="largest mean change of perceived age from -1 to +1, in each gender")
    most_years: float = Field(6.0, gt=0, description="change of perceived age that nine of ten faces stay below")
    off_target: float = Field(0.05, ge=0, le=1, description="largest change of another attribute from -1 to +1")
    lightness: float = Field(5.0, gt=0, description="largest change of mean L* from -1 to +1, if colour should stay")
    lightness_gap: float = Field(5.0, gt=0, description="largest difference of that between source groups")
    tone: float = Field(6.0, gt=0, description="largest distance of the skin's shift from the groups' own, CIELAB")
    neck_gap: float = Field(2.0, gt=0, description="largest mean gap between the shifts of face and neck at -1 and +1")
    concentration: float = Field(
        1.25, gt=0, description="largest concentration of the change, as a multiple of that of real faces' differences"
    )
    asymmetry: float = Field(0.40, gt=0, le=2, description="largest one-sidedness of the change, 0 to 2")
    clipped: float = Field(0.02, ge=0, le=1, description="largest share of the mask's pixels beyond black or white")
    seam: float = Field(0.10, gt=0, description="largest mean share of the mask's outline at which a line shows")
    null_psnr: float = Field(26.0, gt=0, description="least dB of the null edit inside the mask")
    null_ssim: float = Field(0.85, ge=0, le=1, description="least SSIM of the null edit inside the mask")
    identity: float = Field(0.60, ge=-1, le=1, description="least mean cosine similarity to the null edit, -1 to +1")
    identity_photos: int = Field(64, ge=0, description="photos shown to the recognition network, if it is there")
    stencil: float = Field(6.0, gt=0, description="largest deviation of the mean change of L* from its own mean")
    detection: float = Field(0.80, ge=0.5, le=1, description="largest AUC of a small classifier that looks for edits")
    real_paste: float = Field(1.05, gt=0, description="largest effect as a share of what real faces do in the mask")
    picture_photos: int = Field(100, ge=0, description="photos of which pictures are looked at together")
    smallest_group: int = Field(10, ge=2, description="photos that a source group needs to be compared")


# The options of `QueryOptions` that are tables by adapter.
TABLES = ("rate", "concurrency", "workers_for", "price")


class QueryOptions(Section):
    """Which classifiers are audited, how fast, at what cost. Tables by adapter take ``*`` for all remote ones."""

    adapters: Annotated[tuple[str, ...], Flag(("--adapter",), "NAME")] = Field(
        ("opencv", "face-attributes"),
        min_length=1,
        description="a classifier, see counterslope adapters; python:module:function for your own; repeat, or join by "
        "commas",
    )
    options: Annotated[dict[str, dict[str, Any]], Flag(("--adapter-option",), "NAME.OPTION=VALUE", adapter_options)] = (
        Field(default_factory=dict, description="an option of one classifier; may be repeated")
    )
    max_calls: Annotated[int | None, Flag()] = Field(None, ge=0, description="stop before it takes more calls in all")
    max_cost: Annotated[float | None, Flag(metavar="USD")] = Field(
        None, ge=0, description="US$: stop before it would cost more"
    )
    rate: Annotated[dict[str, Annotated[float, Field(gt=0, le=10_000)]], Flag(metavar="[NAME=]N", parse=by_adapter)] = (
        Field(default_factory=dict, description="requests per second, for one or every remote classifier")
    )
    concurrency: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=512)]], Flag(metavar="[NAME=]N", parse=by_adapter)
    ] = Field(default_factory=dict, description="calls at once, for one or every remote classifier")
    workers_for: Annotated[
        dict[str, Annotated[int, Field(ge=1, le=1024)]], Flag(metavar="[NAME=]N", parse=by_adapter)
    ] = Field(
        default_factory=dict,
        description="processes that query a classifier on this machine at once; unless given, all workers for networks "
        "and one for functions of yours",
    )
    price: Annotated[dict[str, Annotated[float, Field(ge=0)]], Flag(metavar="[NAME=]USD", parse=by_adapter)] = Field(
        default_factory=dict, description="US$ per 1,000 images and feature, in place of the table's"
    )
    patience: Annotated[float, Flag(metavar="SECONDS")] = Field(
        600, ge=0, le=604_800, description="seconds to wait for a service that does not answer, before it is given up"
    )
    sentinels: Annotated[int, Flag()] = Field(
        3, ge=0, le=20, description="synthetic portraits queried at start, middle and end to detect a change of service"
    )

    @field_validator("adapters")
    @classmethod
    def _once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        for number, name in enumerate(names):
            if name in names[:number]:
                raise ValueError(f"{name} is named twice: every classifier is queried once")
        return names

    @field_validator("options")
    @classmethod
    def _no_secrets(cls, options: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        for adapter, given in options.items():
            secret = planted_secret(given)
            if secret is not None:
                raise ValueError(
                    f"the option {secret!r} of {adapter} looks like a credential. Options are kept in run.json and "
                    "seen by other processes: put it into an environment variable (`counterslope adapters info "
                    f"{adapter}` names those that are read)"
                )
        return options

    def check_adapters(self) -> None:
        """Check that every option by adapter is of one of ``adapters``.

        Raises:
            ConfigError: one is not; the message names the option and the adapters.
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
        """The value of an option by adapter for one of them; None where it has none."""
        table: Mapping[str, float] = getattr(self, option)
        return table.get(adapter, table.get(EVERY) if remote else None)

    def processes(self, adapter: str) -> int | None:
        """How many processes query a classifier on this machine; None unless given."""
        return self.workers_for.get(adapter, self.workers_for.get(EVERY))


class StatisticsOptions(Section):
    """How slopes are estimated and which are called findings."""

    response: Annotated[Response, Flag()] = Field(
        "presence", description="what is regressed: the rate at which a label is present, or its mean score"
    )
    presence_threshold: Annotated[float | None, Flag()] = Field(
        None, ge=0, le=1, description="score from which a label is present; the adapter's own unless given"
    )
    min_count: Annotated[float, Flag()] = Field(
        30, ge=0, description="photos with the label at a = 0, below which no slope is given"
    )
    max_p: Annotated[float, Flag()] = Field(0.001, gt=0, le=1, description="a finding's largest p")
    min_slope: Annotated[float, Flag()] = Field(0.03, ge=0, le=10, description="a finding's smallest |slope|")
    family: Annotated[tuple[Literal["adapter", "attribute"], ...], Flag(metavar="COLUMNS", parse=families)] = Field(
        (), description="columns (adapter,attribute) that make the labels of one family for q; all: every label tested"
    )
    cluster: Annotated[str | None, Flag(metavar="COLUMN")] = Field(
        None, description="manifest column whose photos belong together, such as person"
    )
    by: Annotated[str | None, Flag(metavar="COLUMN")] = Field(
        None,
        description="also slopes for groups of photos: a manifest column, perceived (how the face is perceived), or "
        "folder",
    )
    resamples: int = Field(2000, ge=100, le=100_000, description="bootstrap resamples and sign-flip permutations")
    seed: int = Field(0, ge=0, description="seed of the resamples")

    @field_validator("by", "cluster", mode="before")
    @classmethod
    def _empty_is_none(cls, column: Any) -> Any:
        """An empty name on the command line takes back what a run was made with."""
        return None if column == "" else column

    @property
    def confidence(self) -> bool:
        """Whether the response is the score itself."""
        return self.response == "confidence"

    def thresholds(self, declared: Mapping[str, float]) -> dict[str, float]:
        """Adapter -> the score from which a label is present: the option's, else the adapter's own."""
        given = self.presence_threshold
        return {adapter: own if given is None else given for adapter, own in declared.items()}


class EngineOptions(Section):
    """What computes; no result depends on it, but for the last bits of other devices than the processor."""

    workers: Annotated[int | None, Flag()] = Field(
        None, ge=1, le=1024, description="processes that work at once; as many as there are cores unless given"
    )
    kind: Annotated[Literal["local", "ray"], Flag(("--engine",))] = Field(
        "local", description="local: processes of this machine; ray: a Ray cluster, whose nodes see the same files"
    )
    ray_address: Annotated[str | None, Flag()] = Field(
        None,
        description="the Ray cluster, such as auto or HOST:6379; one on this machine is started unless given",
    )
    device: Annotated[Literal["auto", "cpu", "cuda", "mps"], Flag()] = Field(
        "auto", description="where the networks that edit and judge faces compute; auto: a GPU where there is one"
    )


class StorageOptions(Section):
    """Where images and masks are written, and as what; no result depends on it."""

    images: Annotated[Literal["folder", "shards", "parquet"], Flag()] = Field(
        "folder",
        description="folder: one file a version; shards: WebDataset tars of some photos each; parquet: Parquet files "
        "of some photos each, with the images' bytes",
    )
    images_to: Annotated[str | None, Flag(metavar="URL")] = Field(
        None,
        description="folder of an object store (s3://, gs://, abfs://) for images and masks; the run's other files are "
        "copied there after each stage",
    )

    @field_validator("images_to")
    @classmethod
    def _url(cls, address: str | None) -> str | None:
        if address is not None and "://" not in address:
            raise ValueError(f"{address!r} is no URL, such as s3://bucket/folder")
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

    @model_validator(mode="after")
    def _shared(self) -> "Settings":
        if (self.storage.images_to or "").startswith("memory:") and self.engine.workers != 1:
            raise ValueError("memory:// is the memory of one process: use it with one worker")
        return self
