"""Sweeps from the tables ``labels`` and ``answers`` of a run; ``labels`` may be a stream of frames."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

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
UNKNOWN_GROUP = "the table labels has rows for {group}, but the table answers has none"
UNKNOWN_PHOTO = "the table labels has rows for the photo {photo!r} of {group}, but the table answers has none"
UNKNOWN_STEP = "the table labels has rows for the step {step} of {group}, but the table answers has none"
TWO_VALUES = "the column 'value' of the table answers has more than one value for step {step} of {group}"
NO_THRESHOLD = "there is no presence threshold for the adapter {adapter!r}"


def sweeps_of(
    labels: pd.DataFrame | Iterable[pd.DataFrame],
    answers: pd.DataFrame,
    *,
    presence: float | Mapping[str, float] = 0.5,
    confidence: bool = False,
) -> list[Sweeps]:
    """Sweeps of every (adapter, attribute, arm) of a run, sorted in this order.

    A label that was not returned counts as absent: y = 0 (with ``confidence``, score 0).

    Args:
        labels: the run's table with ``LABEL_COLUMNS``, whole or as frames that are read one by one.
        answers: the run's table with ``ANSWER_COLUMNS``, which defines the photos sent and the steps answered.
        presence: the score in 0-1 from which a returned label is present, for all adapters or by adapter.
        confidence: use the score itself as the response.

    Raises:
        ValueError: a column is missing, or has missing, repeated, contradictory or impossible entries. Each message
            is a constant of this module.
    """
    _check(answers, ANSWER_COLUMNS, "answers")
    builders = {
        group: _Builder(group, answers.iloc[rows], threshold=None if confidence else _threshold(presence, group[0]))
        for group, rows in _groups(answers).items()
    }
    for frame in [labels] if isinstance(labels, pd.DataFrame) else labels:
        _check(frame, LABEL_COLUMNS, "labels", complete=("returned",))
        returned = frame[frame["returned"].to_numpy(dtype=bool)]
        _check(returned, LABEL_COLUMNS, "labels")
        wrong = ~returned["score"].between(0, 1).to_numpy()
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(NOT_A_SCORE.format(row=returned.index[row], score=returned["score"].iloc[row]))
        for group, rows in _groups(returned).items():
            if group not in builders:
                raise ValueError(UNKNOWN_GROUP.format(group=_in_words(group)))
            builders[group].add(returned.iloc[rows])
    return [builder.sweeps() for builder in builders.values()]


class _Builder:
    """Collects the labels of one group; without a threshold the score is the response."""

    def __init__(self, group: tuple[str, str, str], answers: pd.DataFrame, *, threshold: float | None) -> None:
        self._group, self._threshold = group, threshold
        self._step_of, self._values = _steps(answers, group)
        sent_step = answers["step"].map(self._step_of).to_numpy()
        codes, self._photos = _factorized(answers["photo"])
        shape = len(self._photos), len(self._values)
        sent = np.bincount(codes * shape[1] + sent_step, minlength=shape[0] * shape[1])
        if sent.max() > 1:
            self._refuse(DUPLICATE_ANSWER, *divmod(int(np.argmax(sent > 1)), shape[1]))
        answered = np.zeros(shape, dtype=bool)
        answered[codes, sent_step] = answers["status"].to_numpy() == "ok"
        self._complete: NDArray[Any] = np.asarray(answered.all(axis=1))
        self._label_codes: dict[str, int] = {}
        self._cell_kind = np.int32 if shape[0] * shape[1] < 2**31 else np.int64
        self._parts: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []

    def add(self, labels: pd.DataFrame) -> None:
        """Add rows of returned labels."""
        codes, names = _factorized(labels["label"])
        known = [self._label_codes.setdefault(str(name), len(self._label_codes)) for name in names]
        photo, step = _positions(labels, self._photos, self._step_of, self._group)
        score = labels["score"].to_numpy(dtype=np.float64)
        response = score if self._threshold is None else score >= self._threshold
        cell = (step * len(self._photos) + photo).astype(self._cell_kind)
        self._parts.append((np.array(known, dtype=np.int32)[codes], cell, response))

    def sweeps(self) -> Sweeps:
        """Build the sweeps; the collected rows are consumed."""
        names = sorted(self._label_codes)
        cells, photos = len(self._photos) * len(self._values), len(self._photos)
        key, response = self._sorted({name: rank for rank, name in enumerate(names)}, cells)
        repeated = key[1:] == key[:-1]
        if repeated.any():
            rank, cell = divmod(int(key[int(np.argmax(repeated))]), cells)
            self._refuse(DUPLICATE_LABEL, cell % photos, cell // photos, label=names[rank])
        position = np.cumsum(self._complete) - 1  # of a photo among the complete photos
        ends = np.searchsorted(key, np.arange(len(names) + 1) * cells)
        found, responses = [np.empty(0, dtype=np.int64)], [response[:0]]
        for rank, (first, last) in enumerate(pairwise(ends)):  # label by label, to save memory
            step, photo = np.divmod(key[first:last] - rank * cells, max(photos, 1))
            kept = self._complete[photo] & (response[first:last] > 0)
            found.append(step[kept] * int(self._complete.sum()) + position[photo[kept]])
            responses.append(response[first:last][kept])
        del key, response
        return Sweeps(
            *self._group,
            values=self._values,
            photos=tuple(self._photos[self._complete]),
            incomplete=tuple(self._photos[~self._complete]),
            labels=tuple(names),
            confidence=self._threshold is None,
            starts=np.cumsum([0, *map(len, found[1:])]),
            cells=np.concatenate(found),
            responses=np.concatenate(responses) if self._threshold is None else ones(sum(map(len, found))),
        )

    def _sorted(self, rank: Mapping[str, int], cells: int) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Keys of all entries (rank of the label times ``cells``, plus the cell), ascending, and their responses."""
        if not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
        ranks = np.array([rank[name] for name in self._label_codes], dtype=np.int64)
        key = np.empty(sum(len(codes) for codes, _, _ in self._parts), dtype=np.int64)
        response = np.empty(len(key), dtype=self._parts[0][2].dtype)
        end = len(key)
        while self._parts:  # frees each part once it is copied
            codes, cell, own = self._parts.pop()
            rows = slice(end - len(codes), end)
            key[rows], response[rows], end = ranks[codes] * cells + cell, own, end - len(codes)
        if self._threshold is None:
            order = np.argsort(key)
            return key[order], response[order]
        # The presence is stored in the last bit, so that the keys are sorted in place without an index array.
        key <<= 1
        key |= response
        key.sort()
        present = (key & 1).astype(bool)
        key >>= 1
        return key, present

    def _refuse(self, message: str, photo: int, step: int, **named: str) -> NoReturn:
        steps = list(self._step_of)
        raise ValueError(
            message.format(group=_in_words(self._group), photo=self._photos[photo], step=steps[step], **named)
        )


