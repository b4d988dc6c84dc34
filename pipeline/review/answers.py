"""Reviewers' answers in a run's ``review.jsonl``: writing, reading, consensus, and the faces table corrected by it."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

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
    """Append one answer to the run's file and sync it to disk.

    Raises:
        ValueError: the answer is not one of the question's choices.
    """
    if answer not in question.choices:
        raise ValueError(f"{answer!r} is not an answer to {question.name}; choose from {', '.join(question.choices)}")
    values = [picture.value for picture in question.pictures]
    left, right = values if len(values) == 2 else (None, None)
    row = {name: getattr(question, name) for name in ("item", "kind", "photo", "attribute", "sample")}
    row |= {"time": now(), "reviewer": reviewer, "answer": answer, "left": left, "right": right}
    with (folder / FILE).open("a", encoding="utf-8") as file:
        file.write(json.dumps(row) + "\n")
        file.flush()
        os.fsync(file.fileno())


def read_answers(folder: Path) -> "pd.DataFrame":
    """Return the latest answer of each reviewer to each question; an empty frame if there are none.

    A last line that a crash cut short is ignored.

    Raises:
        RunError: any other line is damaged.
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
                raise RunError(
                    f"line {number} of {path} is damaged: delete the line; the other answers are kept"
                ) from error
    answers = pd.DataFrame(rows, columns=list(COLUMNS))
    return answers.drop_duplicates(["reviewer", "item", "kind", "attribute"], keep="last", ignore_index=True)


def consensus(answers: "pd.DataFrame") -> dict[tuple[str, str], str]:
    """Map (photo, attribute) to the class that more than half of the reviewers who could tell perceive.

    A photo that more than half of its reviewers exclude, or see no face in, is ``EXCLUDE`` for every attribute.
    """
    agreed: dict[tuple[str, str], str] = {}
    for photo, rows in answers[answers["kind"] == FACE].groupby("photo"):
        rejected = rows["answer"].isin([NO_FACE, EXCLUDE]).groupby(rows["reviewer"]).any()
        if rejected.mean() > 0.5:
            agreed |= {(str(photo), name): EXCLUDE for name in ATTRIBUTES}
            continue
        perceived = rows[~rows["answer"].isin([NO_FACE, EXCLUDE, CANNOT_TELL])]
        for attribute, votes in perceived.groupby("attribute")["answer"]:
            counts = votes.value_counts()
            if counts.iloc[0] > len(votes) / 2:
                agreed[str(photo), str(attribute)] = str(counts.index[0])
    return agreed


def excluded_photos(folder: Path) -> set[str]:
    """Return the names of the photos that a run's reviewers exclude."""
    return {photo for (photo, _), answer in consensus(read_answers(folder)).items() if answer == EXCLUDE}


def read_faces(run: Run) -> "pd.DataFrame":
    """Read the run's faces table with the reviewers' consensus in place of the estimates, where there is one.

    Raises:
        RunError: the table is missing or damaged.
    """
    return as_reviewed(read_frame(run.path("faces.parquet")), consensus(read_answers(run.folder)))


def as_reviewed(faces: "pd.DataFrame", agreed: Mapping[tuple[str, str], str]) -> "pd.DataFrame":
    """Replace the estimates in a faces table by the reviewers' consensus (see ``consensus``), where there is one.

    Returns:
        A copy. A reviewed attribute is at its pole, or its category has probability 1. Excluded photos have the status
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
            attribute = ATTRIBUTES[name]
            if attribute.categories:
                values = [float(category == answer) for category in attribute.classes]
            else:
                values = [2.0 * attribute.poles.index(answer) - 1]
            faces.loc[rows[photo], list(attribute.inputs)] = values
    return faces
