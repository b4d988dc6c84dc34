"""From the run's tables of labels and answers to sweeps: are they complete, and free of contradictions?

What a sweep is, is said in ``sweeps``. No statistics here.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from pipeline.statistics.sweeps import Sweeps, checked_values, ones

GROUP = ["adapter", "attribute", "arm"]
ANSWER_COLUMNS = (*GROUP, "photo", "step", "value", "status")
LABEL_COLUMNS = (*GROUP, "photo", "step", "label", "score", "returned")

NO_COLUMN = "the table {table} lacks the column {column!r}"
MISSING = "the column {column!r} of the table {table} has {count} missing values; the first is in row {row}"
NOT_A_SCORE = "the column 'score' of the table labels must lie in 0-1 where a label was returned; row {row}: {score}"
DUPLICATE_ANSWER = "the table answers has more than one row for {group}, photo {photo!r}, step {step}"
DUPLICATE_LABEL = "the table labels has more than one row for {group}, photo {photo!r}, step {step}, label {label!r}"
UNKNOWN_GROUP = "the table labels has rows for {group}, which the table answers does not know"
UNKNOWN_PHOTO = "the column 'photo' of the table labels names {photo!r}, which {group} was not asked about"
UNKNOWN_STEP = "the column 'step' of the table labels has {step}, which {group} was not asked about"
TWO_VALUES = "the column 'value' of the table answers has more than one value for step {step} of {group}"
NO_THRESHOLD = "no presence threshold is given for the adapter {adapter!r}"


def sweeps_of(
    labels: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    presence: float | Mapping[str, float] = 0.5,
    confidence: bool = False,
) -> list[Sweeps]:
    """The sweeps of every (adapter, attribute, arm) of a run, in this order.

    A label that was not returned counts as absent: y = 0 (with ``confidence``, score 0).

    Args:
        labels: the run's table of that name; the columns of ``LABEL_COLUMNS`` are used.
        answers: likewise, ``ANSWER_COLUMNS``: it says which photos were asked, and which steps were answered.
        presence: the score in 0-1 from which a returned label is present; by adapter if they differ.
        confidence: take the score itself as the response.

    Raises:
        ValueError: a column is missing, or holds missing, repeated, contradictory or impossible entries. Each message
            is a constant of this module.
    """
    _check_columns(answers, ANSWER_COLUMNS, "answers")
    _check_columns(labels, LABEL_COLUMNS, "labels")
    _check_complete(answers, ANSWER_COLUMNS, "answers")
    _check_complete(labels, ("returned",), "labels")
    returned = labels[labels["returned"].to_numpy(dtype=bool)]
    _check_complete(returned, LABEL_COLUMNS, "labels")
    wrong = ~returned["score"].between(0, 1).to_numpy()
    if wrong.any():
        row = int(np.argmax(wrong))
        raise ValueError(NOT_A_SCORE.format(row=returned.index[row], score=returned["score"].iloc[row]))
    asked = _groups(answers)
    named = _groups(returned)
    for group in named.keys() - asked.keys():
        raise ValueError(UNKNOWN_GROUP.format(group=_in_words(group)))
    return [
        _sweeps(
            returned.iloc[named.get(group, np.empty(0, dtype=np.intp))],
            answers.iloc[rows],
            group=group,
            threshold=None if confidence else _threshold(presence, group[0]),
        )
        for group, rows in asked.items()
    ]


def _sweeps(
    labels: pd.DataFrame, answers: pd.DataFrame, *, group: tuple[str, str, str], threshold: float | None
) -> Sweeps:
    """One group's sweeps; no threshold means that the score is the response."""
    step_of, values = _steps(answers, group)
    asked_step = answers["step"].map(step_of).to_numpy()
    codes, names = pd.factorize(answers["photo"], sort=True)
    asked = np.bincount(codes * len(values) + asked_step, minlength=len(names) * len(values))
    if asked.max() > 1:
        again = int(np.argmax(asked > 1))
        number = list(step_of)[again % len(values)]
        raise ValueError(
            DUPLICATE_ANSWER.format(group=_in_words(group), photo=names[again // len(values)], step=number)
        )
    answered = np.zeros((len(names), len(values)), dtype=bool)
    answered[codes, asked_step] = answers["status"].to_numpy() == "ok"
    complete: NDArray[Any] = np.asarray(answered.all(axis=1))

    label, label_names = pd.factorize(labels["label"], sort=True)
    photo, step = _places(labels, names, step_of, group)
    key = (label.astype(np.int64) * len(values) + step) * len(names) + photo
    order = np.argsort(key)
    repeated = np.diff(key[order]) == 0
    if repeated.any():
        at = labels.iloc[order[int(np.argmax(repeated))]]
        raise ValueError(
            DUPLICATE_LABEL.format(group=_in_words(group), photo=at["photo"], step=at["step"], label=at["label"])
        )
    score = labels["score"].to_numpy(dtype=np.float64)
    present = score > 0 if threshold is None else score >= threshold
    kept = order[(complete[photo] & present)[order]]
    place = np.cumsum(complete) - 1  # of a photo among the complete ones
    return Sweeps(
        adapter=group[0],
        attribute=group[1],
        arm=group[2],
        values=values,
        photos=tuple(names[complete]),
        incomplete=tuple(names[~complete]),
        labels=tuple(label_names),
        confidence=threshold is None,
        starts=_starts(label[kept], len(label_names)),
        cells=step[kept] * int(complete.sum()) + place[photo[kept]],
        responses=score[kept] if threshold is None else ones(len(kept)),
    )


def _steps(answers: pd.DataFrame, group: tuple[str, str, str]) -> tuple[dict[int, int], NDArray[np.float64]]:
    """Step number -> place in the sweep, and the values in that order."""
    pairs = answers[["step", "value"]].drop_duplicates().sort_values("value")
    twice = pairs["step"].duplicated()
    if twice.any():
        raise ValueError(TWO_VALUES.format(step=pairs["step"][twice].iloc[0], group=_in_words(group)))
    return {int(step): k for k, step in enumerate(pairs["step"])}, checked_values(pairs["value"].to_numpy(np.float64))


def _places(
    labels: pd.DataFrame, names: Any, step_of: Mapping[int, int], group: tuple[str, str, str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Photo and step of every row of labels, as places in the sweeps."""
    codes, seen = pd.factorize(labels["photo"])
    photo = pd.Index(names).get_indexer(pd.Index(seen))
    if (photo < 0).any():
        raise ValueError(UNKNOWN_PHOTO.format(photo=seen[int(np.argmax(photo < 0))], group=_in_words(group)))
    step_codes, steps = pd.factorize(labels["step"])
    for step in steps:
        if step not in step_of:
            raise ValueError(UNKNOWN_STEP.format(step=step, group=_in_words(group)))
    places = np.array([step_of[int(step)] for step in steps], dtype=np.int64)
    return photo[codes].astype(np.int64), places[step_codes]


def _check_columns(frame: pd.DataFrame, columns: Sequence[str], table: str) -> None:
    for column in columns:
        if column not in frame.columns:
            raise ValueError(NO_COLUMN.format(column=column, table=table))


def _check_complete(frame: pd.DataFrame, columns: Sequence[str], table: str) -> None:
    for column in columns:
        missing = frame[column].isna().to_numpy()
        if missing.any():
            row = frame.index[int(np.argmax(missing))]
            raise ValueError(MISSING.format(column=column, table=table, count=int(missing.sum()), row=row))


def _groups(frame: pd.DataFrame) -> dict[tuple[str, str, str], NDArray[np.intp]]:
    """Rows of every (adapter, attribute, arm), sorted by their names."""
    numbers: Mapping[Any, Any] = frame.groupby(GROUP, sort=True, observed=True).indices
    return {(str(key[0]), str(key[1]), str(key[2])): rows for key, rows in sorted(numbers.items())}


def _starts(rows: NDArray[Any], count: int) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=count))]).astype(np.int64)


def _threshold(presence: float | Mapping[str, float], adapter: str) -> float:
    if isinstance(presence, Mapping):
        if adapter not in presence:
            raise ValueError(NO_THRESHOLD.format(adapter=adapter))
        return float(presence[adapter])
    return float(presence)


def _in_words(group: tuple[str, str, str]) -> str:
    return f"adapter {group[0]!r}, attribute {group[1]!r}, arm {group[2]!r}"
