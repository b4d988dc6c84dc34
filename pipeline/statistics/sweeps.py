"""Responses to sweeps: a ``Sweeps`` holds one adapter's answers for one attribute in one arm.

It is made from an array, or by ``sweep_tables`` from the tables of a run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.config.attributes import EDIT_ARM

UNEVEN = "the column 'value' must hold an odd number of values (3 or more), evenly spaced around 0, not {values}"


@dataclass(frozen=True, eq=False)
class Sweeps:
    """Responses of one adapter to ``n`` complete sweeps of ``K`` steps, for ``L`` labels.

    The response y is 1 where a label is present and 0 where it is absent; with ``confidence`` it is the score.
    Only non-zero responses are stored, label by label, because most labels are rare.
    """

    # adapter, attribute, arm: the classifier, the attribute edited, and "edit" or the placebo's name
    adapter: str
    attribute: str
    arm: str
    values: NDArray[np.float64]  # (K,) the attribute values a, ascending, evenly spaced around 0
    photos: tuple[str, ...]  # the n photos whose K steps were all answered, sorted
    incomplete: tuple[str, ...]  # photos left out because a step failed, was excluded or was never sent
    labels: tuple[str, ...]  # the L labels returned at least once, sorted
    confidence: bool  # whether y is the score rather than the presence
    starts: NDArray[np.int64]  # (L + 1,) position of each label's first entry in cells and responses
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
            labels, photos: names; by default numbers.
            adapter, attribute, arm, confidence: as for ``Sweeps``.

        Raises:
            ValueError: shapes that do not match, repeated names, or responses or values out of range.
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
        # For integers the range is enough, which saves three arrays of the size of y.
        binary = y.dtype.kind in "iub" and y.size and y.min() >= 0 and y.max() <= 1
        if not confidence and not (binary or np.all((y == 0) | (y == 1))):
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
            starts=np.searchsorted(label, np.arange(label_count + 1)),
            cells=cells,
            responses=flat[label, cells].astype(np.float64) if confidence else ones(len(cells)),
        )

    def rates(self) -> NDArray[np.float64]:
        """Mean response y_k of every label and step, ``(L, K)``: the presence rate or the mean score."""
        steps, photos = len(self.values), len(self.photos)
        sums = np.zeros((len(self.labels), steps))
        for line, first, last in zip(sums, self.starts, self.starts[1:], strict=False):
            if last > first:
                step = self.cells[first:last] // photos
                line[:] = np.bincount(step, weights=self.responses[first:last], minlength=steps)
        return sums / max(photos, 1)

    def block(self, rows: Sequence[int] | NDArray[np.intp]) -> NDArray[Any]:
        """Responses of the labels at ``rows``, ``(len(rows), K, n)``: int8 for presence, float64 for scores."""
        kind = np.float64 if self.confidence else np.int8
        dense = np.zeros((len(rows), len(self.values) * len(self.photos)), dtype=kind)
        for line, row in zip(dense, rows, strict=True):
            entries = slice(self.starts[row], self.starts[row + 1])
            line[self.cells[entries]] = self.responses[entries]
        return dense.reshape(len(rows), len(self.values), len(self.photos))

    def of_photos(self, photos: Sequence[str]) -> Self:
        """Restrict to photos, in the order given.

        Raises:
            KeyError: a photo without a complete sweep here.
        """
        number = {photo: place for place, photo in enumerate(self.photos)}
        target = np.full(len(self.photos), -1, dtype=np.int64)
        target[[number[photo] for photo in photos]] = np.arange(len(photos))
        step, photo = np.divmod(self.cells, max(len(self.photos), 1))
        kept = target[photo] >= 0
        return self._kept(kept, step[kept] * len(photos) + target[photo[kept]], photos=tuple(photos))

    def of_values(self, values: NDArray[np.float64]) -> Self:
        """Restrict to attribute values, ascending.

        Raises:
            ValueError: a value is not in the sweep, or the values are not evenly spaced around 0.
        """
        distance = np.abs(self.values[:, None] - values)
        if (distance.min(axis=0) > 1e-6).any():
            raise ValueError(UNEVEN.format(values=", ".join(f"{value:g}" for value in values)))
        target = np.full(len(self.values), -1, dtype=np.int64)
        target[distance.argmin(axis=0)] = np.arange(len(values))
        step, photo = np.divmod(self.cells, max(len(self.photos), 1))
        kept = target[step] >= 0
        checked = checked_values(np.asarray(values, dtype=np.float64))
        return self._kept(kept, target[step[kept]] * len(self.photos) + photo[kept], values=checked)

    def of_labels(self, labels: Sequence[str]) -> Self:
        """Restrict to labels, in the order given; a label that was never returned is absent everywhere."""
        number = {label: row for row, label in enumerate(self.labels)}
        rows = [number.get(label) for label in labels]
        parts = [slice(0) if row is None else slice(self.starts[row], self.starts[row + 1]) for row in rows]
        return replace(
            self,
            labels=tuple(labels),
            starts=np.cumsum([0, *(part.stop - (part.start or 0) for part in parts)]),
            cells=np.concatenate([self.cells[:0], *(self.cells[part] for part in parts)]),
            responses=np.concatenate([self.responses[:0], *(self.responses[part] for part in parts)]),
        )

    def _kept(self, kept: NDArray[np.bool_], cells: NDArray[np.int64], **fields: Any) -> Self:
        """The entries ``kept``, at their new cells, and other new fields."""
        starts = np.concatenate([[0], np.cumsum(kept)])[self.starts]
        return replace(self, starts=starts, cells=cells, responses=self.responses[kept], **fields)


def checked_values(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return attribute values if they are an odd number, ascending and evenly spaced around 0; else a ValueError."""
    gaps = np.diff(values)
    tolerance = 1e-6 * gaps[0] if len(gaps) else 0.0
    even = len(values) >= 3 and len(values) % 2 == 1 and tolerance > 0 and np.ptp(gaps) <= tolerance
    if not (even and abs(values[len(values) // 2]) <= tolerance):
        raise ValueError(UNEVEN.format(values=", ".join(f"{value:g}" for value in values)))
    return values


def ones(count: int) -> NDArray[np.float64]:
    """``(count,)`` ones, a view of a single number."""
    return np.broadcast_to(1.0, (count,))
