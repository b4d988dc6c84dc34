"""Checks of labels, predictions, scores and options: shapes, values, names and matching rows.

Counting is in ``amplification.counts``.
"""

from collections.abc import Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]

NOT_TABLE = "{name} must have the shape (rows, columns), but has {shape}"
BAD_SHAPE = "{name} must have the shape (n,) or (n, C), but has {shape}"
EMPTY = "{name} is empty: its shape is {shape}"
NOT_NUMBERS = "{name} must hold numbers, but holds {kind}"
MISSING = "column {column} of {name} has no value in row {row}, counting from 0"
NOT_FINITE = "column {column} of {name} must hold finite numbers, but has {value:g} in row {row}, counting from 0"
NOT_BINARY = "column {column} of {name} must hold 0 and 1, but has {value:g} in row {row}, counting from 0"
NOT_SHARE = "column {column} of {name} must lie in 0-1, but has {value:g} in row {row}, counting from 0"
OTHER_ROWS = "{name} must have {wanted} rows, as the labels have, not {rows}"
OTHER_COLUMNS = "{name} must have {wanted} columns, not {columns}"
OTHER_INDEX = "the index of {name} does not match that of {first}: give both the same index, or pass arrays"
OTHER_NAMES = "the columns of {name} are {given}, but those of {first} are {wanted}: use the same names, or pass arrays"
BAD_NAMES = "the names of {name} must be {wanted} distinct names, not {given}"

MISSING_CATEGORY = "{name} has a missing value in row {row}, counting from 0"
NOT_CATEGORIES = "{name} holds {value} in row {row} (counting from 0), which is not a category: pass labels, not scores"
MIXED = "{name} holds {kind}, but {first} holds {other}: use the same labels in both"
DIFFERENT = "{name} has {size} {what}, but {first} has {expected}"

BAD_LEVEL = "{name} must lie between 0 and 1, not {value}"
BAD_COUNT = "{name} must be a whole number of {least} or more, not {value!r}"
UNKNOWN = "{name} must be one of {known}, not {value!r}"
BAD_CLUSTERS = "clusters must name one cluster for each of {rows} rows, not {given}"
NO_CLUSTER = "clusters has no cluster for row {row}, counting from 0"

# Tables of numbers


def binary(values: ArrayLike, name: str, *, rows: int | None = None, columns: int | None = None) -> NDArray[np.int8]:
    """Return an array or frame of 0 and 1 as int8 ``(rows, columns)``.

    Args:
        values: the table to check.
        name: name of the argument, for error messages.
        rows, columns: required size; any size by default.

    Raises:
        ValueError: wrong shape, empty, or missing or other values; the message names the column.
    """
    table = _table(values, name, rows=rows, columns=columns)
    _refuse(NOT_BINARY, table, (table != 0) & (table != 1), values, name)
    return table.astype(np.int8, copy=False)


def shares(values: ArrayLike, name: str, *, rows: int | None = None, columns: int | None = None) -> NDArray[Any]:
    """Return predictions in 0-1: int8 if all are 0 or 1, else float64. Arguments and errors as for ``binary``."""
    table = _table(values, name, rows=rows, columns=columns)
    if ((table == 0) | (table == 1)).all():
        return table.astype(np.int8, copy=False)
    _refuse(NOT_SHARE, table, ~((table >= 0) & (table <= 1)), values, name)
    return table.astype(np.float64, copy=False)


def numbers(values: ArrayLike, name: str, *, columns: int | None = None) -> Floats:
    """Return finite numbers, such as scores. Arguments and errors as for ``binary``."""
    table = _table(values, name, rows=None, columns=columns).astype(np.float64)
    _refuse(NOT_FINITE, table, np.isinf(table), values, name)
    return table


def scores(values: ArrayLike, name: str) -> Floats:
    """Return ``(n,)`` or ``(n, F)`` finite numbers as ``(n, F)``. Errors as for ``binary``."""
    return numbers(_two_dimensional(name, np.asarray(values)), name)


