"""Counterfactual bias amplification: A->T with two steps of a sweep in place of observed groups.

Both steps have the same photos, so every difference between them is caused by the edit. For observed groups see
``directional``, for slopes over all steps ``slopes``.
"""

from collections.abc import Hashable, Mapping

import numpy as np
import pandas as pd

from pipeline.statistics.amplification.counts import Resamples
from pipeline.statistics.amplification.directional import DEFINED, TIE
from pipeline.statistics.inference import RESAMPLES, interval
from pipeline.statistics.photo_slopes import units_of
from pipeline.statistics.sweeps import Sweeps

NOT_IN_BASE = "not in the base"
NO_PHOTOS = "no photo with a complete sweep"
OVERALL = ""  # task of the row with the mean over all tasks
BAD_VALUES = "values must be two steps of the sweep, the lower first, not {given}; its steps are {steps}"
UNKNOWN_LABEL = "tasks has the label {label!r}, which {adapter!r} never returned"
BAD_SIGN = "the sign of {task!r} must be -1, 0 or 1, not {sign}"
COUNTERFACTUAL_COLUMNS = (
    *("adapter", "attribute", "arm", "task", "labels", "photos", "value_low", "value_high"),
    *("rate_low", "rate_high", "sign", "amplification", "low", "high", "reason"),
)
BLOCK_CELLS = 2_000_000


