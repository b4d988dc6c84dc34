"""Multi-attribute bias amplification (Zhao, Andrews & Xiang 2023): Multi-> in both directions, and Multi_MALS.

A set of tasks (the paper's "attributes") is present where all of its tasks are, whatever else is; differences and
counts are those of ``directional`` and ``mals``.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import (
    DIRECTIONS,
    Direction,
    Drawing,
    LabelTable,
    Names,
    Resamples,
    names_in,
    pairs_frame,
)
from pipeline.statistics.amplification.directional import Train, base_signs, differences, interval_of_mean
from pipeline.statistics.amplification.mals import PREDICTIONS, mals
from pipeline.statistics.amplification.signs import CODE, SignRule, Signs, mean_of_pairs
from pipeline.statistics.arrays import Floats, binary, check_choice, check_count
from pipeline.statistics.inference import interval

Sets = tuple[tuple[int, ...], ...]

PAIR_COLUMNS = ("direction", "attribute", "tasks", "size", "sign", "delta", "delta_low", "delta_high")
WITHOUT_GROUP = ("left out", "first group")
RULES = ("code", "paper")
MOST_SETS = 200_000
TOO_MANY_SETS = (
    "more than {most} sets of tasks occur in both train and test: raise min_rows or limit largest, "
    "or choose sets by their full label sets (rule 'code')"
)
NO_SETS = "no set of tasks fits the rule: train and test share none"
BAD_SET = "a set must hold different numbers of tasks from 0 to {last}, not {given}"

# Which sets are looked at


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


def _checked_sets(sets: Sequence[Sequence[int]], tasks: int) -> Sets:
    """Sets from outside, of ``tasks`` tasks; ValueError unless there are some, of different tasks that there are."""
    chosen = tuple(tuple(int(task) for task in tasks_of) for tasks_of in sets)
    if not chosen:
        raise ValueError(NO_SETS)
    for tasks_of in chosen:
        if not tasks_of or len(set(tasks_of)) < len(tasks_of) or min(tasks_of) < 0 or max(tasks_of) >= tasks:
            raise ValueError(BAD_SET.format(last=tasks - 1, given=tasks_of))
    return chosen


def _combinations(tables: Sequence[NDArray[np.int8]], largest: int, min_rows: int) -> list[tuple[int, ...]]:
    """Every set that enough rows of every table contain: depth first, only along sets that still do."""
    rows = [[int.from_bytes(np.packbits(column).tobytes(), "big") for column in table.T] for table in tables]
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


# What is measured on them


@dataclass(frozen=True, eq=False)
class MultiAmplification:
    """Multi-attribute amplification as a whole and by pair of a group and a set of tasks."""

    direction: Direction | Literal["MALS"]  # "A->T" (the paper's G->M), "T->A" (M->G) or "MALS"
    # attributes, sets: names of the groups, and names of the tasks of each set
    attributes: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    value: float  # mean of |delta|; of Multi_MALS their sum over |M|. Never negative, so it cannot show a reduction
    signed: float  # mean of sign times delta (of Multi_MALS the plain sum over |M|): the published code's other variant
    variance: float  # of delta over all pairs, ddof 0, signs not applied (the published code)
    oriented_variance: float  # of sign times delta, ddof 0 (as the paper's Delta is defined)
    sign: Signs  # (|A|, |M|) of the base; of Multi_MALS 1 where the pair counts
    delta: Floats  # (|A|, |M|); NaN where nothing is given, 0 where Multi_MALS leaves the pair out
    # delta_low, delta_high: (|A|, |M|) ends of each delta's interval; NaN for Multi_MALS
    delta_low: Floats
    delta_high: Floats
    # low, high: ends of the percentile interval of value
    low: float = float("nan")
    high: float = float("nan")
    # the value that sampling noise alone would give, the mean over resamples of |delta drawn - delta|: |.| adds noise
    # up instead of averaging it out, so a value that is hardly larger is no evidence of anything
    noise: float = float("nan")
    # signed_low, signed_high: ends of its interval
    signed_low: float = float("nan")
    signed_high: float = float("nan")

    def to_frame(self) -> pd.DataFrame:
        """One row a pair, group after group: the columns of ``PAIR_COLUMNS``; tasks joined by " + "."""
        columns = {name: vars(self)[name] for name in ("direction", "sign", "delta", "delta_low", "delta_high")}
        columns["size"] = [len(names) for names in self.sets] * len(self.attributes)
        frame = pairs_frame(self.attributes, [" + ".join(names) for names in self.sets], columns)
        return frame.rename(columns={"task": "tasks"})[list(PAIR_COLUMNS)]


def multi_amplification(
    direction: Direction,
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predictions: ArrayLike,
    sets: Sequence[Sequence[int]],
    train: Train = None,
    base: ArrayLike | None = None,
    rule: SignRule = CODE,
    **options: Unpack[Drawing],
) -> MultiAmplification:
    """Multi->: ``1/(|G||M|) sum |Delta_gm|`` over groups g and sets of tasks m.

    "A->T" (G->M): Delta = P(mhat | g) - P(m | g). "T->A" (M->G): Delta = P(ghat | m) - P(g | m). Source: Zhao,
    Andrews & Xiang 2023. Groups are meant to be disjoint. A pair where nothing is given is NaN and leaves the mean.

    Args:
        direction: "A->T" or "T->A".
        attributes, tasks: labels of the test set, as for ``attribute_to_task``.
        predictions: of the tasks ``(n, |T|)`` or of the groups ``(n, |A|)``, 0 and 1.
        sets: as ``task_sets`` gives them.
        train: attributes and tasks of the training set; their signs count in ``signed``.
        base: ``(|A|, |M|)`` signs instead; the test set's without either.
        rule, **options: as for ``attribute_to_task``.

    Raises:
        ValueError: another direction, shapes that do not fit, values that cannot be, no sets.
    """
    check_choice(direction, "direction", DIRECTIONS)
    table = LabelTable.of(attributes, tasks, **names_in(options))
    chosen = _checked_sets(sets, len(table.task_names))
    predicted = binary(table.predicted(predictions, direction), "predictions")
    predicted = present(predicted, chosen) if direction == "A->T" else predicted
    drawn = Resamples.of_rows(len(table.tasks), options)
    sign, sign_drawn = base_signs(
        table, drawn, train=train, base=base, rule=rule, columns=lambda labels: present(labels, chosen)
    )
    pairs = differences(direction, table.attributes, present(table.tasks, chosen), predicted, drawn)
    low, high = interval_of_mean(np.abs(pairs.samples), pairs, drawn, rule)
    signed_low, signed_high = interval_of_mean(sign_drawn * pairs.samples, pairs, drawn, rule)
    delta_low, delta_high = interval(pairs.samples, drawn.level, units=pairs.units)
    noise = mean_of_pairs(np.abs(pairs.samples - pairs.delta[:, :, None]), rule)
    return MultiAmplification(
        **_of_deltas(table, chosen, sign, pairs.delta),
        direction=direction,
        value=float(mean_of_pairs(np.abs(pairs.delta), rule)),
        low=low,
        high=high,
        noise=float(np.nanmean(noise)) if (~np.isnan(noise)).any() else float("nan"),
        signed=float(mean_of_pairs(sign * pairs.delta, rule)),
        signed_low=signed_low,
        signed_high=signed_high,
        delta_low=delta_low,
        delta_high=delta_high,
    )


def multi_mals(
    attributes: ArrayLike,
    tasks: ArrayLike,
    *,
    predicted_attributes: ArrayLike,
    predictions: ArrayLike,
    sets: Sequence[Sequence[int]],
    rows_without_group: Literal["left out", "first group"] = "left out",
    **names: Unpack[Names],
) -> MultiAmplification:
    """Multi_MALS: ``1/|M| sum |1[bias_train(m,g) > 1/|G|] (bias_pred(m,g) - bias_train(m,g))|``, without intervals.

    ``bias(m,g) = co(m,g) / sum over g' of co(m,g')``. Source: Zhao, Andrews & Xiang 2023. Their published code compares
    with 1 / (number of groups - 1) as it is called, which for two groups no share exceeds: its value is 0 for any data.

    Args:
        attributes, tasks: labels of the base, as for ``mals``.
        predicted_attributes, predictions: predictions on the test set, 0 and 1.
        sets: as ``task_sets`` gives them.
        rows_without_group: "left out", as the formula has it, or counted as the "first group", as the published code
            does (a row with several groups is then of the first of them).
        **names: attribute_names, task_names; a frame's own, or numbers, unless given.

    Raises:
        ValueError: shapes that do not fit, values that cannot be, no sets, another word for ``rows_without_group``.
    """
    check_choice(rows_without_group, "rows_without_group", WITHOUT_GROUP)
    table = LabelTable.of(attributes, tasks, **names)
    a, (a_hat, t_hat) = table.attributes, table.other(predicted_attributes, predictions, names=PREDICTIONS)
    if rows_without_group == "first group":
        a, a_hat = (np.eye(a.shape[1], dtype=np.int8)[groups.argmax(axis=1)] for groups in (a, a_hat))
    chosen = _checked_sets(sets, len(table.task_names))
    sets_of = present(t_hat, chosen)
    found = mals(a, present(table.tasks, chosen), predicted_attributes=a_hat, predictions=sets_of, resamples=0)
    counted = found.base_count * a.shape[1] > found.base_count.sum(axis=0)
    nothing = np.full(found.delta.shape, np.nan)
    return MultiAmplification(
        **_of_deltas(table, chosen, counted.astype(np.int8), found.delta),
        direction="MALS",
        value=float(np.nansum(np.abs(found.delta)) / len(chosen)),
        signed=found.value,
        delta_low=nothing,
        delta_high=nothing,
    )


def _of_deltas(table: LabelTable, sets: Sets, sign: Signs, delta: Floats) -> dict[str, Any]:
    """The fields of a ``MultiAmplification`` that both measures make alike."""
    names = tuple(tuple(table.task_names[task] for task in tasks_of) for tasks_of in sets)
    known = (~np.isnan(delta)).any()
    variances = [float(np.nanvar(part)) if known else float("nan") for part in (delta, sign * delta)]
    fields = {"attributes": table.attribute_names, "sets": names, "sign": sign, "delta": delta}
    return fields | {"variance": variances[0], "oriented_variance": variances[1]}
