"""The questions about a run: how faces are perceived, and comparisons of two versions of a photo.

The page that shows them is in ``server``, their answers in ``answers``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import EDIT_ARM, GROUPING, Attribute

if TYPE_CHECKING:
    import pandas as pd

FACE, DIRECTION, VISIBILITY = "face", "direction", "visibility"
UNSURE, SURE, ENDS, ORIGINAL = "unsure", "sure", "ends", "original"
CANNOT_TELL = "cannot tell"
NO_FACE, EXCLUDE = "no face", "exclude this photo"
LEFT, RIGHT, BOTH, NEITHER = "left", "right", "both", "neither"


@dataclass(frozen=True)
class Picture:
    """A face to show, cropped from a file.

    Attributes:
        file: path of the photo, or of a version in the run's folder.
        box: left, top, right and bottom of the face in pixels.
        value: the attribute value of the version; None for the photo itself.
    """

    file: str
    box: tuple[float, float, float, float]
    value: float | None = None


@dataclass(frozen=True, kw_only=True)
class Question:
    """One question about one or two pictures.

    Attributes:
        item: identifies the pictures; questions about the same pictures share it.
        kind: face, direction or visibility.
        photo: the photo's name in the run.
        attribute: what the answer is about.
        sample: how the pictures were chosen: unsure or sure faces; both ends of a sweep, or the photo and an edit.
        text: the wording shown to the reviewer.
        choices: the possible answers in the order of their number keys, from 1.
        pictures: one picture, or the left and the right one.
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
        """The question's unique name in the run."""
        return f"{self.item}/{self.kind}/{self.attribute}"


def certainty(faces: "pd.DataFrame") -> "pd.Series[float]":
    """Return the estimator's certainty of each face (0-1).

    It is the probability of the most likely class, of the attribute for which that is lowest.
    """
    import numpy as np
    import pandas as pd

    found = []
    for attribute in GROUPING.values():
        table = faces[list(attribute.inputs)].to_numpy(dtype=float)
        found.append(table.max(axis=1) / table.sum(axis=1) if attribute.categories else (1 + np.abs(table[:, 0])) / 2)
    return pd.Series(np.min(found, axis=0), index=faces.index)


def face_questions(
    photos: "pd.DataFrame", faces: "pd.DataFrame", *, unsure: int, sure: int, seed: int = 0
) -> list[Question]:
    """Ask how faces are perceived: those of which the estimator is least certain, and a random sample of the others.

    Args:
        photos: the photos table.
        faces: the faces table.
        unsure: number of least certain faces.
        sure: number of faces drawn from the rest.
        seed: of the random sample; reviewers with the same seed get the same questions.
    """
    import numpy as np

    usable = faces[faces["status"] == "ok"]
    ranked = usable.assign(certainty=certainty(usable)).sort_values(["certainty", "photo"], kind="stable")
    rest = ranked[unsure:]
    drawn = np.random.default_rng([seed, 1]).permutation(len(rest))[:sure]
    paths = dict(zip(photos["photo"], photos["path"], strict=True))
    return [
        Question(
            item=f"face/{row['photo']}",
            kind=FACE,
            photo=row["photo"],
            attribute=name,
            sample=sample,
            text=f"How do you perceive this person's {name}?",
            choices=(*attribute.classes, CANNOT_TELL, NO_FACE, EXCLUDE),
            pictures=(Picture(paths[row["photo"]], _box(row)),),
        )
        for sample, rows in ((UNSURE, ranked[:unsure]), (SURE, rest.iloc[np.sort(drawn)]))
        for row in rows.to_dict("records")
        for name, attribute in GROUPING.items()
    ]


def pair_questions(
    photos: "pd.DataFrame",
    faces: "pd.DataFrame",
    versions: "pd.DataFrame",
    *,
    swept: Mapping[str, Attribute],
    pairs: int,
    seed: int = 0,
) -> list[Question]:
    """Ask about pairs of pictures of one photo, left and right in random order, drawn from the run's edits.

    Half of the pairs of an attribute are the versions nearest to a = -1 and a = +1: which shows more of the upper
    pole, and does either look edited? The other half are the photo and the end farther from the face's own value: does
    either look edited?

    Args:
        photos, faces, versions: the run's tables.
        swept: the attributes of the run's sweeps.
        pairs: number of pairs per attribute.
        seed: of the random choices; reviewers with the same seed get the same questions.
    """
    import numpy as np

    made = versions[(versions["status"] == "ok") & (versions["arm"] == EDIT_ARM)]
    paths = dict(zip(photos["photo"], photos["path"], strict=True))
    usable = {row["photo"]: row for row in faces[faces["status"] == "ok"].to_dict("records")}
    questions: list[Question] = []
    for number, (name, attribute) in enumerate(sorted(swept.items())):
        random = np.random.default_rng([seed, 2, number])
        rows = {str(photo): row for photo, row in made[made["attribute"] == name].groupby("photo") if photo in usable}
        chosen = random.permutation(np.array(sorted(rows), dtype=object))[:pairs]
        for position, photo in enumerate(chosen):
            box = _box(usable[photo])
            low, high = (_nearest(rows[photo], end, box) for end in (-1.0, 1.0))
            sample = (ENDS, ORIGINAL)[position % 2]
            if sample == ORIGINAL:
                low, high = Picture(paths[photo], box), low if attribute.own_value(usable[photo]) > 0 else high
            pictures = (low, high) if random.random() < 0.5 else (high, low)
            questions += _pair(photo, attribute, sample, pictures)
    return questions


def _pair(photo: str, attribute: Attribute, sample: str, pictures: tuple[Picture, Picture]) -> list[Question]:
    shared: dict[str, Any] = {
        "item": f"{sample}/{attribute.name}/{photo}",
        "photo": photo,
        "attribute": attribute.name,
        "sample": sample,
        "pictures": pictures,
    }
    text, choices = "Does either picture look edited?", (LEFT, RIGHT, BOTH, NEITHER, CANNOT_TELL)
    edited = Question(kind=VISIBILITY, text=text, choices=choices, **shared)
    if sample == ORIGINAL:
        return [edited]
    text = f"Which face looks more {attribute.poles[1]}?"
    return [Question(kind=DIRECTION, text=text, choices=(LEFT, RIGHT, CANNOT_TELL), **shared), edited]


def in_order(questions: Sequence[Question], *, reviewer: str) -> list[Question]:
    """Shuffle the questions with the reviewer's name as seed; questions about the same pictures stay together."""
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
