"""Sets of tasks, for multi-attribute amplification: which are looked at, and in which rows each is present.

A set is present where all of its tasks are, whatever else is. What is measured on the sets is ``multi_attribute``'s.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import LabelTable
from pipeline.statistics.arrays import check_choice, check_count

Sets = tuple[tuple[int, ...], ...]

MOST_SETS = 200_000
TOO_MANY_SETS = (
    "more than {most} sets of tasks occur in both train and test: raise min_rows or limit largest, "
    "or choose sets by their full label sets (rule 'code')"
)
NO_SETS = "no set of tasks fits the rule: train and test share none"
RULES = ("code", "paper")
BAD_SET = "a set must hold different numbers of tasks from 0 to {last}, not {given}"


def task_sets(
    train: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    *,
    rule: Literal["code", "paper"] = "code",
    smallest: int = 1,
    largest: int | None = None,
    min_rows: int = 1,
) -> Sets:
    """The sets of tasks M that are looked at; a number of Multi-> says which rule it used.

    "code": sets that are the full label set of ``min_rows`` training rows or more, and that as many test rows contain.
    "paper": every combination of tasks that as many rows with a group contain, in train and in test. On COCO the first
    gives about a thousand sets, the second ten times as many.

    Args:
        train, test: attributes ``(m, |A|)`` and tasks ``(m, |T|)`` of each, 0 and 1.
        rule: as above.
        smallest, largest: tasks in a set; no upper limit unless given.
        min_rows: rows of each; the published code's ``thresh`` plus 1.

    Returns:
        sets of column numbers, the smaller first.

    Raises:
        ValueError: labels that do not fit, or more than ``MOST_SETS`` sets.
    """
    check_choice(rule, "rule", RULES)
    check_count(smallest, "smallest", least=1)
    check_count(min_rows, "min_rows", least=1)
    table = LabelTable.of(*train)
    found_in = table.other(*test, names=("test attributes", "test tasks"))
    grouped, tasks = (table.attributes, found_in[0]), (table.tasks, found_in[1])
    most = tasks[0].shape[1] if largest is None else largest
    if rule == "code":
        full, counts = np.unique(tasks[0], axis=0, return_counts=True)
        candidates = [tuple(np.flatnonzero(row).tolist()) for row in full[counts >= min_rows]]
        fitting = [chosen for chosen in candidates if smallest <= len(chosen) <= most]
        found = [chosen for chosen in fitting if np.count_nonzero(tasks[1][:, chosen].all(axis=1)) >= min_rows]
    else:
        with_group = [labels[groups.any(axis=1)] for labels, groups in zip(tasks, grouped, strict=True)]
        found = [chosen for chosen in _combinations(with_group, most, min_rows) if len(chosen) >= smallest]
    return tuple(sorted(found, key=lambda chosen: (len(chosen), chosen)))


def present(tasks: NDArray[np.int8], sets: Sequence[Sequence[int]]) -> NDArray[np.int8]:
    """``(n, |M|)`` 1 where all tasks of a set are."""
    columns = np.empty((len(sets), len(tasks)), dtype=np.int8)
    for line, tasks_of in zip(columns, sets, strict=True):
        line[:] = tasks[:, tasks_of].all(axis=1)
    return columns.T


def checked_sets(sets: Sequence[Sequence[int]], tasks: int) -> Sets:
    """Sets from outside, of ``tasks`` tasks.

    Raises:
        ValueError: there are none, or one that is empty or names another task.
    """
    chosen = tuple(tuple(int(task) for task in tasks_of) for tasks_of in sets)
    if not chosen:
        raise ValueError(NO_SETS)
    for tasks_of in chosen:
        if not tasks_of or len(set(tasks_of)) < len(tasks_of) or min(tasks_of) < 0 or max(tasks_of) >= tasks:
            raise ValueError(BAD_SET.format(last=tasks - 1, given=tasks_of))
    return chosen


def _combinations(tables: Sequence[NDArray[np.int8]], largest: int, min_rows: int) -> list[tuple[int, ...]]:
    """Every set that enough rows of every table contain: depth first, only along sets that still do."""
    rows = [[_bits(column) for column in table.T] for table in tables]
    found: list[tuple[int, ...]] = []
    open_sets: list[tuple[tuple[int, ...], list[int]]] = [((), [-1] * len(tables))]
    while open_sets:
        chosen, holding = open_sets.pop()
        if len(chosen) == largest:
            continue
        for task in range(chosen[-1] + 1 if chosen else 0, tables[0].shape[1]):
            left = [own[task] & others for own, others in zip(rows, holding, strict=True)]
            if all(part.bit_count() >= min_rows for part in left):
                found.append((*chosen, task))
                open_sets.append((found[-1], left))
                if len(found) > MOST_SETS:
                    raise ValueError(TOO_MANY_SETS.format(most=MOST_SETS))
    return found


def _bits(column: NDArray[np.int8]) -> int:
    return int.from_bytes(np.packbits(column).tobytes(), "big")
