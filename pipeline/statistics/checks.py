"""Arrays of labels and predictions, one row a photo and one column a group or a task: are they what they should be?

Only checked and narrowed here; what is counted in them is ``counts``'.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

NOT_TABLE = "{name} must have the shape (rows, columns), but has {shape}"
EMPTY = "{name} is empty: its shape is {shape}"
NOT_NUMBERS = "{name} must hold numbers, but holds {kind}"
MISSING = "column {column} of {name} has no value in row {row}, counting from 0"
NOT_FINITE = "column {column} of {name} must hold finite numbers, but has {value:g} in row {row}, counting from 0"
NOT_BINARY = "column {column} of {name} must hold 0 and 1, but has {value:g} in row {row}, counting from 0"
NOT_SHARE = "column {column} of {name} must lie in 0-1, but has {value:g} in row {row}, counting from 0"
OTHER_ROWS = "{name} must have {wanted} rows, as the labels have, not {rows}"
OTHER_COLUMNS = "{name} must have {wanted} columns, not {columns}"
BAD_NAMES = "the names of {name} must be {wanted} different ones, not {given}"


def binary(values: ArrayLike, name: str, *, rows: int | None = None, columns: int | None = None) -> NDArray[np.int8]:
    """0 and 1, ``(rows, columns)``.

    Args:
        values: an array or a frame.
        name: of the argument, for the error.
        rows, columns: how many there must be.

    Raises:
        ValueError: another shape, nothing at all, missing or other values; the column is named.
    """
    table = _table(values, name, rows=rows, columns=columns)
    wrong = (table != 0) & (table != 1)
    if wrong.any():
        _refuse(NOT_BINARY, table, wrong, values, name)
    return table.astype(np.int8, copy=False)


def shares(values: ArrayLike, name: str, *, rows: int | None = None, columns: int | None = None) -> NDArray[Any]:
    """Predictions in 0-1: int8 where all are 0 or 1, else float64. Arguments and errors as for ``binary``."""
    table = _table(values, name, rows=rows, columns=columns)
    if ((table == 0) | (table == 1)).all():
        return table.astype(np.int8, copy=False)
    wrong = ~((table >= 0) & (table <= 1))
    if wrong.any():
        _refuse(NOT_SHARE, table, wrong, values, name)
    return table.astype(np.float64, copy=False)


def numbers(values: ArrayLike, name: str, *, columns: int | None = None) -> NDArray[np.float64]:
    """Any finite numbers, such as scores. Arguments and errors as for ``binary``."""
    table = _table(values, name, rows=None, columns=columns).astype(np.float64)
    if np.isinf(table).any():
        _refuse(NOT_FINITE, table, np.isinf(table), values, name)
    return table


def names_of(values: ArrayLike, names: Sequence[str] | None, name: str) -> tuple[str, ...]:
    """The names given, or a frame's own, or numbers from 0, for the columns of ``values``.

    Raises:
        ValueError: no table, another number of names than of columns, or one twice.
    """
    shape = np.shape(values)
    if len(shape) != 2:
        raise ValueError(NOT_TABLE.format(name=name, shape=shape))
    columns = shape[1]
    given = getattr(values, "columns", range(columns)) if names is None else names
    chosen = tuple(str(part) for part in given)
    if len(chosen) != columns or len(set(chosen)) != columns:
        raise ValueError(BAD_NAMES.format(name=name, wanted=columns, given=", ".join(map(repr, chosen))))
    return chosen


def _table(values: ArrayLike, name: str, *, rows: int | None, columns: int | None) -> NDArray[Any]:
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
            raise ValueError(NOT_NUMBERS.format(name=name, kind="text or other things")) from error
    if table.dtype.kind not in "biuf":
        raise ValueError(NOT_NUMBERS.format(name=name, kind=f"values of the type {table.dtype}"))
    if table.dtype.kind == "f" and np.isnan(table).any():
        _refuse(MISSING, table, np.isnan(table), values, name)
    return table


def _refuse(message: str, table: NDArray[Any], wrong: NDArray[np.bool_], values: ArrayLike, name: str) -> None:
    """The error about the first wrong cell, counting from 0, by its column's name in a frame."""
    row, column = (int(place[0]) for place in np.nonzero(wrong))
    named = repr(str(values.columns[column])) if hasattr(values, "columns") else column
    raise ValueError(message.format(column=named, name=name, row=row, value=float(table[row, column])))
