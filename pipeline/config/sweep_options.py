"""Options of a sweep: which attribute of a face is edited, how far, by which editor, and how the edit is composited."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, field_validator, model_validator

from models.attributes import class_indices
from pipeline.config.attributes import AT, ATTRIBUTES, CROSSED, EDIT_ARM, Attribute
from pipeline.config.flags import Flag, Section, listed, listed_unless

Placebo = Literal["random", "colour"]
OWN_EDITORS = ("residual", "fader")
EXTERNAL_EDITORS = ("images", "python", "command", "http", "https")


class SweepOptions(Section):
    """Which attribute of a face is edited, how far, by which editor, and how the edit is composited."""

    attributes: Annotated[tuple[str, ...], Flag(("--attribute", "-a"), "NAME")] = Field(
        ("gender",),
        description=f"attribute to sweep: {', '.join(ATTRIBUTES)}; gender*race sweeps the first alone and on faces "
        "edited to each pole of the second; repeat, or separate by commas",
    )
    steps: Annotated[Mapping[str, Annotated[int, Field(ge=3, le=201)]], Flag(metavar="ATTRIBUTE=K")] = Field(
        {}, validate_default=True, description="number of values in an attribute's sweep, odd, such as gender=7"
    )
    poles: Annotated[
        Mapping[str, tuple[str, str]],
        Flag(("--{}-pair",), "LOW,HIGH", listed, tuple(row.name for row in ATTRIBUTES.values() if row.categories)),
    ] = Field({}, validate_default=True, description="the categories at -1 and +1, such as Black,White")
    reach: float = Field(2.0, gt=0, le=4, description="the sweep spans -reach..reach; the Fader is trained on -2..2")
    editor: Annotated[str, Flag()] = Field(
        "residual",
        description="residual: skin tone and feature prototypes in closed form; fader: the Fader network; or an "
        "external editor: images:MANIFEST, python:MODULE:FUNCTION, command:PROGRAM, or the address of a service",
    )
    editor_timeout: Annotated[float, Flag()] = Field(
        120.0, gt=0, description="seconds that an external editor may take for an image"
    )
    editor_price: Annotated[float | None, Flag()] = Field(
        None, ge=0, description="US$ per 1,000 images of an editing service, for the plan"
    )
    mode: Annotated[Literal["delta", "reconstruction"], Flag()] = Field(
        "delta", description="how the edit is composited: added to the photo, or a decoded face pasted into it"
    )
    region: tuple[str, ...] = Field(
        ("skin", "nose", "brows", "eyes", "mouth", "lips"), min_length=1, description="face classes that may change"
    )
    feather: float = Field(0.02, ge=0, le=0.2, description="width of the mask's soft edge, in crop sides")
    placebos: Annotated[tuple[Placebo, ...], Flag(("--placebo",), "NAME", listed_unless("none"))] = Field(
        ("random", "colour"),
        description="control edits of the same size without the attribute, at both ends of the sweep: along random "
        "directions (random) or of the mean colour only (colour); none: no placebos; repeat, or separate by commas",
    )
    placebo_seed: int = Field(0, ge=0, description="seed of the random directions")
    parser: Annotated[Literal["small", "bisenet"], Flag()] = Field(
        "small", description="the face parsing network: small is embedded, bisenet needs its public weights"
    )
    parser_weights: Annotated[Path | None, Flag(("--weights",), "FILE")] = Field(
        None, description="the public BiSeNet weights, a .pth file"
    )
    image_format: Annotated[Literal["png", "jpeg"], Flag()] = Field(
        "png", description="file format of the versions; png is lossless"
    )
    jpeg_quality: Annotated[int, Flag(("--quality",))] = Field(95, ge=50, le=100, description="JPEG quality, 50-100")

    @field_validator("attributes")
    @classmethod
    def _known_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if not names or len(set(names)) != len(names):
            raise ValueError("name at least one attribute, and each only once")
        for name in names:
            crossed = [known_attribute(part) for part in name.split(CROSSED)]
            if len(crossed) > 2 or len({attribute.name for attribute in crossed}) < len(crossed):
                raise ValueError(f"{name} must cross two different attributes, such as gender{CROSSED}race")
            if sum(attribute.moves_colour for attribute in crossed) > 1:
                raise ValueError(f"{name} cannot be crossed: both attributes change skin colour")
        return names

    @field_validator("editor")
    @classmethod
    def _known_editor(cls, name: str) -> str:
        kind, _, target = name.partition(":")
        if name not in OWN_EDITORS and not (kind in EXTERNAL_EDITORS and target):
            raise ValueError(
                f"there is no editor {name!r}; choose {', '.join(OWN_EDITORS)}, images:MANIFEST, "
                "python:MODULE:FUNCTION, command:PROGRAM or the address of a service"
            )
        return name

    @field_validator("steps")
    @classmethod
    def _odd(cls, steps: Mapping[str, int], info: ValidationInfo) -> Mapping[str, int]:
        for name, number in steps.items():
            known_attribute(name)
            if number % 2 == 0:
                raise ValueError(f"{name}={number} must be odd, so that the middle step is a = 0")
        return {name: ATTRIBUTES[name].default_steps for name in _named(info)} | dict(steps)

    @field_validator("poles")
    @classmethod
    def _categories(cls, poles: Mapping[str, tuple[str, str]], info: ValidationInfo) -> Mapping[str, tuple[str, str]]:
        swept = (ATTRIBUTES[name] for name in _named(info))
        found = {attribute.name: attribute.poles for attribute in swept if attribute.categories}
        return found | {name: known_attribute(name).with_poles(pair).poles for name, pair in poles.items()}

    @field_validator("region")
    @classmethod
    def _face_classes(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if sum(len(class_indices([name])) for name in names) != len(class_indices(names)):
            raise ValueError("each face class may be named only once, alone or in a group")
        return names

    @model_validator(mode="after")
    def _consistent(self) -> "SweepOptions":
        if len(set(self.placebos)) != len(self.placebos):
            raise ValueError("each placebo may be named only once")
        if self.mode == "reconstruction" and self.editor != "fader":
            raise ValueError("mode 'reconstruction' needs editor 'fader'")
        changed = {part for name in self.attributes for part in name.split(CROSSED)}
        if self.own_editor:
            cannot = [name for name in ATTRIBUTES if name in changed and self.editor not in ATTRIBUTES[name].editors]
            if cannot:
                raise ValueError(f"editor {self.editor!r} cannot change {', '.join(cannot)}; editor 'residual' can")
        if self.editor != "residual" and any(CROSSED in name for name in self.attributes):
            raise ValueError("only editor 'residual' can change two attributes at once: omit --editor")
        if (self.parser == "bisenet") != (self.parser_weights is not None):
            raise ValueError("parser 'bisenet', and no other, needs a file of weights (--weights)")
        return self

    @property
    def own_editor(self) -> bool:
        """Whether the editor is built in."""
        return self.editor in OWN_EDITORS

    @property
    def arms(self) -> tuple[str, ...]:
        """The arms of each attribute: the edit and its placebos."""
        return (EDIT_ARM, *self.placebos)

    @property
    def versions(self) -> int:
        """The number of images made from one photo."""
        return sum(len(self.values(name, arm)) for name in self.chosen() for arm in self.arms)

    @property
    def placebo_versions(self) -> int:
        """The number of these images that are placebos."""
        return sum(len(self.values(name, arm)) for name in self.chosen() for arm in self.placebos)

    def chosen(self) -> Mapping[str, Attribute]:
        """Return the swept attributes by name, between the poles of this sweep; an intersection gives three."""
        known = {name: row.with_poles(self.poles.get(name, row.poles)) for name, row in ATTRIBUTES.items()}
        swept: list[Attribute] = []
        for crossed in self.attributes:
            first, *others = (known[name] for name in crossed.split(CROSSED))
            swept += [first, *(first.at(other, pole) for other in others for pole in (-1, 1))]
        return {attribute.name: attribute for attribute in swept}

    def values(self, attribute: str, arm: str = EDIT_ARM) -> tuple[float, ...]:
        """Return the K evenly spaced values of a sweep, in ascending order; for a placebo the ends and the middle."""
        if arm != EDIT_ARM:
            return -self.reach, 0.0, self.reach
        name = attribute.partition(AT)[0]
        last = self.steps.get(name, ATTRIBUTES[name].default_steps) - 1
        return tuple(self.reach * (2 * k - last) / last for k in range(last + 1))


def _named(info: ValidationInfo) -> list[str]:
    """Return the attributes that are swept or crossed."""
    return [name for crossed in info.data.get("attributes", ()) for name in crossed.split(CROSSED)]


def known_attribute(name: str) -> Attribute:
    """Return a row of the table of attributes.

    Raises:
        ValueError: the attribute is unknown.
    """
    if name not in ATTRIBUTES:
        raise ValueError(f"there is no attribute {name!r}; choose from {', '.join(ATTRIBUTES)}")
    return ATTRIBUTES[name]
