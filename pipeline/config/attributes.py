"""The table of attributes: the poles and steps of each, how it is measured, what an edit may and must not change.

To add an attribute, add a row to ``ATTRIBUTES``; no other module names one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from models.attributes import GENDERS, MONK_LIGHTNESS, RACES

if TYPE_CHECKING:
    import pandas as pd

# Words that add nothing to the name of a pole: "masculine appearance", "perceived White", "Black person".
_NEUTRAL = frozenset(["adult", "appearance", "face", "human", "looking", "of", "or", "perceived", "people", "person"])

EDIT_ARM = "edit"  # the arm of the real edit; the other arms of a sweep are placebos
CROSSED = "*"  # between two attributes of an intersection, such as gender*race
AT = "@"  # gender@Black: a sweep of gender on faces that are first edited to the pole Black of race


@dataclass(frozen=True)
class Control:
    """A judged attribute that an edit of another attribute must not change.

    Attributes:
        name: its name on the validity card.
        columns: columns of the counterfactuals table. Several columns are the probabilities of exclusive categories.
        scale: factor from a change of the columns to a change on a 0-1 scale.
    """

    name: str
    columns: tuple[str, ...]
    scale: float


MASCULINE = Control("masculine", ("judge_masculine",), 1.0)
RACE = Control("race", tuple(f"judge_race_{race}" for race in RACES), 0.5)
YOUNG = Control("young", ("judge_young",), 0.5)
SMILING = Control("smiling", ("judge_smiling",), 0.5)


@dataclass(frozen=True)
class Attribute:
    """One perceived attribute that a sweep changes, from one pole at a = -1 to the other at a = +1.

    Attributes:
        name: its name in options, tables and files.
        poles: the words for a = -1 and a = +1; for a categorical attribute, two of its ``categories``.
        directions: phrases for a label that rises towards the lower and towards the higher pole; ``{low}`` and
            ``{high}`` stand for the poles.
        default_steps: K, the number of values of a sweep; odd.
        inputs: the columns of the faces table that hold a face's own values; for a categorical attribute one per
            category, in the order of ``categories``.
        judged: the corresponding columns of the counterfactuals table, in the same order.
        judged_as: the event whose probability is that of the higher pole.
        must_not_move: the controls that an edit must not change.
        may_move: the controls whose change is only reported, because people infer them from the attribute.
        moves_colour: whether skin colour belongs to the attribute. If so, skin tone is edited, and lightness and the
            colour placebo are reported without a threshold.
        fields: one unit of the sweep, in units of the residual editor's feature fields.
        editors: the built-in editors that can change it.
        scale: for an axis in other units, such as years: the figure at a = 0, and the figure per unit of a.
        relative: whether a = 0 is each face's own figure.
        categories: the classes of a categorical attribute; empty for an axis.
        given: for an intersection: the other attribute, and the value of it that faces are edited to first.
        synonyms: other words for each pole in manifests and tables.
        control_words: further words by which labels restate the attribute, such as "girl" for gender.
        names_groups: whether it is part of the names of source groups, such as "feminine, Black".
    """

    name: str
    poles: tuple[str, str]
    directions: tuple[str, str]
    default_steps: int
    inputs: tuple[str, ...]
    judged: tuple[str, ...]
    judged_as: str
    must_not_move: tuple[Control, ...] = ()
    may_move: tuple[Control, ...] = ()
    moves_colour: bool = False
    fields: Mapping[str, float] = field(default_factory=dict)
    editors: tuple[str, ...] = ("residual",)
    scale: tuple[float, float] | None = None
    relative: bool = False
    categories: tuple[str, ...] = ()
    given: "tuple[Attribute, int] | None" = None
    synonyms: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    control_words: frozenset[str] = frozenset()
    names_groups: bool = False

    @property
    def base(self) -> str:
        """The name of the swept attribute without its intersection: "gender" for gender@Black."""
        return self.name.partition(AT)[0]

    @property
    def subject(self) -> str:
        """The attribute in a sentence, such as "perceived gender"."""
        return f"perceived {self.base.replace('-', ' ')}{self.where}"

    @property
    def where(self) -> str:
        """The faces of an intersection, such as " on faces edited to perceived Black"; otherwise empty."""
        return f" on faces edited to perceived {self.name.partition(AT)[2]}" if self.given else ""

    @property
    def unit(self) -> Mapping[str, float]:
        """One unit of the sweep in units of the residual editor's fields; for categories, half of each pole."""
        if not self.categories:
            return self.fields
        low, high = (self.inputs[self.categories.index(pole)] for pole in self.poles)
        return {low: -0.5, high: 0.5}

    @property
    def by_network(self) -> bool:
        """Whether judge networks estimate it; otherwise it is measured in the image."""
        return all(name.startswith("judge_") for name in self.judged)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes of faces: the categories, or the two poles of an axis."""
        return self.categories or self.poles

    @property
    def pole_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """All words for the lower and for the higher pole."""
        return (self.poles[0], *self.synonyms[0]), (self.poles[1], *self.synonyms[1])

    def is_restated_by(self, label: str) -> bool:
        """Return whether a label names the attribute itself, such as "woman" or "masculine appearance" for gender.

        The slope of such a label is a positive control. It shows that the classifier detects the edit, not that it
        treats people differently.
        """
        names = {self.name, *self.classes, *self.control_words}.union(*self.pole_names)
        known = {word for name in names for word in re.findall(r"[^\W\d_]+", name.lower())}
        words = set(re.findall(r"[^\W\d_]+", label.lower()))
        return bool(words & known) and words <= known | _NEUTRAL

    def with_poles(self, poles: Sequence[str]) -> "Attribute":
        """Return the attribute with other categories at a = -1 and a = +1.

        Raises:
            ValueError: the attribute is an axis, or ``poles`` are not two different categories of it.
        """
        low, high = poles
        if (low, high) == self.poles:
            return self
        if not self.categories:
            raise ValueError(f"the poles of {self.name} are always {self.poles[0]} and {self.poles[1]}")
        for pole in (low, high):
            if pole not in self.categories:
                raise ValueError(f"{self.name} has no category {pole!r}; choose from {', '.join(self.categories)}")
        if low == high:
            raise ValueError(f"the poles of {self.name} must differ; both are {low}")
        return replace(self, poles=(low, high))

    def at(self, other: "Attribute", value: int) -> "Attribute":
        """Return this attribute on faces first edited to the lower (-1) or higher (1) pole of another attribute."""
        pole = other.poles[value > 0]
        named = replace(self, name=f"{self.name}{AT}{pole}", given=(other, value))
        low, high = self.directions
        return replace(named, directions=(f"{low}{named.where}", f"{high}{named.where}"))

    def own_value(self, faces: Any) -> Any:
        """Return the position of unedited faces between the poles.

        Args:
            faces: a row or frame of the faces table, or a mapping from an input's name to a tensor.

        Returns:
            Values of the same kind, in -1..1, or beyond for an attribute with a ``scale``.
        """
        if not self.categories:
            return self._scaled(faces[self.inputs[0]]) * (0.0 if self.relative else 1.0)
        low, high = (faces[self.inputs[self.categories.index(pole)]] for pole in self.poles)
        return high - low

    def perceived(self, versions: Any) -> Any:
        """Return the judge's probability of the higher pole; for categories, given that it is one of the two poles.

        An attribute with a ``scale`` is mapped linearly instead: 0 at a = -2, 1 at a = +2.

        Args:
            versions: a row or frame of the counterfactuals table.

        Returns:
            Values of the same kind, in 0..1.
        """
        if not self.categories:
            seen = versions[self.judged[0]]
            return seen if self.scale is None else self._scaled(seen) / 4 + 0.5
        low, high = (versions[self.judged[self.categories.index(pole)]] for pole in self.poles)
        return high / (low + high)

    def classes_of(self, faces: "pd.DataFrame") -> list[str]:
        """Return the perceived class of each face of the faces table: the likeliest category, or the nearer pole."""
        if self.categories:
            return [self.categories[place] for place in faces[list(self.inputs)].to_numpy().argmax(axis=1)]
        return [self.poles[int(value >= 0)] for value in self._scaled(faces[self.inputs[0]])]

    def _scaled(self, figures: Any) -> Any:
        if self.scale is None:
            return figures
        middle, unit = self.scale
        return (figures - middle) / unit


# Skin tone: from the L* of Monk 8 at a = -2, over about Monk 7 at -1 and Monk 6 at 0, to Monk 5 at +2. This range holds
# 95 % of the training faces; the four lightest colours of the Monk scale are outside it.
TONE_SCALE = (MONK_LIGHTNESS[7] + MONK_LIGHTNESS[4]) / 2, (MONK_LIGHTNESS[4] - MONK_LIGHTNESS[7]) / 4

ATTRIBUTES: Mapping[str, Attribute] = MappingProxyType(
    {
        attribute.name: attribute
        for attribute in (
            Attribute(
                name="gender",
                poles=GENDERS,
                directions=("with perceived femininity", "with perceived masculinity"),
                default_steps=7,
                inputs=("gender",),
                judged=("judge_masculine",),
                judged_as="perceived masculinity",
                must_not_move=(YOUNG, SMILING, RACE),
                fields={"gender": 1.0},
                editors=("residual", "fader"),
                synonyms=(("female", "woman", "women"), ("male", "man", "men")),
                control_words=frozenset(("boy", "gentleman", "girl", "guy", "lady", "sex")),
                names_groups=True,
            ),
            Attribute(
                name="race",
                poles=("Black", "White"),
                directions=(
                    "as faces are perceived as {low} rather than {high}",
                    "as faces are perceived as {high} rather than {low}",
                ),
                default_steps=5,
                inputs=tuple(f"race_{race}" for race in RACES),
                judged=RACE.columns,
                judged_as="the second race of the pair being perceived",
                must_not_move=(YOUNG, SMILING, MASCULINE),
                moves_colour=True,
                editors=("residual", "fader"),
                categories=RACES,
                control_words=frozenset(("african", "american", "caucasian", "ethnicity", "european", "skin")),
                names_groups=True,
            ),
            Attribute(
                name="skin-tone",
                poles=("dark", "light"),
                directions=("with darker skin", "with lighter skin"),
                default_steps=5,
                inputs=("skin_l",),
                judged=("skin_l",),
                judged_as="light skin (0 at the L* of Monk 8, 1 at that of Monk 5)",
                must_not_move=(YOUNG, SMILING, MASCULINE),
                may_move=(RACE,),
                moves_colour=True,
                scale=TONE_SCALE,
                synonyms=(("darker",), ("lighter", "pale", "fair")),
                control_words=frozenset(("skin", "tone", "complexion")),
            ),
            Attribute(
                name="age",
                poles=("younger", "older"),
                directions=("as faces look younger", "as faces look older"),
                default_steps=5,
                inputs=("age",),
                judged=("judge_age",),
                judged_as="age (0 at 10 years less than at a = 0, 1 at 10 more)",
                must_not_move=(SMILING, MASCULINE, RACE),
                fields={"young": -1.0},
                scale=(45.0, 5.0),
                relative=True,
                synonyms=(("young",), ("old", "senior", "elderly", "aged")),
                control_words=frozenset(("adult", "child", "middle", "teenager", "youth", "year", "years", "wrinkle")),
            ),
            Attribute(
                name="smile",
                poles=("serious", "smiling"),
                directions=("with less of a smile", "with more of a smile"),
                default_steps=5,
                inputs=("smiling",),
                judged=("judge_smiling",),
                judged_as="a smile (0 at 0.4 of its scale of −1 to 1 less than at a = 0, 1 at 0.4 more)",
                must_not_move=(YOUNG, MASCULINE, RACE),
                # Half of the prototype, because more is a grin. It only displaces pixels: a closed mouth stays closed.
                fields={"smiling": 0.5},
                scale=(0.0, 0.2),
                relative=True,
                synonyms=(("grave", "neutral"), ("happy", "smile")),
                control_words=frozenset(("expression", "facial", "grin", "happiness", "joy", "laugh", "laughing")),
            ),
        )
    }
)
# The attributes that are part of the names of source groups.
GROUPING = {name: attribute for name, attribute in ATTRIBUTES.items() if attribute.names_groups}


def attribute_of(name: str, known: Mapping[str, Attribute] = ATTRIBUTES) -> Attribute:
    """Return an attribute by its name, which may be an intersection; an unknown one has the poles "low" and "high"."""
    base, _, pole = name.partition(AT)
    if pole and name not in known and base in known:
        for other in ATTRIBUTES.values():
            if pole == other.poles[1]:
                return known[base].at(other, 1)
            if pole in other.classes:
                return known[base].at(other.with_poles((pole, other.poles[1])), -1)
    return known.get(name) or Attribute(
        name=name,
        poles=("low", "high"),
        directions=(f"towards low perceived {name}", f"towards high perceived {name}"),
        default_steps=5,
        inputs=(name,),
        judged=(f"judge_{name}",),
        judged_as=f"high perceived {name}",
    )


def source_groups(faces: "pd.DataFrame") -> dict[str, str]:
    """Return photo -> the group in which its unedited face is perceived, such as "feminine, Black".

    Args:
        faces: the faces table. Photos without a usable face have no group.
    """
    usable = faces[faces["status"] == "ok"]
    named = [attribute.classes_of(usable) for attribute in GROUPING.values()]
    return {str(photo): ", ".join(words) for photo, *words in zip(usable["photo"], *named, strict=True)}