def aligned(values: Any, first: Any, name: str, *, to: str, rows: bool = True, columns: bool = False) -> Any:
    """Reorder the rows, columns or both of ``values`` to match ``first``.

    Arrays are returned unchanged. Frames and series are matched by index. Columns of two frames are matched by name,
    or by position if they have no name in common.

    Args:
        values, first: the table to reorder, and the one that defines the order.
        name, to: names of the two for error messages.
        rows, columns: whether to match rows and columns; columns must mean the same in both.

    Raises:
        ValueError: different rows, or column names that agree only in part.
    """
    index, wanted = getattr(values, "index", None), getattr(first, "index", None)
    if rows and isinstance(index, pd.Index) and isinstance(wanted, pd.Index) and not index.equals(wanted):
        if len(index) != len(wanted):
            return values  # the caller's own check of the number of rows has the better message
        if not (index.is_unique and wanted.is_unique and index.isin(wanted).all()):
            raise ValueError(OTHER_INDEX.format(name=name, first=to))
        values = values.loc[wanted]
    if columns and isinstance(values, pd.DataFrame) and isinstance(first, pd.DataFrame):
        given, names = [list(map(str, frame.columns)) for frame in (values, first)]
        if given != names and set(given) & set(names):
            if sorted(given) != sorted(names) or len(set(given)) < len(given):
                words = {"given": ", ".join(given), "wanted": ", ".join(names)}
                raise ValueError(OTHER_NAMES.format(name=name, first=to, **words))
            values = values.iloc[:, [given.index(column) for column in names]]
    return values


def names_of(values: ArrayLike, names: Sequence[str] | None, name: str) -> tuple[str, ...]:
    """Return the names of the columns of ``values``: ``names`` if given, else a frame's own, else numbers from 0.

    Raises:
        ValueError: not a table, or names that are repeated or do not match the number of columns.
    """
    shape = np.shape(values)
    if len(shape) != 2:
        raise ValueError(NOT_TABLE.format(name=name, shape=shape))
    given = getattr(values, "columns", range(shape[1])) if names is None else names
    chosen = tuple(str(part) for part in given)
    if len(chosen) != shape[1] or len(set(chosen)) != shape[1]:
        raise ValueError(BAD_NAMES.format(name=name, wanted=shape[1], given=", ".join(map(repr, chosen))))
    return chosen


# Categories


