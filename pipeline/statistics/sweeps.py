"""Who was shown which label at which step: one ``Sweeps`` is one adapter's answers to one attribute in one arm.

Made from an array, or from the tables ``labels`` and ``answers`` of a run, which are checked. No statistics here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.config.attributes import EDIT_ARM

GROUP = ["adapter", "attribute", "arm"]
ANSWER_COLUMNS = (*GROUP, "photo", "step", "value", "status")
LABEL_COLUMNS = (*GROUP, "photo", "step", "label", "score", "returned")

NO_COLUMN = "the table {table} lacks the column {column!r}"
MISSING = "the column {column!r} of the table {table} has {count} missing values; the first is in row {row}"
NOT_A_SCORE = "the column 'score' of the table labels must lie in 0-1 where a label was returned; row {row}: {score}"
DUPLICATE_ANSWER = "the table answers has more than one row for {group}, photo {photo!r}, step {step}"
DUPLICATE_LABEL = "the table labels has more than one row for {group}, photo {photo!r}, step {step}, label {label!r}"
UNKNOWN_GROUP = "the table labels has rows for {group}, which the table answers does not know"
UNKNOWN_PHOTO = "the column 'photo' of the table labels names {photo!r}, which {group} has no answers for"
UNKNOWN_STEP = "the column 'step' of the table labels has {step}, which {group} has no answers for"
TWO_VALUES = "the column 'value' of the table answers has more than one value for step {step} of {group}"
NO_THRESHOLD = "no presence threshold is given for the adapter {adapter!r}"
UNEVEN = "the column 'value' must hold an odd number of values (3 or more), evenly spaced around 0, not {values}"


@dataclass(frozen=True, eq=False)
class Sweeps:
    """Responses of one adapter to ``n`` complete sweeps of ``K`` steps, for ``L`` labels.

    The response y is 1 where a label is present and 0 where it is absent; with ``confidence`` it is the score.
    Only responses other than 0 are stored, label after label, so that thousands of rare labels cost little.
    """

    # adapter, attribute, arm: the classifier, what was changed, and "edit" or the placebo's name
    adapter: str
    attribute: str
    arm: str
    values: NDArray[np.float64]  # (K,) the attribute values a, ascending, evenly spaced around 0
    photos: tuple[str, ...]  # the n photos whose K steps were all answered, sorted
    incomplete: tuple[str, ...]  # photos left out because a step failed, was excluded or was never sent
    labels: tuple[str, ...]  # the L labels ever returned, sorted
    confidence: bool  # whether y is the score rather than the presence
    starts: NDArray[np.int64]  # (L + 1,) where each label's entries begin in cells and responses
    cells: NDArray[np.int64]  # (m,) position of an entry in a (K, n) array
    responses: NDArray[np.float64]  # (m,) y in 0-1

    @classmethod
    def from_array(
        cls,
        y: ArrayLike,
        values: ArrayLike,
        *,
        labels: Sequence[str] | None = None,
        photos: Sequence[str] | None = None,
        adapter: str = "",
        attribute: str = "",
        arm: str = EDIT_ARM,
        confidence: bool = False,
    ) -> Self:
        """Sweeps from a ``(n, K, L)`` array of 0 and 1, or of scores in 0-1 with ``confidence``.

        Args:
            y: the responses.
            values: ``(K,)`` the attribute values, ascending or descending.
            labels, photos: names; their numbers unless given.
            adapter, attribute, arm, confidence: as for ``Sweeps``.

        Raises:
            ValueError: shapes that do not fit, names used twice, responses or values that cannot be.
        """
        y, values = np.asarray(y), np.asarray(values, dtype=np.float64)
        if y.ndim != 3 or y.shape[1:2] != values.shape:
            raise ValueError(f"y must have the shape (n, K, L) with K = {values.size}, but has {y.shape}")
        photo_count, steps, label_count = y.shape
        labels = [str(number) for number in range(label_count)] if labels is None else list(labels)
        photos = [str(number) for number in range(photo_count)] if photos is None else list(photos)
        for names, count, what in ((labels, label_count, "labels"), (photos, photo_count, "photos")):
            if len(names) != count or len(set(names)) != count:
                raise ValueError(f"{what} must be {count} different names")
        if confidence and not np.all((y >= 0) & (y <= 1)):
            raise ValueError("y must hold scores in 0-1")
        # Of integers the ends tell it, without three more arrays as large as y.
        whole = y.dtype.kind in "iub" and y.size and y.min() >= 0 and y.max() <= 1
        if not confidence and not (whole or np.all((y == 0) | (y == 1))):
            raise ValueError("y must hold 0 and 1; give confidence=True for scores")
        order = np.argsort(values)
        flat = y[:, order].transpose(2, 1, 0).reshape(label_count, steps * photo_count)
        label, cells = np.nonzero(flat)
        return cls(
            adapter=adapter,
            attribute=attribute,
            arm=arm,
            values=checked_values(values[order]),
            photos=tuple(photos),
            incomplete=(),
            labels=tuple(labels),
            confidence=confidence,
            starts=_starts(label, label_count),
            cells=cells,
            responses=flat[label, cells].astype(np.float64) if confidence else ones(len(cells)),
        )

    def rates(self) -> NDArray[np.float64]:
        """``(L, K)`` mean response y_k of every label and step: the presence rate, or the mean score."""
        steps, photos = len(self.values), len(self.photos)
        sums = np.zeros((len(self.labels), steps))
        for line, first, last in zip(sums, self.starts, self.starts[1:], strict=False):
            if last > first:
                step = self.cells[first:last] // photos
                line[:] = np.bincount(step, weights=self.responses[first:last], minlength=steps)
        return sums / max(photos, 1)

    def block(self, rows: Sequence[int] | NDArray[np.intp]) -> NDArray[Any]:
        """Responses of some labels, ``(len(rows), K, n)``: int8 for presence, float64 for scores."""
        kind = np.float64 if self.confidence else np.int8
        dense = np.zeros((len(rows), len(self.values) * len(self.photos)), dtype=kind)
        for line, row in zip(dense, rows, strict=True):
            entries = slice(self.starts[row], self.starts[row + 1])
            line[self.cells[entries]] = self.responses[entries]
        return dense.reshape(len(rows), len(self.values), len(self.photos))

    def of_photos(self, photos: Sequence[str]) -> Self:
        """The same labels on some of the photos, in the order given.

        Raises:
            KeyError: a photo without a complete sweep here.
        """
        place = {photo: number for number, photo in enumerate(self.photos)}
        moved = np.full(len(self.photos), -1, dtype=np.int64)
        moved[[place[photo] for photo in photos]] = np.arange(len(photos))
        step, photo = np.divmod(self.cells, max(len(self.photos), 1))
        kept = moved[photo] >= 0
        return replace(
            self,
            photos=tuple(photos),
            starts=np.concatenate([[0], np.cumsum(kept)])[self.starts],
            cells=step[kept] * len(photos) + moved[photo[kept]],
            responses=self.responses[kept],
        )

    def of_values(self, values: NDArray[np.float64]) -> Self:
        """The same sweeps at some of their values, ascending.

        Raises:
            ValueError: a value is none of theirs, or they are not evenly spaced around 0.
        """
        apart = np.abs(self.values[:, None] - values)
        if (apart.min(axis=0) > 1e-6).any():
            raise ValueError(UNEVEN.format(values=", ".join(f"{value:g}" for value in values)))
        moved = np.full(len(self.values), -1, dtype=np.int64)
        moved[apart.argmin(axis=0)] = np.arange(len(values))
        step, photo = np.divmod(self.cells, max(len(self.photos), 1))
        kept = moved[step] >= 0
        return replace(
            self,
            values=checked_values(np.asarray(values, dtype=np.float64)),
            starts=np.concatenate([[0], np.cumsum(kept)])[self.starts],
            cells=moved[step[kept]] * len(self.photos) + photo[kept],
            responses=self.responses[kept],
        )

    def of_labels(self, labels: Sequence[str]) -> Self:
        """The same photos with these labels, in the order given; one that was never returned is absent everywhere."""
        place = {label: row for row, label in enumerate(self.labels)}
        rows = [place.get(label) for label in labels]
        parts = [slice(0) if row is None else slice(self.starts[row], self.starts[row + 1]) for row in rows]
        return replace(
            self,
            labels=tuple(labels),
            starts=np.cumsum([0, *(part.stop - (part.start or 0) for part in parts)]),
            cells=np.concatenate([self.cells[:0], *(self.cells[part] for part in parts)]),
            responses=np.concatenate([self.responses[:0], *(self.responses[part] for part in parts)]),
        )

    def to_array(self) -> NDArray[Any]:
        """All responses, ``(n, K, L)``: the inverse of ``from_array``. Large: n K L cells."""
        return self.block(range(len(self.labels))).transpose(2, 1, 0)


def checked_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Attribute values as they are, if they are an odd number, ascending and evenly spaced around 0.

    Raises:
        ValueError: they are not.
    """
    gaps = np.diff(values)
    tolerance = 1e-6 * gaps[0] if len(gaps) else 0.0
    even = len(values) >= 3 and len(values) % 2 == 1 and tolerance > 0 and np.ptp(gaps) <= tolerance
    if not (even and abs(values[len(values) // 2]) <= tolerance):
        raise ValueError(UNEVEN.format(values=", ".join(f"{value:g}" for value in values)))
    return values


def ones(count: int) -> NDArray[np.float64]:
    """``(count,)`` of 1 that take the memory of one."""
    return np.broadcast_to(1.0, (count,))


def sweeps_of(
    labels: pd.DataFrame | Iterable[pd.DataFrame],
    answers: pd.DataFrame,
    *,
    presence: float | Mapping[str, float] = 0.5,
    confidence: bool = False,
) -> list[Sweeps]:
    """The sweeps of every (adapter, attribute, arm) of a run, in this order.

    A label that was not returned counts as absent: y = 0 (with ``confidence``, score 0).

    Args:
        labels: the run's table of that name; the columns of ``LABEL_COLUMNS`` are used. In several frames it is never
            held as a whole.
        answers: likewise, ``ANSWER_COLUMNS``: it says which photos were sent, and which steps were answered.
        presence: the score in 0-1 from which a returned label is present; by adapter if they differ.
        confidence: take the score itself as the response.

    Raises:
        ValueError: a column is missing, or holds missing, repeated, contradictory or impossible entries. Each message
            is a constant of this module.
    """
    _check(answers, ANSWER_COLUMNS, "answers")
    found = {
        group: _Gathered(group, answers.iloc[rows], threshold=None if confidence else _threshold(presence, group[0]))
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
            if group not in found:
                raise ValueError(UNKNOWN_GROUP.format(group=_in_words(group)))
            found[group].add(returned.iloc[rows])
    return [each.sweeps() for each in found.values()]


class _Gathered:
    """One group's sweeps while the table of labels is read; no threshold means that the score is the response."""

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
        """Take the returned labels of some rows."""
        codes, names = _factorized(labels["label"])
        known = [self._label_codes.setdefault(str(name), len(self._label_codes)) for name in names]
        photo, step = _places(labels, self._photos, self._step_of, self._group)
        score = labels["score"].to_numpy(dtype=np.float64)
        response = score if self._threshold is None else score >= self._threshold
        cell = (step * len(self._photos) + photo).astype(self._cell_kind)
        self._parts.append((np.array(known, dtype=np.int32)[codes], cell, response))

    def sweeps(self) -> Sweeps:
        """All that was taken."""
        names = sorted(self._label_codes)
        cells, photos = len(self._photos) * len(self._values), len(self._photos)
        key, response = self._sorted({name: rank for rank, name in enumerate(names)}, cells)
        repeated = key[1:] == key[:-1]
        if repeated.any():
            rank, place = divmod(int(key[int(np.argmax(repeated))]), cells)
            self._refuse(DUPLICATE_LABEL, place % photos, place // photos, label=names[rank])
        among = np.cumsum(self._complete) - 1  # of a photo, among the complete ones
        ends = np.searchsorted(key, np.arange(len(names) + 1) * cells)
        found, responses = [np.empty(0, dtype=np.int64)], [response[:0]]
        for rank, (first, last) in enumerate(pairwise(ends)):  # one label at a time: a whole table's places are large
            step, photo = np.divmod(key[first:last] - rank * cells, max(photos, 1))
            kept = self._complete[photo] & (response[first:last] > 0)
            found.append(step[kept] * int(self._complete.sum()) + among[photo[kept]])
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
        """Every entry as its label's rank times ``cells`` plus its cell, ascending, and its response."""
        if not self._parts:
            return np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float64)
        ranks = np.array([rank[name] for name in self._label_codes], dtype=np.int64)
        key = np.empty(sum(len(codes) for codes, _, _ in self._parts), dtype=np.int64)
        response = np.empty(len(key), dtype=self._parts[0][2].dtype)
        end = len(key)
        while self._parts:  # each part is given up as it is taken in
            codes, cell, own = self._parts.pop()
            place = slice(end - len(codes), end)
            key[place], response[place], end = ranks[codes] * cells + cell, own, end - len(codes)
        if self._threshold is None:
            order = np.argsort(key)
            return key[order], response[order]
        # Whether the label is present becomes the last bit: sorted in place, without a second array of places.
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
    """Codes and names, sorted, of a column of text or of categories, whose own order is that of a file."""
    codes, found = pd.factorize(column)
    names = np.asarray(found, dtype=object)
    order = np.argsort(names)
    rank = np.empty(len(order), dtype=np.intp)
    rank[order] = np.arange(len(order))
    return rank[codes], names[order]


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
    codes, seen = _factorized(labels["photo"])
    photo = pd.Index(names).get_indexer(pd.Index(seen))
    if (photo < 0).any():
        raise ValueError(UNKNOWN_PHOTO.format(photo=seen[int(np.argmax(photo < 0))], group=_in_words(group)))
    step_codes, steps = pd.factorize(labels["step"])
    for step in steps:
        if step not in step_of:
            raise ValueError(UNKNOWN_STEP.format(step=step, group=_in_words(group)))
    places = np.array([step_of[int(step)] for step in steps], dtype=np.int64)
    return photo[codes].astype(np.int64), places[step_codes]


def _check(frame: pd.DataFrame, columns: Sequence[str], table: str, *, complete: Sequence[str] | None = None) -> None:
    """Refuse a table that lacks a column, or a value in one of those that must be complete, all unless given."""
    for column in columns:
        if column not in frame.columns:
            raise ValueError(NO_COLUMN.format(column=column, table=table))
    for column in columns if complete is None else complete:
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
