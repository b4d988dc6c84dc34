"""What reviewers answered (``review.jsonl`` of a run): kept line by line, their consensus, faces as they see them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import ATTRIBUTES
from pipeline.review.questions import CANNOT_TELL, EXCLUDE, FACE, NO_FACE, Question
from pipeline.run.folder import Run
from pipeline.run.record import RunError, now
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import pandas as pd

FILE = "review.jsonl"
COLUMNS = ("time", "reviewer", "item", "kind", "photo", "attribute", "sample", "answer", "left", "right")
EXCLUDED = "excluded by reviewers"


def keep_answer(folder: Path, question: Question, answer: str, *, reviewer: str) -> None:
    """Add one answer to the run's file; it is on disk when this returns.

    Raises:
        ValueError: it is none of the question's choices.
    """
    if answer not in question.choices:
        raise ValueError(f"{answer!r} is no answer to {question.name}; there are {', '.join(question.choices)}")
    values = [picture.value for picture in question.pictures]
    left, right = values if len(values) == 2 else (None, None)
    row = {name: getattr(question, name) for name in ("item", "kind", "photo", "attribute", "sample")}
    row |= {"time": now(), "reviewer": reviewer, "answer": answer, "left": left, "right": right}
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_answers(folder: Path) -> "pd.DataFrame":
    """The last answer of every reviewer to every question; empty where nobody was asked.

    A last line that a crash has cut is left out.

    Raises:
        RunError: another line is damaged.
    """
    import pandas as pd

    path = folder / FILE
    lines = path.read_text(encoding="utf-8").splitlines() if path.is_file() else []
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows.append([row[name] for name in COLUMNS])
        except (ValueError, KeyError, TypeError) as error:
            if number < len(lines):
                raise RunError(f"line {number} of {path} is damaged: take it out, the other answers hold") from error
    found = pd.DataFrame(rows, columns=list(COLUMNS))
    return found.drop_duplicates(["reviewer", "item", "kind", "attribute"], keep="last", ignore_index=True)


def consensus(answers: "pd.DataFrame") -> dict[tuple[str, str], str]:
    """(photo, attribute) -> the class that more than half of the reviewers who could tell perceive.

    A photo that more than half of its reviewers exclude, or see no face in, has ``EXCLUDE`` for every attribute.
    """
    asked = answers[answers["kind"] == FACE]
    found: dict[tuple[str, str], str] = {}
    for photo, own in asked.groupby("photo"):
        gone = own["answer"].isin([NO_FACE, EXCLUDE]).groupby(own["reviewer"]).any()
        if gone.mean() > 0.5:
            found |= {(str(photo), name): EXCLUDE for name in ATTRIBUTES}
            continue
        answered = own[~own["answer"].isin([NO_FACE, EXCLUDE, CANNOT_TELL])]
        for attribute, each in answered.groupby("attribute"):
            counts = each["answer"].value_counts()
            if counts.iloc[0] > len(each) / 2:
                found[str(photo), str(attribute)] = str(counts.index[0])
    return found


def excluded_photos(folder: Path) -> set[str]:
    """The photos of a run that its reviewers exclude."""
    return {photo for (photo, _), answer in consensus(read_answers(folder)).items() if answer == EXCLUDE}


def read_faces(run: Run) -> "pd.DataFrame":
    """The run's faces as its reviewers see them where they agree, else as they were estimated.

    Raises:
        RunError: the table is gone or damaged.
    """
    return as_reviewed(read_frame(run.path("faces.parquet")), consensus(read_answers(run.folder)))


def as_reviewed(faces: "pd.DataFrame", agreed: Mapping[tuple[str, str], str]) -> "pd.DataFrame":
    """The faces table with the reviewers' consensus in place of the estimates, where there is one.

    Args:
        faces: the faces table.
        agreed: what ``consensus`` gives.

    Returns:
        A copy: a reviewed attribute is at its pole, or its category has probability 1; excluded photos have the status
        excluded.
    """
    faces = faces.copy()
    rows = {photo: index for index, photo in zip(faces.index, faces["photo"], strict=True)}
    for (photo, name), answer in agreed.items():
        if photo not in rows:
            continue
        if answer == EXCLUDE:
            faces.loc[rows[photo], ["status", "reason"]] = ["excluded", EXCLUDED]
        else:
            for column, value in _estimates(name, answer).items():
                faces.loc[rows[photo], column] = value
    return faces


def _estimates(name: str, answer: str) -> dict[str, Any]:
    attribute = ATTRIBUTES[name]
    if attribute.categories:
        return {column: float(each == answer) for column, each in zip(attribute.inputs, attribute.classes, strict=True)}
    return {attribute.inputs[0]: 2.0 * attribute.poles.index(answer) - 1}