@dataclass(frozen=True, eq=False)
class Categories:
    """``n`` rows of ``C`` categorical columns."""

    codes: Codes  # (n, C) index of each entry in its column's names
    names: tuple[NDArray[Any], ...]  # sorted categories of each column; a column of 0s or 1s only still has both

    def __len__(self) -> int:
        return len(self.codes)

    @property
    def sizes(self) -> tuple[int, ...]:
        """Number of categories of each column."""
        return tuple(len(names) for names in self.names)

    def features(self) -> Floats:
        """Return ``(n, F)`` features for an attacker: columns of two categories as 0 and 1, others one-hot."""
        parts = [
            self.codes[:, [column]] if size <= 2 else self.codes[:, [column]] == np.arange(size)
            for column, size in enumerate(self.sizes)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def with_codes(self, codes: Codes) -> "Categories":
        """Return the same columns with other entries."""
        return Categories(codes, self.names)

    def take(self, rows: Codes) -> "Categories":
        """Return the rows at these positions."""
        return self.with_codes(self.codes[rows])

    def joint(self) -> Codes:
        """Return ``(n,)`` codes of the distinct rows, see ``row_numbers``."""
        return row_numbers(self.codes)


def categories(**arrays: ArrayLike) -> tuple[Categories, ...]:
    """Encode labels that share their categories, such as a task and its predictions, with the rows of the first.

    Args:
        arrays: name -> ``(n,)`` or ``(n, C)`` numbers, booleans or text, all of the same shape.

    Raises:
        ValueError: wrong shape, empty, missing values, fractions, text in one and numbers in another, or rows that
            cannot be matched; the message names the argument.
    """
    first = next(iter(arrays))
    ordered = {name: aligned(values, arrays[first], name, to=first) for name, values in arrays.items()}
    tables = {name: _labels(name, values) for name, values in ordered.items()}
    check_rows(tables)
    for name, table in tables.items():
        if table.shape[1] != tables[first].shape[1]:
            sizes = {"size": table.shape[1], "what": "columns", "expected": tables[first].shape[1]}
            raise ValueError(DIFFERENT.format(name=name, first=first, **sizes))
        kinds = ["text" if part.dtype.kind in "US" else "numbers" for part in (table, tables[first])]
        if kinds[0] != kinds[1]:
            raise ValueError(MIXED.format(name=name, kind=kinds[0], first=first, other=kinds[1]))
    names, columns = [], []
    for column in np.concatenate(list(tables.values())).T:
        known, codes = np.unique(column, return_inverse=True)
        if known.dtype.kind in "biuf" and np.isin(known, (0, 1)).all():
            known, codes = np.array([0, 1]), column.astype(np.intp)
        names.append(known)
        columns.append(codes.reshape(-1))
    parts = np.split(np.stack(columns, axis=1).astype(np.intp), len(tables))
    return tuple(Categories(part, tuple(names)) for part in parts)


def row_numbers(table: NDArray[Any]) -> Codes:
    """Number the distinct rows of an ``(n, C)`` table in sorted order: ``(n,)``."""
    column = table[:, 0] if table.shape[1] == 1 else table
    return np.unique(column, axis=0, return_inverse=True)[1].reshape(-1)


def cluster_codes(clusters: Sequence[Hashable], *, rows: int) -> Codes:
    """Number the cluster of each row, ``(n,)``, in order of first appearance.

    Raises:
        ValueError: the number of clusters is not ``rows``, or one is missing.
    """
    if len(clusters) != rows:
        raise ValueError(BAD_CLUSTERS.format(rows=rows, given=len(clusters)))
    codes: Codes = pd.factorize(pd.Series(list(clusters), dtype=object))[0].astype(np.intp)
    if (codes < 0).any():
        raise ValueError(NO_CLUSTER.format(row=int(np.argmax(codes < 0))))
    return codes


# Options: each check raises a ValueError that names the argument


def check_rows(tables: Mapping[str, Any]) -> None:
    """Check that all tables have as many rows as the first."""
    first, *others = tables
    for name in others:
        if len(tables[name]) != len(tables[first]):
            sizes = {"size": len(tables[name]), "what": "rows", "expected": len(tables[first])}
            raise ValueError(DIFFERENT.format(name=name, first=first, **sizes))


def check_level(level: float, name: str = "level") -> None:
    """Check that a probability lies strictly between 0 and 1."""
    if not 0 < level < 1:
        raise ValueError(BAD_LEVEL.format(name=name, value=level))


def check_count(value: Any, name: str, *, least: int = 0) -> None:
    """Check that a number is an integer of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(BAD_COUNT.format(name=name, least=least, value=value))


def check_choice(value: Any, name: str, known: Collection[str]) -> None:
    """Check that a value is one of those known."""
    if value not in known:
        raise ValueError(UNKNOWN.format(name=name, value=value, known=", ".join(known)))


def _table(values: ArrayLike, name: str, *, rows: int | None, columns: int | None) -> NDArray[Any]:
    """Return a table of numbers of the required size, without missing values."""
    table = np.asarray(values)
    if table.ndim != 2:
        raise ValueError(NOT_TABLE.format(name=name, shape=table.shape))
    if rows is not None and len(table) != rows:
        raise ValueError(OTHER_ROWS.format(name=name, wanted=rows, rows=len(table)))
    if columns is not None and table.shape[1] != columns:
        raise ValueError(OTHER_COLUMNS.format(name=name, wanted=columns, columns=table.shape[1]))
    if table.size == 0:
        raise ValueError(EMPTY.format(name=name, shape=table.shape))
    if table.dtype.kind == "O":
        try:
            table = table.astype(np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(NOT_NUMBERS.format(name=name, kind="text or other values")) from error
    if table.dtype.kind not in "biuf":
        raise ValueError(NOT_NUMBERS.format(name=name, kind=f"values of the type {table.dtype}"))
    if table.dtype.kind == "f":
        _refuse(MISSING, table, np.isnan(table), values, name)
    return table


def _labels(name: str, values: ArrayLike) -> NDArray[Any]:
    """Return ``(n, C)`` labels: whole numbers, booleans or text."""
    array = np.asarray(values)
    if array.dtype == object:
        _refuse(MISSING_CATEGORY, array, pd.isna(array), values, name)
        numeric = all(isinstance(value, bool | int | float | np.number | np.bool_) for value in array.ravel())
        array = array.astype(np.float64) if numeric and array.size else array.astype(str)
    table = _two_dimensional(name, array)
    if table.dtype.kind == "f":
        _refuse(MISSING_CATEGORY, table, np.isnan(table), values, name)
        _refuse(NOT_CATEGORIES, table, table != np.floor(table), values, name)
    return table


def _two_dimensional(name: str, array: NDArray[Any]) -> NDArray[Any]:
    if array.ndim not in (1, 2):
        raise ValueError(BAD_SHAPE.format(name=name, shape=array.shape))
    if array.size == 0:
        raise ValueError(EMPTY.format(name=name, shape=array.shape))
    return array.reshape(len(array), -1)


def _refuse(message: str, table: NDArray[Any], wrong: NDArray[np.bool_], values: ArrayLike, name: str) -> None:
    """Raise an error about the first wrong cell, if any; a column of a frame is named."""
    if wrong.any():
        row, *column = map(int, np.argwhere(wrong)[0])
        label = repr(str(values.columns[column[0]])) if hasattr(values, "columns") and column else sum(column)
        raise ValueError(message.format(column=label, name=name, row=row, value=table[(row, *column)]))
