"""Every option of a run, its default and its meaning; where an option comes from.

Precedence, written down here once: command line > TOML file (``--config``) > environment > default; what is by adapter
is overridden option by option. In TOML an option lives in its section (``[sweep]`` then ``mode = "delta"``); in the
environment it is ``COUNTERSLOPE_SWEEP__MODE=delta``, lists separated by commas.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, Attribute
from pipeline.config.redaction import planted_secret

Placebo = Literal["random", "colour"]
Split = Literal["train", "validation", "test"]
ENVIRONMENT_PREFIX = "COUNTERSLOPE_"


class ConfigError(ValueError):
    """An option is unknown or has an impossible value; the message names it and where it was set."""


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


def _known_attribute(name: str) -> Attribute:
    if name not in ATTRIBUTES:
        raise ValueError(f"there is no attribute {name!r}; there are {', '.join(ATTRIBUTES)}")
    return ATTRIBUTES[name]


class PhotoOptions(_Section):
    """Which files are read and how large a photo may be."""

    long_side: int = Field(1280, ge=64, le=8192, description="pixels; larger photos are shrunk to this")
    max_megapixels: float = Field(100.0, gt=0, description="larger files are excluded unread (decompression bombs)")
    opt_out: Path | None = Field(None, description="a file of photos that are never processed, by name or sha256")


class FaceOptions(_Section):
    """Which faces are good enough to be edited."""

    min_score: float = Field(0.90, ge=0, le=1, description="lowest detection score")
    min_eye_distance: float = Field(16.0, ge=4, description="pixels between the eyes")
    max_rotation: float = Field(40.0, ge=0, le=180, description="degrees in the image plane")


class SweepOptions(_Section):
    """What is changed in the face, how far, and how it is put back."""

    attributes: tuple[str, ...] = Field(("gender",), description="what is changed, one sweep each")
    steps: Mapping[str, Annotated[int, Field(ge=3, le=201)]] = Field(
        {}, description="number of values of a sweep, odd, by attribute", validate_default=True
    )
    reach: float = Field(2.0, gt=0, le=4, description="values span -reach..reach; training spans -2..2")
    poles: Mapping[str, tuple[str, str]] = Field(
        {}, description="the categories at -1 and +1, by attribute", validate_default=True
    )
    mode: Literal["delta", "reconstruction"] = Field("delta", description="how the edit is put back")
    region: tuple[str, ...] = Field(
        ("skin", "nose", "brows", "eyes", "mouth", "lips"), description="face classes that may change"
    )
    feather: float = Field(0.02, ge=0, le=0.2, description="width of the mask's soft edge, in crop sides")
    placebos: tuple[Placebo, ...] = Field(
        (), description="edits as large as the real one: along a random direction, or of its mean colour only"
    )
    placebo_seed: int = Field(0, ge=0, description="of the random direction")
    parser: Literal["small", "bisenet"] = Field("small", description="which network says what is skin")
    parser_weights: Path | None = Field(None, description="the file of the public BiSeNet weights")
    image_format: Literal["png", "jpeg"] = Field("png", description="png is lossless")
    jpeg_quality: int = Field(95, ge=50, le=100)

    @field_validator("attributes")
    @classmethod
    def _known_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names or len(set(names)) != len(names):
            raise ValueError("attributes must be named once each, at least one")
        for name in names:
            _known_attribute(name)
        return names

    @field_validator("steps")
    @classmethod
    def _odd(cls, steps: Mapping[str, int], info: ValidationInfo) -> Mapping[str, int]:
        for name, number in steps.items():
            _known_attribute(name)
            if number % 2 == 0:
                raise ValueError(f"{name}={number} must be odd, so that the middle step is a = 0")
        return {name: ATTRIBUTES[name].default_steps for name in info.data.get("attributes", ())} | dict(steps)

    @field_validator("poles")
    @classmethod
    def _categories(cls, poles: Mapping[str, tuple[str, str]], info: ValidationInfo) -> Mapping[str, tuple[str, str]]:
        swept = (ATTRIBUTES[name] for name in info.data.get("attributes", ()))
        found = {attribute.name: attribute.poles for attribute in swept if attribute.categories}
        return found | {name: _known_attribute(name).with_poles(pair).poles for name, pair in poles.items()}

    @model_validator(mode="after")
    def _distinct(self) -> "SweepOptions":
        if len(set(self.placebos)) != len(self.placebos):
            raise ValueError("placebos must be named once each")
        if (self.parser == "bisenet") != (self.parser_weights is not None):
            raise ValueError("parser 'bisenet' needs the file of its weights (--weights), and only it does")
        return self

    @property
    def arms(self) -> tuple[str, ...]:
        """What is made of each attribute: the edit and its placebos."""
        return (EDIT_ARM, *self.placebos)

    @property
    def versions(self) -> int:
        """How many images are made of one photo."""
        return len(self.arms) * sum(len(self.values(name)) for name in self.attributes)

    def chosen(self) -> Mapping[str, Attribute]:
        """The swept attributes by their names, between the poles of this sweep."""
        return {
            name: ATTRIBUTES[name].with_poles(self.poles.get(name, ATTRIBUTES[name].poles)) for name in self.attributes
        }

    @property
    def race_pair(self) -> tuple[str, str]:
        """The races at -1 and +1. To be replaced by ``chosen()``."""
        return self.poles.get("race", ATTRIBUTES["race"].poles)

    def values(self, attribute: str) -> tuple[float, ...]:
        """The K evenly spaced values of a sweep, lowest first."""
        last = self.steps.get(attribute, ATTRIBUTES[attribute].default_steps) - 1
        return tuple(self.reach * (2 * k - last) / last for k in range(last + 1))


class ValidityOptions(_Section):
    """What the validity card asks for; a check that misses it fails the card."""

    effect: float = Field(0.40, ge=0, le=1, description="least rise of the judge's mean probability from -1 to +1")
    monotone: float = Field(0.85, ge=0, le=1, description="least share of faces with Spearman(a, probability) >= 0.9")
    off_target: float = Field(0.05, ge=0, le=1, description="largest change of another attribute from -1 to +1")
    lightness: float = Field(5.0, gt=0, description="largest change of mean L* from -1 to +1 (gender)")
    lightness_gap: float = Field(5.0, gt=0, description="largest difference of that between source groups")
    clipped: float = Field(0.02, ge=0, le=1, description="largest share of the mask's pixels beyond black or white")
    seam: float = Field(0.10, gt=0, description="largest mean change of gradient energy on the mask's edge, as a share")
    null_psnr: float = Field(26.0, gt=0, description="least dB of the null edit inside the mask")
    null_ssim: float = Field(0.85, ge=0, le=1, description="least SSIM of the null edit inside the mask")
    identity: float = Field(0.60, ge=-1, le=1, description="least mean cosine similarity to the null edit, -1 to +1")
    identity_photos: int = Field(64, ge=0, description="photos shown to the recognition network, if it is there")
    smallest_group: int = Field(10, ge=2, description="photos that a source group needs to be compared")


EVERY = "*"  # in place of an adapter's name: all remote ones


class QueryOptions(_Section):
    """Which classifiers are asked, how fast, what it may cost. What is by adapter takes ``*`` for all remote ones."""

    adapters: tuple[str, ...] = Field(
        ("opencv", "face-attributes"), description="adapters by name; 'python:module:function' for your own"
    )
    options: dict[str, dict[str, Any]] = Field(default_factory=dict, description="options of each adapter, by its name")
    max_calls: int | None = Field(None, ge=0, description="stop before asking if it takes more calls")
    max_cost: float | None = Field(None, ge=0, description="US$; stop before asking if it would cost more")
    patience: float = Field(
        600, ge=0, le=604_800, description="seconds to wait for a service that answers nobody, before it is given up"
    )
    sentinels: int = Field(3, ge=0, le=20, description="images asked at start, middle and end to see a service change")
    rate: dict[str, Annotated[float, Field(gt=0, le=10_000)]] = Field(
        default_factory=dict, description="requests per second, by adapter"
    )
    concurrency: dict[str, Annotated[int, Field(ge=1, le=512)]] = Field(
        default_factory=dict, description="calls at once, by adapter"
    )
    price: dict[str, Annotated[float, Field(ge=0, allow_inf_nan=False)]] = Field(
        default_factory=dict, description="US$ per 1,000 images and feature, by adapter, in place of the table's"
    )

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

    def check_asked(self) -> None:
        """Whether each classifier is asked once, and what is said by adapter is said of one that is asked.

        Raises:
            ConfigError: not so; the message names the option and the classifiers that are asked.
        """
        twice = [name for number, name in enumerate(self.adapters) if name in self.adapters[:number]]
        if twice:
            raise ConfigError(f"query.adapters: {twice[0]} is named twice: every classifier is asked once")
        said: list[tuple[str, ...]] = [
            ("options", name, option) for name, options in self.options.items() for option in options
        ]
        said += [(table, name) for table in ("rate", "concurrency", "price") for name in getattr(self, table)]
        for table, name, *option in said:
            if name not in (*self.adapters, EVERY):
                raise ConfigError(
                    f"query.{'.'.join([table, name, *option])}: no adapter {name} is asked; asked are "
                    f"{', '.join(self.adapters)}. Add it with --adapter, or mend the option's name"
                )

    def of(self, option: Literal["rate", "concurrency", "price"], adapter: str, *, remote: bool) -> float | None:
        """What an option by adapter says of one; None where it says nothing."""
        table: Mapping[str, float] = getattr(self, option)
        return table.get(adapter, table.get(EVERY) if remote else None)


class StatisticsOptions(_Section):
    """How slopes are estimated and which are called findings."""

    presence: float | None = Field(
        None, ge=0, le=1, description="score from which a label is present; else the adapter's"
    )
    confidence: bool = Field(False, description="regress the mean score instead of the presence rate")
    min_count: float = Field(30, ge=0, description="photos with the label at a = 0, below which no slope is given")
    max_p: float = Field(0.001, gt=0, le=1, description="a finding's largest p")
    min_slope: float = Field(0.03, ge=0, description="a finding's smallest |slope|")
    family: tuple[Literal["adapter", "attribute"], ...] = Field(
        (), description="columns that make labels one family for q; none: all labels tested"
    )
    cluster: str | None = Field(None, description="manifest column whose photos belong together, such as person")
    by: str | None = Field(
        None, description="slopes for groups of photos too: a manifest column, 'perceived' or 'folder'"
    )
    resamples: int = Field(2000, ge=100, description="bootstrap resamples and sign-flip permutations")
    seed: int = Field(0, ge=0)

    @field_validator("by", "cluster", mode="before")
    @classmethod
    def _empty_is_none(cls, column: Any) -> Any:
        """An empty name on the command line takes back what a run was made with."""
        return None if column == "" else column


NOT_STATED = "not stated: state it before you publish"


class DatasetOptions(_Section):
    """How a dataset of counterfactuals is split, and what its card says that no program can know."""

    name: str | None = Field(None, description="what the dataset is called; else its folder's name")
    split: Mapping[Split, Annotated[float, Field(ge=0, le=1)]] = Field(
        {"train": 0.8, "test": 0.2}, description="share of the photos, by split"
    )
    seed: int = Field(0, ge=0, description="of the split")
    cluster: str | None = Field(None, description="manifest column whose photos stay in one split, such as person")
    licence: str = Field(NOT_STATED, description="of the source photos")
    source: str = Field(NOT_STATED, description="where the photos come from")
    contact: str = Field(NOT_STATED, description="where people ask to be left out")
    creator: str = Field(NOT_STATED, description="who publishes the dataset")
    url: str | None = Field(None, description="where the dataset will be found")
    published: date | None = Field(None, description="the day of publication; else the day the work began")
    photo_names: bool = Field(False, description="tell the photos' file names, not only their sha256")

    @field_validator("split")
    @classmethod
    def _whole(cls, split: Mapping[Split, float]) -> Mapping[Split, float]:
        if abs(sum(split.values()) - 1) > 1e-9:
            raise ValueError(f"the shares must add up to 1, not {sum(split.values()):g}")
        return split


class Settings(_Section):
    """All options of a run."""

    photos: PhotoOptions = PhotoOptions()
    faces: FaceOptions = FaceOptions()
    sweep: SweepOptions = SweepOptions()
    validity: ValidityOptions = ValidityOptions()
    query: QueryOptions = QueryOptions()
    statistics: StatisticsOptions = StatisticsOptions()
    dataset: DatasetOptions = DatasetOptions()


def load_settings(
    *, given: Mapping[str, Mapping[str, Any]], file: Path | None = None, environment: Mapping[str, str] | None = None
) -> Settings:
    """Settings from all sources by their precedence.

    Args:
        given: section -> option -> value from the command line; None means "not given".
        file: a TOML file.
        environment: the process's environment unless given.

    Raises:
        ConfigError: an unknown section or option, or a value that does not fit; names the source.
    """
    merged: dict[str, dict[str, Any]] = {}
    # (section, option) -> the source that won; (section,) -> all that set anything in it.
    origins: dict[tuple[str, ...], list[str]] = {}
    from_file = _read_toml(file) if file is not None else {}
    command_line = {
        section: {name: value for name, value in options.items() if value is not None}
        for section, options in given.items()
        if any(value is not None for value in options.values())
    }
    variables = os.environ if environment is None else environment
    for source, sections in (
        ("the environment", _from_environment(variables)),
        (str(file), from_file),
        ("the command line", command_line),
    ):
        for section, options in sections.items():
            if not isinstance(options, Mapping):
                raise ConfigError(f"{section!r} in {source} stands outside any section, e.g. [sweep]")
            merged[section] = overlaid(merged.get(section, {}), options)
            origins.setdefault((section,), []).append(source)
            for name, value in options.items():
                added_to = origins.get((section, name), []) if isinstance(value, Mapping) else []
                origins[section, name] = [*added_to, source]
    return checked(merged, origins)


def overlaid(below: Mapping[str, Any], above: Mapping[str, Any], *, depth: int = 2) -> dict[str, Any]:
    """A section's options with others upon them: what is by adapter is replaced by adapter and option, not as a whole.

    Args:
        below: option -> value.
        above: option -> value; these win.
        depth: how deep tables within tables are laid upon each other: adapter, then its options.
    """
    found = dict(below)
    for name, value in above.items():
        old = below.get(name)
        if depth and isinstance(old, Mapping) and isinstance(value, Mapping):
            value = overlaid(old, value, depth=depth - 1)
        found[name] = value
    return found


def checked(sections: Mapping[str, Any], origins: Mapping[tuple[str, ...], Sequence[str]] | None = None) -> Settings:
    """Settings from sections of options.

    Args:
        sections: section -> option -> value.
        origins: (section, option) or (section,) -> where it was set, for the message.

    Raises:
        ConfigError: an unknown section or option, or a value that does not fit.
    """
    try:
        return Settings.model_validate(sections)
    except ValidationError as error:
        lines = []
        for problem in error.errors(include_input=False):
            place = tuple(str(part) for part in problem["loc"])
            source = " and ".join((origins or {}).get(place[:2], ()))
            lines.append(f"{'.'.join(place)}{f' (from {source})' if source else ''}: {problem['msg']}")
        raise ConfigError("\n".join(lines)) from error


def upgraded(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """The resolved settings of an older run's record, in today's names."""
    sections = {section: dict(options) for section, options in settings.items()}
    sweep = sections.get("sweep", {})
    if "race_pair" in sweep:
        swept = sweep.get("attributes", ())
        steps = {name: sweep.pop(f"{name}_steps") for name in ("gender", "race") if f"{name}_steps" in sweep}
        sweep["steps"] = {name: number for name, number in steps.items() if name in swept}
        pair = sweep.pop("race_pair")
        sweep["poles"] = {"race": pair} if "race" in swept else {}
    return sections


def _read_toml(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the configuration file {file} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"the configuration file {file} is not TOML: {error}") from error


def _from_environment(variables: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    sections: dict[str, dict[str, Any]] = {}
    for variable, text in variables.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or "__" not in variable:
            continue
        section, _, name = variable.removeprefix(ENVIRONMENT_PREFIX).lower().partition("__")
        try:
            sections.setdefault(section, {})[name] = _from_text(section, name, text)
        except json.JSONDecodeError as error:
            raise ConfigError(f"{variable} in the environment is not JSON: {error}") from error
    return sections


def _from_text(section: str, name: str, text: str) -> Any:
    """A list where the option is one; JSON where it is a table; otherwise the text, which pydantic converts."""
    field = Settings.model_fields.get(section)
    options = field.annotation.model_fields if field and isinstance(field.annotation, type) else {}
    if name in options:
        kind = str(options[name].annotation)
        if "dict" in kind or "Mapping" in kind:
            return json.loads(text)
        if "tuple" in kind:
            return [part.strip() for part in text.split(",") if part.strip()]
    return text
