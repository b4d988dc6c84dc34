"""Multi-attribute bias amplification (Zhao, Andrews & Xiang 2023): Multi-> in both directions, and Multi_MALS.

A set of tasks (the paper's "attributes") is present in a row if all of its tasks are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from pipeline.statistics.amplification.counts import (
    DIRECTIONS,
    BootstrapOptions,
    Direction,
    LabelTable,
    Names,
    Resamples,
    name_options,
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
MAX_SETS = 200_000
TOO_MANY_SETS = (
    "more than {most} sets of tasks occur in both train and test: raise min_rows, lower largest, or use the rule 'code'"
)
NO_SETS = "no set of tasks satisfies the rule in both train and test: lower min_rows"
BAD_SET = "a set must hold distinct numbers of tasks from 0 to {last}, not {given}"

# Selection of sets


def task_sets(
    train: tuple[ArrayLike, ArrayLike],
    test: tuple[ArrayLike, ArrayLike],
    *,
    rule: Literal["code", "paper"] = "code",
    smallest: int = 1,
    largest: int | None = None,
    min_rows: int = 1,
) -> Sets:
    """Select the sets of tasks M of Multi->.

    "code": sets that are the full label set of at least ``min_rows`` training rows and are contained in at least as
    many test rows. "paper": every combination of tasks contained in at least ``min_rows`` rows with a group, in train
    and in test. On COCO the first gives about a thousand sets, the second ten times as many.

    Args:
        train, test: attributes ``(m, |A|)`` and tasks ``(m, |T|)`` of each, 0 and 1.
        rule: "code" or "paper".
        smallest, largest: number of tasks in a set; by default without an upper limit.
        min_rows: number of rows of each; the published code's ``thresh`` plus 1.

    Returns:
        sets of column numbers, smaller sets first.

    Raises:
        ValueError: labels that do not match, or more than ``MAX_SETS`` sets.
    """
    check_choice(rule, "rule", RULES)
    check_count(smallest, "smallest", least=1)
    check_count(min_rows, "min_rows", least=1)
    table = LabelTable.of(*train)
    test_groups, test_tasks = table.other(*test, names=("test attributes", "test tasks"))
    limit = table.tasks.shape[1] if largest is None else largest
    if rule == "code":
        full, counts = np.unique(table.tasks, axis=0, return_counts=True)
        candidates = [tuple(np.flatnonzero(row).tolist()) for row in full[counts >= min_rows]]
        candidates = [chosen for chosen in candidates if smallest <= len(chosen) <= limit]
        sets = [chosen for chosen in candidates if np.count_nonzero(test_tasks[:, chosen].all(axis=1)) >= min_rows]
    else:
        with_group = table.tasks[table.attributes.any(axis=1)], test_tasks[test_groups.any(axis=1)]
        sets = [chosen for chosen in _combinations(with_group, limit, min_rows) if len(chosen) >= smallest]
    return tuple(sorted(sets, key=lambda chosen: (len(chosen), chosen)))


def present(tasks: NDArray[np.int8], sets: Sequence[Sequence[int]]) -> NDArray[np.int8]:
    """``(n, |M|)`` 1 where all tasks of a set are present."""
    columns = np.empty((len(sets), len(tasks)), dtype=np.int8)
    for line, tasks_of in zip(columns, sets, strict=True):
        line[:] = tasks[:, tasks_of].all(axis=1)
    return columns.T


def _checked_sets(sets: Sequence[Sequence[int]], tasks: int) -> Sets:
    """Check sets of column numbers below ``tasks``; ValueError if there are none, or one is invalid."""
    chosen = tuple(tuple(int(task) for task in tasks_of) for tasks_of in sets)
    if not chosen:
        raise ValueError(NO_SETS)
    for tasks_of in chosen:
        if not tasks_of or len(set(tasks_of)) < len(tasks_of) or min(tasks_of) < 0 or max(tasks_of) >= tasks:
            raise ValueError(BAD_SET.format(last=tasks - 1, given=tasks_of))
    return chosen


def _combinations(tables: Sequence[NDArray[np.int8]], largest: int, min_rows: int) -> list[tuple[int, ...]]:
    """All sets that at least ``min_rows`` rows of every table contain, by depth-first search; rows are bit sets."""
    rows = [[int.from_bytes(np.packbits(column).tobytes(), "big") for column in table.T] for table in tables]
    found: list[tuple[int, ...]] = []
    open_sets: list[tuple[tuple[int, ...], list[int]]] = [((), [-1] * len(tables))]
    while open_sets:
        chosen, containing = open_sets.pop()
        if len(chosen) == largest:
            continue
        for task in range(chosen[-1] + 1 if chosen else 0, tables[0].shape[1]):
            left = [own[task] & others for own, others in zip(rows, containing, strict=True)]
            if all(part.bit_count() >= min_rows for part in left):
                found.append((*chosen, task))
                open_sets.append((found[-1], left))
                if len(found) > MAX_SETS:
                    raise ValueError(TOO_MANY_SETS.format(most=MAX_SETS))
    return found


# Measures


@dataclass(frozen=True, eq=False)
class MultiAmplification:
    """Multi-attribute amplification overall and by pair of a group and a set of tasks."""

    direction: Direction | Literal["MALS"]  # "A->T" (the paper's G->M), "T->A" (M->G) or "MALS"
    # attributes, sets: names of the groups, and names of the tasks of each set
    attributes: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    value: float  # mean of |delta|; for Multi_MALS their sum / |M|. Never negative, so it cannot show a reduction
    signed: float  # mean of sign times delta (for Multi_MALS the sum / |M|): the published code's other variant
    variance: float  # of delta over all pairs, ddof 0, without signs (the published code)
    oriented_variance: float  # of sign times delta, ddof 0 (the paper's definition of Delta)
    sign: Signs  # (|A|, |M|) of the base; for Multi_MALS 1 where the pair counts
    delta: Floats  # (|A|, |M|); NaN where the condition never holds, 0 where Multi_MALS leaves the pair out
    # delta_low, delta_high: (|A|, |M|) interval of each delta; NaN for Multi_MALS
    delta_low: Floats
    delta_high: Floats
    # low, high: percentile interval of value
    low: float = float("nan")
    high: float = float("nan")
    # the value that sampling noise alone would give: the mean over resamples of |resampled delta - delta|. Absolute
    # values accumulate noise, so a value that is hardly larger is no evidence of amplification
    noise: float = float("nan")
    # signed_low, signed_high: interval of signed
    signed_low: float = float("nan")
    signed_high: float = float("nan")

    def to_frame(self) -> pd.DataFrame:
        """A row per pair, group by group: the columns of ``PAIR_COLUMNS``; tasks joined by " + "."""
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
    **options: Unpack[BootstrapOptions],
) -> MultiAmplification:
    """Multi->: ``1/(|G||M|) sum |Delta_gm|`` over groups g and sets of tasks m.

    "A->T" (G->M): Delta = P(mhat | g) - P(m | g). "T->A" (M->G): Delta = P(ghat | m) - P(g | m). Source: Zhao,
    Andrews & Xiang 2023. Groups should be disjoint. A pair whose condition never holds is NaN and does not enter the
    mean.

    Args:
        direction: "A->T" or "T->A".
        attributes, tasks: labels of the test set, as for ``attribute_to_task``.
        predictions: of the tasks ``(n, |T|)`` or of the groups ``(n, |A|)``, 0 and 1.
        sets: see ``task_sets``.
        train: attributes and tasks of the training set, which give the signs of ``signed``.
        base: ``(|A|, |M|)`` signs instead; by default the test set gives them.
        rule, **options: as for ``attribute_to_task``.

    Raises:
        ValueError: unknown direction, shapes that do not match, values out of range, or no sets.
    """
    check_choice(direction, "direction", DIRECTIONS)
    table = LabelTable.of(attributes, tasks, **name_options(options))
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

    ``bias(m,g) = co(m,g) / sum over g' of co(m,g')``. Source: Zhao, Andrews & Xiang 2023. Their published code uses the
    threshold 1 / (number of groups - 1), which no share of two groups exceeds, so its value is then always 0.

    Args:
        attributes, tasks: labels of the base, as for ``mals``.
        predicted_attributes, predictions: predictions on the test set, 0 and 1.
        sets: see ``task_sets``.
        rows_without_group: "left out", as in the formula, or "first group", as in the published code, which counts them
            as the first group (and a row with several groups as the first of them).
        **names: see ``Names``.

    Raises:
        ValueError: shapes that do not match, values out of range, no sets, or unknown ``rows_without_group``.
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
    unknown = np.full(found.delta.shape, np.nan)
    return MultiAmplification(
        **_of_deltas(table, chosen, counted.astype(np.int8), found.delta),
        direction="MALS",
        value=float(np.nansum(np.abs(found.delta)) / len(chosen)),
        signed=found.value,
        delta_low=unknown,
        delta_high=unknown,
    )


def _of_deltas(table: LabelTable, sets: Sets, sign: Signs, delta: Floats) -> dict[str, Any]:
    """The fields of a ``MultiAmplification`` that are the same for both measures."""
    names = tuple(tuple(table.task_names[task] for task in tasks_of) for tasks_of in sets)
    known = (~np.isnan(delta)).any()
    variances = [float(np.nanvar(part)) if known else float("nan") for part in (delta, sign * delta)]
    fields = {"attributes": table.attribute_names, "sets": names, "sign": sign, "delta": delta}
    return fields | {"variance": variances[0], "oriented_variance": variances[1]}