def _factorized(column: "pd.Series[Any]") -> tuple[NDArray[np.intp], NDArray[np.object_]]:
    """Codes and sorted names of a column of text or of categories, which may themselves be in any order."""
    codes, found = pd.factorize(column)
    names = np.asarray(found, dtype=object)
    order = np.argsort(names)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return rank[codes], names[order]


def _steps(answers: pd.DataFrame, group: tuple[str, str, str]) -> tuple[dict[int, int], NDArray[np.float64]]:
    """Step number -> position in the sweep, and the values in that order."""
    pairs = answers[["step", "value"]].drop_duplicates().sort_values("value")
    twice = pairs["step"].duplicated()
    if twice.any():
        raise ValueError(TWO_VALUES.format(step=pairs["step"][twice].iloc[0], group=_in_words(group)))
    return {int(step): k for k, step in enumerate(pairs["step"])}, checked_values(pairs["value"].to_numpy(np.float64))


def _positions(
    labels: pd.DataFrame, photos: Any, step_of: Mapping[int, int], group: tuple[str, str, str]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Photo and step of every row of labels, as positions in the sweeps."""
    codes, names = _factorized(labels["photo"])
    photo = pd.Index(photos).get_indexer(pd.Index(names))
    if (photo < 0).any():
        raise ValueError(UNKNOWN_PHOTO.format(photo=names[int(np.argmax(photo < 0))], group=_in_words(group)))
    step_codes, steps = pd.factorize(labels["step"])
    for step in steps:
        if step not in step_of:
            raise ValueError(UNKNOWN_STEP.format(step=step, group=_in_words(group)))
    positions = np.array([step_of[int(step)] for step in steps], dtype=np.int64)
    return photo[codes].astype(np.int64), positions[step_codes]


def _check(frame: pd.DataFrame, columns: Sequence[str], table: str, *, complete: Sequence[str] | None = None) -> None:
    """Refuse a table without one of ``columns``, or with missing values in ``complete`` (default: ``columns``)."""
    for column in columns:
        if column not in frame.columns:
            raise ValueError(NO_COLUMN.format(column=column, table=table))
    for column in columns if complete is None else complete:
        missing = frame[column].isna().to_numpy()
        if missing.any():
            row = frame.index[int(np.argmax(missing))]
            raise ValueError(MISSING.format(column=column, table=table, count=int(missing.sum()), row=row))


def _groups(frame: pd.DataFrame) -> dict[tuple[str, str, str], NDArray[np.intp]]:
    """Rows of every (adapter, attribute, arm), sorted."""
    rows_of: Mapping[Any, Any] = frame.groupby(GROUP, sort=True, observed=True).indices
    return {(str(key[0]), str(key[1]), str(key[2])): rows for key, rows in sorted(rows_of.items())}


def _threshold(presence: float | Mapping[str, float], adapter: str) -> float:
    if isinstance(presence, Mapping):
        if adapter not in presence:
            raise ValueError(NO_THRESHOLD.format(adapter=adapter))
        return float(presence[adapter])
    return float(presence)


def _in_words(group: tuple[str, str, str]) -> str:
    return f"adapter {group[0]!r}, attribute {group[1]!r}, arm {group[2]!r}"
