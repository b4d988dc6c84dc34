"""Attributes, tasks and predictions as category codes, checked: what predictability is measured on.

Scores (logits, probabilities) are not categories; how they enter an attacker is said in ``leakage``.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.checks import numbers
from pipeline.statistics.inference import Floats

Codes = NDArray[np.intp]

BAD_SHAPE = "{name} must have the shape (n,) or (n, C), but has {shape}"
EMPTY = "{name} is empty"
MISSING = "{name} has a missing value in row {row}, counting from 0"
NOT_CATEGORIES = "{name} holds {value} in row {row}, which is no category (rows count from 0): give labels, not scores"
MIXED = "{name} holds {kind} and {first} {other}: give the same labels in both"
DIFFERENT_ROWS = "{name} has {rows} rows, but {first} has {expected}"
DIFFERENT_COLUMNS = "{name} has {columns} columns, but {first} has {expected}"


@dataclass(frozen=True, eq=False)
class Categories:
    """``n`` rows of ``C`` categorical columns.

    Attributes:
        codes: ``(n, C)`` integers, the place of each entry in its column's ``names``.
        names: the categories of each column, sorted. A column of only 0 and 1 always has both.
    """

    codes: Codes
    names: tuple[NDArray[Any], ...]

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """How many categories each column has."""
        return tuple(len(names) for names in self.names)

    def features(self) -> Floats:
        """``(n, F)`` numbers for an attacker: a column of two categories as 0 and 1, others one-hot."""
        parts = [
            self.codes[:, [column]] if size <= 2 else self.codes[:, [column]] == np.arange(size)
            for column, size in enumerate(self.sizes)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def with_codes(self, codes: Codes) -> "Categories":
        """The same columns with other entries."""
        return Categories(codes, self.names)

    def take(self, rows: Codes) -> "Categories":
        """Some rows, in the order given."""
        return self.with_codes(self.codes[rows])

    def joint(self) -> Codes:
        """``(n,)`` one code for each different row, in the order of the rows' codes."""
        return np.unique(self.codes, axis=0, return_inverse=True)[1].reshape(-1)


def categories(**arrays: ArrayLike) -> tuple[Categories, ...]:
    """Labels that share their categories, such as a task and its predictions; named for the errors.

    Args:
        arrays: name -> ``(n,)`` or ``(n, C)`` numbers, booleans or text, all of one shape.

    Raises:
        ValueError: a shape that does not fit, nothing in it, a missing value, numbers that are no whole numbers, or
            text in one and numbers in another; the message names the argument.
    """
    tables = {name: _table(name, values) for name, values in arrays.items()}
    check_rows(tables)
    first, *_ = tables
    for name, table in tables.items():
        if table.shape[1] != tables[first].shape[1]:
            text = DIFFERENT_COLUMNS.format(
                name=name, columns=table.shape[1], first=first, expected=tables[first].shape[1]
            )
            raise ValueError(text)
        kinds = ["text" if part.dtype.kind in "US" else "numbers" for part in (table, tables[first])]
        if kinds[0] != kinds[1]:
            raise ValueError(MIXED.format(name=name, kind=kinds[0], first=first, other=kinds[1]))
    stacked = np.concatenate(list(tables.values()))
    names, columns = [], []
    for column in stacked.T:
        known, codes = np.unique(column, return_inverse=True)
        if known.dtype.kind in "biuf" and np.isin(known, (0, 1)).all():
            known, codes = np.array([0, 1]), column.astype(np.intp)
        names.append(known)
        columns.append(codes.reshape(-1))
    parts = np.split(np.stack(columns, axis=1).astype(np.intp), len(tables))
    return tuple(Categories(part, tuple(names)) for part in parts)


def scores(values: ArrayLike, name: str) -> Floats:
    """``(n, F)`` finite numbers from ``(n,)`` or ``(n, F)``.

    Raises:
        ValueError: a shape that does not fit, nothing in it, or an entry that is no finite number.
    """
    return numbers(_two_dimensional(name, np.asarray(values)), name)


def check_rows(tables: Mapping[str, Any]) -> None:
    """Raise ValueError unless all have as many rows as the first."""
    first, *others = tables
    for name in others:
        if len(tables[name]) != len(tables[first]):
            text = DIFFERENT_ROWS.format(name=name, rows=len(tables[name]), first=first, expected=len(tables[first]))
            raise ValueError(text)


def _table(name: str, values: ArrayLike) -> NDArray[Any]:
    array = np.asarray(values)
    if array.dtype == object:
        _refuse(pd.isna(array), MISSING, name, array)
        numeric = all(isinstance(value, (bool, int, float, np.number, np.bool_)) for value in array.ravel())
        array = array.astype(np.float64) if numeric and array.size else array.astype(str)
    table = _two_dimensional(name, array)
    if table.dtype.kind == "f":
        _refuse(np.isnan(table), MISSING, name, table)
        _refuse(table != np.floor(table), NOT_CATEGORIES, name, table)
    return table


def _two_dimensional(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim not in (1, 2):
        raise ValueError(BAD_SHAPE.format(name=name, shape=array.shape))
    if array.size == 0:
        raise ValueError(EMPTY.format(name=name))
    return array.reshape(len(array), -1)


def _refuse(wrong: NDArray[np.bool_], text: str, name: str, array: NDArray[Any]) -> None:
    if wrong.any():
        place = np.argwhere(wrong)[0]
        raise ValueError(text.format(name=name, row=int(place[0]), value=array[tuple(place)]))
