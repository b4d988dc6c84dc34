"""Slopes of placebos next to those of the edits, and the differences on the same photos."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.config.attributes import EDIT_ARM, attribute_of
from pipeline.statistics.comparison import compare
from pipeline.statistics.multiplicity import family_names, within
from pipeline.statistics.sweeps import Sweeps

COLOUR = "colour"
KEYS = ["adapter", "attribute", "label"]
OWN = ("slope", "q")
DIFFERENCES = ("difference", "difference_low", "difference_high", "difference_p", "difference_q")
NET_COLUMNS = ("placebo", "net_slope", "net_low", "net_high", "exceeds_placebos")


def with_placebos(
    frame: pd.DataFrame,
    sweeps: Sequence[Sweeps],
    *,
    family: Sequence[str] = (),
    **options: Any,
) -> pd.DataFrame:
    """Add seven columns for every placebo arm to the slopes, e.g. ``random_slope``, ``random_difference_q``.

    ``ARM_slope`` and ``ARM_q`` are the placebo's own (q within its own family, on its own photos). ``ARM_difference``
    is the edit's slope less the placebo's, on the photos and values that both have, with a paired t interval, its p,
    and q over the family of the edits. It is NaN for rows of placebos, for a label that is not estimable in the edit,
    and for a label that is never present at a = 0 of the placebo.

    Five columns summarise: ``placebo`` is the arm that leaves least of the slope; ``net_slope``, ``net_low`` and
    ``net_high`` are the difference from it; ``exceeds_placebos`` is whether the interval of every arm's difference
    excludes 0 on the slope's side. The colour placebo does not count where skin colour belongs to the attribute.

    Args:
        frame: the result of ``slope_frame`` for the same sweeps.
        sweeps: those of the edits and the placebos.
        family: columns that declare a family, as for ``slope_frame``.
        **options: of ``compare``.

    Raises:
        ValueError: as ``comparison.compare``.
    """
    if frame.empty:
        return frame
    edits = {(each.adapter, each.attribute): each for each in sweeps if each.arm == EDIT_ARM}
    edited = (frame["arm"] == EDIT_ARM).to_numpy(dtype=bool)
    for arm in sorted({each.arm for each in sweeps} - {EDIT_ARM}):
        columns = [f"{arm}_{name}" for name in (*OWN, *DIFFERENCES)]
        own = frame.loc[frame["arm"] == arm, [*KEYS, *OWN]]
        compared = [
            compare(
                edits[pair].of_values(each.values), each, names=(EDIT_ARM, arm), keep_flat_second=True, **options
            ).assign(adapter=each.adapter)
            for each in sweeps
            if each.arm == arm and (pair := (each.adapter, each.attribute)) in edits
        ]
        added = own.rename(columns={name: f"{arm}_{name}" for name in OWN})
        if compared:
            names = {name: f"{arm}_{name}" for name in DIFFERENCES} | {"p": f"{arm}_difference_p"}
            differences = pd.concat(compared).rename(columns=names)
            added = added.merge(differences[[*KEYS, *columns[len(OWN) : -1]]], on=KEYS, how="outer")
        frame = frame.merge(added, on=KEYS, how="left").reindex(columns=[*frame.columns, *columns])
        frame.loc[~edited, columns] = np.nan
        q, _ = within(frame[f"{arm}_difference_p"].to_numpy(np.float64), family_names(frame, [*family, "arm"]))
        frame[f"{arm}_difference_q"] = q
    arms = {
        pair: {each.arm for each in sweeps if (each.adapter, each.attribute) == pair} - {EDIT_ARM} for pair in edits
    }
    return _with_net(frame, arms) if any(arms.values()) else frame


def _with_net(frame: pd.DataFrame, arms: Mapping[tuple[str, str], set[str]]) -> pd.DataFrame:
    """Add `NET_COLUMNS`, given the placebo arms of each adapter and attribute."""
    rows = []
    for row in frame.to_dict("records"):
        counted = arms.get((row["adapter"], row["attribute"]), set()) if row["arm"] == EDIT_ARM else set()
        if attribute_of(row["attribute"]).moves_colour:
            counted = counted - {COLOUR}
        rows.append(_net(row, sorted(counted)))
    return frame.assign(**pd.DataFrame(rows, columns=list(NET_COLUMNS), index=frame.index).astype(object))


def _net(row: Mapping[Any, Any], arms: Sequence[str]) -> tuple[Any, ...]:
    if not arms or not row["estimable"]:
        return None, np.nan, np.nan, np.nan, None
    sign = 1.0 if row["slope"] > 0 else -1.0
    # Distance of the interval's nearer end from 0, positive on the slope's side; an unknown one counts as smallest.
    margin = {arm: min(sign * row[f"{arm}_difference_low"], sign * row[f"{arm}_difference_high"]) for arm in arms}
    least = min(arms, key=lambda arm: -np.inf if np.isnan(margin[arm]) else margin[arm])
    numbers = (float(row[f"{least}_{name}"]) for name in DIFFERENCES[:3])
    return least, *numbers, bool(margin[least] > 0)
