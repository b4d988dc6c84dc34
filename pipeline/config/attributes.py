"""The table of attributes: for each, its ends, its steps, how it is read, what an edit of it moves and must not move.

A new attribute is a new row of ``ATTRIBUTES``; nothing else in the house names one.
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
AT = "@"  # in the name of a sweep on faces that are edited to a pole of another attribute first, such as gender@Black


@dataclass(frozen=True)
class Control:
    """A judged attribute that an edit of another one must not move.

    Attributes:
        name: how the validity card calls it.
        columns: of the counterfactuals table; several are the probabilities of exclusive categories.
        scale: turns a change of the columns into one on a 0-1 scale.
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
        name: as options, tables and files have it.
        poles: the words for a = -1 and a = +1; of a categorical attribute, two of its ``categories``.
        directions: how a label is described that rises towards the lower and the higher pole; may name ``{low}`` and
            ``{high}``.
        default_steps: K, the number of values of a sweep; odd.
        inputs: the columns of the faces table that hold a face's own values. A categorical attribute has one a
            category, in the order of ``categories``.
        judged: the columns of the counterfactuals table in which the versions are judged, in the same order.
        judged_as: what the probability of the higher pole is a probability of.
        must_not_move: what an edit must leave as it is.
        may_move: what is reported only, because people take it from the attribute, too.
        moves_colour: whether skin colour belongs to the attribute, so that skin tone is moved, and lightness and the
            placebo of colour are reported without a threshold.
        fields: what one unit of the sweep is in units of the residual editor's fields of features.
        editors: those of the program's own editors that can change it.
        scale: of an axis that is measured, such as in years: the figure at a = 0, and how many of them are a unit of a.
        relative: whether a counts from each face's own figure, which is a = 0.
        categories: the classes of a categorical attribute; empty for an axis.
        given: of an intersection: the other attribute, and its value that the faces are edited to as well.
        synonyms: what manifests and tables call each pole, next to its own word.
        control_words: further words by which labels restate the attribute, such as "girl" for gender.
        names_groups: whether source groups of photos are named by it, such as "feminine, Black".
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
        """The name of what is swept, also in an intersection: "gender" of gender@Black."""
        return self.name.partition(AT)[0]

    @property
    def subject(self) -> str:
        """What is perceived, such as "perceived gender"."""
        return f"perceived {self.base.replace('-', ' ')}{self.where}"

    @property
    def where(self) -> str:
        """Of an intersection, which faces: " on faces edited to perceived Black"; else empty."""
        return f" on faces edited to perceived {self.name.partition(AT)[2]}" if self.given else ""

    @property
    def unit(self) -> Mapping[str, float]:
        """What one unit of the sweep is in units of the residual editor's fields; of a category, half of each pole."""
        if not self.categories:
            return self.fields
        low, high = (self.inputs[self.categories.index(pole)] for pole in self.poles)
        return {low: -0.5, high: 0.5}

    @property
    def by_network(self) -> bool:
        """Whether the judges perceive it; else it is measured in the picture."""
        return all(name.startswith("judge_") for name in self.judged)

    @property
    def classes(self) -> tuple[str, ...]:
        """The classes that faces are counted in: the categories, or the two poles of an axis."""
        return self.categories or self.poles

    @property
    def pole_names(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Every word for the lower and for the higher pole."""
        return (self.poles[0], *self.synonyms[0]), (self.poles[1], *self.synonyms[1])

    def is_restated_by(self, label: str) -> bool:
        """Whether a label names the attribute itself, such as "woman" or "masculine appearance" for gender.

        A slope of such a label is a positive control: it shows that the classifier sees the edit, not that it treats
        people differently.
        """
        names = {self.name, *self.classes, *self.control_words}.union(*self.pole_names)
        known = {word for name in names for word in re.findall(r"[^\W\d_]+", name.lower())}
        words = set(re.findall(r"[^\W\d_]+", label.lower()))
        return bool(words & known) and words <= known | _NEUTRAL

    def with_poles(self, poles: Sequence[str]) -> "Attribute":
        """The same attribute between two other categories.

        Args:
            poles: the categories at a = -1 and a = +1.

        Raises:
            ValueError: the attribute is an axis, or these are not two different categories of it.
        """
        low, high = poles
        if (low, high) == self.poles:
            return self
        if not self.categories:
            raise ValueError(f"the ends of {self.name} are {self.poles[0]} and {self.poles[1]}; it has no others")
        for pole in (low, high):
            if pole not in self.categories:
                raise ValueError(f"{self.name} has no {pole!r}; there are {', '.join(self.categories)}")
        if low == high:
            raise ValueError(f"the poles of {self.name} must be two different ones, not {low} twice")
        return replace(self, poles=(low, high))

    def at(self, other: "Attribute", value: int) -> "Attribute":
        """This attribute on faces that are edited to another one's pole first.

        Args:
            other: the other attribute.
            value: -1 or 1: its lower or higher pole.
        """
        pole = other.poles[value > 0]
        named = replace(self, name=f"{self.name}{AT}{pole}", given=(other, value))
        low, high = self.directions
        return replace(named, directions=(f"{low}{named.where}", f"{high}{named.where}"))

    def own_value(self, faces: Any) -> Any:
        """Where faces are between the poles before any edit.

        Args:
            faces: anything that gives a value or a column by its name: a row or frame of the faces table, or a
                mapping from an input's name to a tensor.

        Returns:
            Values of the same kind: in -1..1, or also beyond on a scale that is measured. A face between more than two
            categories is changed at every value.
        """
        if not self.categories:
            return self._scaled(faces[self.inputs[0]]) * (0.0 if self.relative else 1.0)
        low, high = (faces[self.inputs[self.categories.index(pole)]] for pole in self.poles)
        return high - low

    def perceived(self, versions: Any) -> Any:
        """The judge's probability of the higher pole; of a categorical attribute, given one of the two poles.

        What is measured in other units stands in for it, 0 where the sweep begins at -2 and 1 where it ends at +2.

        Args:
            versions: rows or frame of the counterfactuals table.

        Returns:
            Probabilities in 0..1 of the same kind.
        """
        if not self.categories:
            seen = versions[self.judged[0]]
            return seen if self.scale is None else self._scaled(seen) / 4 + 0.5
        low, high = (versions[self.judged[self.categories.index(pole)]] for pole in self.poles)
        return high / (low + high)

    def classes_of(self, faces: "pd.DataFrame") -> list[str]:
        """The class in which each face of the faces table is perceived: the likeliest one, or the nearer pole."""
        if self.categories:
            return [self.categories[place] for place in faces[list(self.inputs)].to_numpy().argmax(axis=1)]
        return [self.poles[int(value >= 0)] for value in self._scaled(faces[self.inputs[0]])]

    def _scaled(self, figures: Any) -> Any:
        if self.scale is None:
            return figures
        middle, unit = self.scale
        return (figures - middle) / unit


# Skin tone: from the L* of Monk 8 at a = -2 over about that of Monk 7 at -1 and of Monk 6 at 0 to that of Monk 5 at +2.
# It is the range of skin in photos (95 % of the training faces); the scale's four lightest colours are lighter.
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
                # Half of the prototype: more is a grin. It only moves what is there: a closed mouth stays closed.
                fields={"smiling": 0.5},
                scale=(0.0, 0.2),
                relative=True,
                synonyms=(("grave", "neutral"), ("happy", "smile")),
                control_words=frozenset(("expression", "facial", "grin", "happiness", "joy", "laugh", "laughing")),
            ),
        )
    }
)


def attribute_of(name: str, known: Mapping[str, Attribute] = ATTRIBUTES) -> Attribute:
    """An attribute by its name, also of an intersection; one that is in no table has the poles "low" and "high"."""
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
    """Photo -> the group its unchanged face is perceived in, such as "feminine, Black".

    Args:
        faces: the faces table; photos without a usable face have no group.
    """
    usable = faces[faces["status"] == "ok"]
    named = [attribute.classes_of(usable) for attribute in ATTRIBUTES.values() if attribute.names_groups]
    return {str(photo): ", ".join(words) for photo, *words in zip(usable["photo"], *named, strict=True)}