def counterfactual_amplification(
    sweeps: Sweeps,
    *,
    signs: Mapping[str, int],
    tasks: Mapping[str, str] | None = None,
    values: tuple[float, float] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    level: float = 0.95,
    clusters: Mapping[str, Hashable] | None = None,
) -> pd.DataFrame:
    """BiasAmp_A->T with ``do(A = a)`` in place of the observed group.

    The two groups are the same photos at the lower and at the higher value:

        D_at = P(That_t = 1 | do(a)) - P(T_t = 1),    value = mean over a and t of y_at D_at,

    as in Wang & Russakovsky 2021 (Eq. 2-3), where P(T_t = 1 | A_a) is P(T_t = 1) at both values, because an edit does
    not change a photo's true task. The task's own rate cancels between the groups (their y are opposite), so no labels
    of the photos are needed, and the value of a task is half of ``y_t (P(That | do high) - P(That | do low))``.

    For the same reason the photos cannot give the sign: task and attribute are independent in them, a tie. The signs
    are those of a base: a training set, the observed attributes and tasks of the photos, or labour statistics
    (``signs``). A positive value means that changing the attribute alone moves the predictions in the direction of the
    association in the base.

    The interval is a percentile bootstrap over photos; the base is fixed.

    Args:
        sweeps: the responses; for scores, the mean score takes the place of a rate.
        signs: task -> +1 where the base associates it with the attribute's higher pole, -1 with the lower, 0 for a tie.
            Other tasks are NaN and do not enter the mean.
        tasks: label -> task; a task is predicted where any of its labels is present (for scores: their largest). Other
            labels are left out. By default every label is its own task.
        values: the two values a, by default the ends of the sweep. Faces of photos lie within |a| <= 1.
        resamples, seed, level: as for ``attribute_to_task``.
        clusters: photo -> cluster; clusters are then resampled.

    Returns:
        A row with the mean over the tasks of the base (task empty), then a row per task, with
        ``COUNTERFACTUAL_COLUMNS``; NaN for tasks that are not in the base. ``rate_low`` and ``rate_high`` are
        P(That | do(a)) at the two values; ``reason`` says why a task is NaN or counts as 0.

    Raises:
        ValueError: values that are not two steps, a label that was never returned, an invalid sign, a photo without a
            cluster, or an option out of range.
    """
    steps = _steps(sweeps, values)
    members = _members(sweeps, tasks)
    names = tuple(members)
    for task, given in signs.items():
        if given not in (-1, 0, 1):
            raise ValueError(BAD_SIGN.format(task=task, sign=given))
    known = np.array([name in signs for name in names], dtype=bool)
    sign = np.array([signs.get(name, 0) for name in names], dtype=np.int8)
    photos = len(sweeps.photos)
    drawn = Resamples.of(units_of(sweeps, clusters), resamples=resamples, seed=seed, level=level)
    sizes = drawn.sums(np.ones((photos, 1), dtype=np.int8))
    rates = np.full((len(names), 2), np.nan)
    low, high = np.full((2, len(names)), np.nan)
    total = np.zeros(len(drawn))
    size = max(1, BLOCK_CELLS // max(photos, 1))
    for rows in np.split(np.arange(len(names)), range(size, len(names), size)) if photos else ():
        responses = np.stack([sweeps.block(members[names[row]]).max(axis=0)[list(steps)] for row in rows])
        rates[rows] = responses.mean(axis=2)
        halves = drawn.sums((responses[:, 1] - responses[:, 0]).T) * (sign[rows, None] / 2) / sizes
        low[rows], high[rows] = interval(halves, level, units=len(drawn.units))
        total += halves[known[rows]].sum(axis=0)
    amplification = np.where(known, sign * (rates[:, 1] - rates[:, 0]) / 2, np.nan)
    defined = ~np.isnan(amplification)
    count = np.count_nonzero(defined)
    ends = interval((total / count)[None], level, units=len(drawn.units)) if count else np.full((2, 1), np.nan)
    reason = np.select([~known, np.isnan(rates[:, 0]), sign == 0], [NOT_IN_BASE, NO_PHOTOS, TIE], DEFINED)
    columns = {
        "task": [OVERALL, *names],
        "labels": ["", *(" + ".join(sweeps.labels[row] for row in members[name]) for name in names)],
        "rate_low": [np.nan, *rates[:, 0]],
        "rate_high": [np.nan, *rates[:, 1]],
        "sign": [0, *sign],
        "amplification": [amplification[defined].mean() if count else np.nan, *amplification],
        "low": [ends[0][0], *np.where(defined, low, np.nan)],
        "high": [ends[1][0], *np.where(defined, high, np.nan)],
        "reason": ["", *reason.tolist()],
    }
    own = {name: getattr(sweeps, name) for name in ("adapter", "attribute", "arm")} | {"photos": photos}
    own |= {"value_low": float(sweeps.values[steps[0]]), "value_high": float(sweeps.values[steps[1]])}
    return pd.DataFrame(columns).assign(**own)[list(COUNTERFACTUAL_COLUMNS)]


def _steps(sweeps: Sweeps, values: tuple[float, float] | None) -> tuple[int, int]:
    """Steps of two values in the sweep, by default its ends."""
    if values is None:
        return 0, len(sweeps.values) - 1
    steps = [np.flatnonzero(np.isclose(sweeps.values, value, rtol=0, atol=1e-6)) for value in values]
    if len(values) != 2 or any(len(step) == 0 for step in steps) or values[0] >= values[1]:
        given, known = (", ".join(f"{value:g}" for value in each) for each in (values, sweeps.values))
        raise ValueError(BAD_VALUES.format(given=given, steps=known))
    return int(steps[0][0]), int(steps[1][0])


def _members(sweeps: Sweeps, tasks: Mapping[str, str] | None) -> dict[str, list[int]]:
    """Task -> rows of its labels, both in the order of the sweeps' labels."""
    if tasks is None:
        return {label: [row] for row, label in enumerate(sweeps.labels)}
    returned = set(sweeps.labels)
    for label in tasks:
        if label not in returned:
            raise ValueError(UNKNOWN_LABEL.format(label=label, adapter=sweeps.adapter))
    members: dict[str, list[int]] = {}
    for row, label in enumerate(sweeps.labels):
        if label in tasks:
            members.setdefault(tasks[label], []).append(row)
    return members
