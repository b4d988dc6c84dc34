"""The table of attributes: for each, its ends, its steps, how it is read, what an edit of it moves and must not move.

A new attribute is a new row of ``ATTRIBUTES``; nothing else in the house names one.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from models.attributes import GENDERS, RACES

if TYPE_CHECKING:
    import pandas as pd

# Words that add nothing to the name of a pole: "masculine appearance", "perceived White", "Black person".
_NEUTRAL = frozenset(["adult", "appearance", "face", "human", "looking", "of", "or", "perceived", "people", "person"])

EDIT_ARM = "edit"  # the arm of the real edit; the other arms of a sweep are placebos


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
        inputs: the decoder's inputs that the edit moves, which are also the columns of the faces table that hold a
            face's own values. A categorical attribute has one input a category, in the order of ``categories``.
        judged: the judge's columns of the counterfactuals table, in the same order.
        judged_as: what the judge's probability of the higher pole is a probability of.
        must_not_move: what an edit must leave as it is.
        moves_colour: whether skin colour belongs to the attribute, so that lightness and the placebo of colour are
            reported without a threshold.
        categories: the classes of a categorical attribute; empty for an axis.
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
    moves_colour: bool = False
    categories: tuple[str, ...] = ()
    synonyms: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())
    control_words: frozenset[str] = frozenset()
    names_groups: bool = False

    @property
    def subject(self) -> str:
        """What is perceived, such as "perceived gender"."""
        return f"perceived {self.name}"

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

    def own_value(self, faces: Any) -> Any:
        """Where faces are between the poles before any edit.

        Args:
            faces: anything that gives a value or a column by its name: a row or frame of the faces table, or a
                mapping from an input's name to a tensor.

        Returns:
            Values in -1..1 of the same kind. A face between more than two categories is changed at every value.
        """
        if not self.categories:
            return faces[self.inputs[0]]
        low, high = (faces[self.inputs[self.categories.index(pole)]] for pole in self.poles)
        return high - low

    def perceived(self, versions: Any) -> Any:
        """The judge's probability of the higher pole; of a categorical attribute, given one of the two poles.

        Args:
            versions: rows or frame of the counterfactuals table.

        Returns:
            Probabilities in 0..1 of the same kind.
        """
        if not self.categories:
            return versions[self.judged[0]]
        low, high = (versions[self.judged[self.categories.index(pole)]] for pole in self.poles)
        return high / (low + high)

    def classes_of(self, faces: "pd.DataFrame") -> list[str]:
        """The class in which each face of the faces table is perceived: the likeliest one, or the nearer pole."""
        if self.categories:
            return [self.categories[place] for place in faces[list(self.inputs)].to_numpy().argmax(axis=1)]
        return [self.poles[int(value >= 0)] for value in faces[self.inputs[0]]]


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
                categories=RACES,
                control_words=frozenset(("african", "american", "caucasian", "ethnicity", "european", "skin")),
                names_groups=True,
            ),
        )
    }
)


def attribute_of(name: str, known: Mapping[str, Attribute] = ATTRIBUTES) -> Attribute:
    """An attribute by its name; one that is in no table has the poles "low" and "high"."""
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
