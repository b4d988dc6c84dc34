"""What reviewers are asked of a run: how faces are perceived, and pairs of versions compared.

The page that asks is in ``server``, what was answered in ``answers``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import ATTRIBUTES, EDIT_ARM, Attribute

if TYPE_CHECKING:
    import pandas as pd

FACE, DIRECTION, VISIBILITY = "face", "direction", "visibility"
UNSURE, SURE, ENDS, ORIGINAL = "unsure", "sure", "ends", "original"
CANNOT_TELL = "cannot tell"
NO_FACE, EXCLUDE = "no face", "exclude this photo"
LEFT, RIGHT, BOTH, NEITHER = "left", "right", "both", "neither"
NAMED = {name: attribute for name, attribute in ATTRIBUTES.items() if attribute.names_groups}


@dataclass(frozen=True)
class Picture:
    """A face to show: a file cut around the face's box.

    Attributes:
        file: path of the photo, or of a version in the run's folder.
        box: left, top, right and bottom of the face in pixels.
        value: the attribute value of the version; None of the photo itself.
    """

    file: str
    box: tuple[float, float, float, float]
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question about one or two pictures.

    Attributes:
        item: names the pictures; questions about the same ones share it.
        kind: face, direction or visibility.
        photo: the photo's name in the run.
        attribute: what the answer is about.
        sample: how the pictures were chosen: unsure or sure faces; both ends of a sweep, or the photo and an edit.
        text: the question as it is asked.
        choices: the answers, in the order of their keys; the first has the key 1.
        pictures: one, or the left and the right one.
    """

    item: str
    kind: str
    photo: str
    attribute: str
    sample: str
    text: str
    choices: tuple[str, ...]
    pictures: tuple[Picture, ...]

    @property
    def name(self) -> str:
        """Names the question among all of the run."""
        return f"{self.item}/{self.kind}/{self.attribute}"


def certainty(faces: "pd.DataFrame") -> "pd.Series[float]":
    """How sure the estimator is of each face, 0-1: the likeliest class's probability, of the least sure attribute."""
    import numpy as np

    found = []
    for attribute in NAMED.values():
        table = faces[list(attribute.inputs)].to_numpy(dtype=float)
        found.append(table.max(axis=1) / table.sum(axis=1) if attribute.categories else (1 + np.abs(table[:, 0])) / 2)
    return faces["photo"].set_axis(faces.index).map(dict(zip(faces["photo"], np.min(found, axis=0), strict=True)))


def face_questions(
    photos: "pd.DataFrame", faces: "pd.DataFrame", *, unsure: int, sure: int, seed: int = 0
) -> list[Question]:
    """How the faces are perceived that the estimator is least sure of, and some of the others drawn at random.

    Args:
        photos: the photos table.
        faces: the faces table.
        unsure: how many of the least sure.
        sure: how many of the rest.
        seed: of the draw; every reviewer is asked the same.
    """
    import numpy as np

    usable = faces[faces["status"] == "ok"]
    ranked = usable.assign(certainty=certainty(usable)).sort_values(["certainty", "photo"], kind="stable")
    rest = ranked[unsure:]
    drawn = np.random.default_rng([seed, 1]).permutation(len(rest))[:sure]
    paths = dict(zip(photos["photo"], photos["path"], strict=True))
    found = []
    for sample, rows in ((UNSURE, ranked[:unsure]), (SURE, rest.iloc[np.sort(drawn)])):
        for row in rows.to_dict("records"):
            picture = Picture(paths[row["photo"]], _box(row))
            found += [
                Question(
                    item=f"face/{row['photo']}",
                    kind=FACE,
                    photo=row["photo"],
                    attribute=name,
                    sample=sample,
                    text=f"How do you perceive this person's {name}?",
                    choices=(*attribute.classes, CANNOT_TELL, NO_FACE, EXCLUDE),
                    pictures=(picture,),
                )
                for name, attribute in NAMED.items()
            ]
    return found


def pair_questions(
    photos: "pd.DataFrame",
    faces: "pd.DataFrame",
    versions: "pd.DataFrame",
    *,
    swept: Mapping[str, Attribute],
    pairs: int,
    seed: int = 0,
) -> list[Question]:
    """Two pictures of one photo next to each other, in random order, drawn from the run's edits.

    Half of the pairs of an attribute are the versions nearest to a = -1 and a = +1: which shows more of the upper
    pole? The others are the photo and the end farther from its own value: does either look edited?

    Args:
        photos, faces, versions: the run's tables.
        swept: the attributes of the run's sweeps.
        pairs: how many for each attribute.
        seed: of the draw; every reviewer is asked the same.
    """
    import numpy as np

    made = versions[(versions["status"] == "ok") & (versions["arm"] == EDIT_ARM)]
    paths = dict(zip(photos["photo"], photos["path"], strict=True))
    seen = {row["photo"]: row for row in faces[faces["status"] == "ok"].to_dict("records")}
    found: list[Question] = []
    for number, (name, attribute) in enumerate(sorted(swept.items())):
        random = np.random.default_rng([seed, 2, number])
        rows = {str(photo): own for photo, own in made[made["attribute"] == name].groupby("photo") if photo in seen}
        chosen = random.permutation(np.array(sorted(rows), dtype=object))[:pairs]
        for place, photo in enumerate(chosen):
            box = _box(seen[photo])
            low, high = (_nearest(rows[photo], end, box) for end in (-1.0, 1.0))
            sample = (ENDS, ORIGINAL)[place % 2]
            if sample == ORIGINAL:
                low, high = Picture(paths[photo], box), low if attribute.own_value(seen[photo]) > 0 else high
            pictures = (low, high) if random.random() < 0.5 else (high, low)
            found += _pair(photo, attribute, sample, pictures)
    return found


def _pair(photo: str, attribute: Attribute, sample: str, pictures: tuple[Picture, Picture]) -> list[Question]:
    shared: dict[str, Any] = {
        "item": f"{sample}/{attribute.name}/{photo}",
        "photo": photo,
        "attribute": attribute.name,
        "sample": sample,
        "pictures": pictures,
    }
    pole = attribute.poles[1]
    edited = Question(
        kind=VISIBILITY,
        text="Does either picture look edited?",
        choices=(LEFT, RIGHT, BOTH, NEITHER, CANNOT_TELL),
        **shared,
    )
    if sample == ORIGINAL:
        return [edited]
    text = f"Which face looks more {pole}?"
    return [Question(kind=DIRECTION, text=text, choices=(LEFT, RIGHT, CANNOT_TELL), **shared), edited]


def in_order(questions: Sequence[Question], *, reviewer: str) -> list[Question]:
    """The questions in an order of the reviewer's own; those about the same pictures stay together."""
    import numpy as np

    items = sorted({question.item for question in questions})
    seed = int.from_bytes(reviewer.encode(), "big")
    ranks = dict(zip(items, np.random.default_rng(seed).permutation(len(items)), strict=True))
    return sorted(questions, key=lambda question: ranks[question.item])


def _nearest(rows: "pd.DataFrame", value: float, box: tuple[float, float, float, float]) -> Picture:
    row = rows.iloc[(rows["value"] - value).abs().to_numpy().argmin()]
    return Picture(str(row["file"]), box, float(row["value"]))


def _box(row: Mapping[Any, Any]) -> tuple[float, float, float, float]:
    return row["left"], row["top"], row["right"], row["bottom"]
