"""What the placebos show next to each slope of an edit: their own slopes, and edit less placebo on the same photos.

A finding that a placebo also shows is not a finding; how that is printed is the report's.
"""

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
OF_PLACEBO = ("slope", "q")
OF_DIFFERENCE = ("difference", "difference_low", "difference_high", "difference_p", "difference_q")
NET_COLUMNS = ("placebo", "net_slope", "net_low", "net_high", "exceeds_placebos")


def with_placebos(
    frame: pd.DataFrame,
    sweeps: Sequence[Sweeps],
    *,
    family: Sequence[str] = (),
    **options: Any,
) -> pd.DataFrame:
    """The slopes frame with seven columns more for every placebo arm, e.g. ``random_slope``, ``random_difference_q``.

    ``ARM_slope`` and ``ARM_q`` are the placebo's own (q within its own family, on its own photos). ``ARM_difference``
    is the edit's slope less the placebo's, both on the photos and at the values that both have, with a paired t
    interval, its p, and q over the family of the edits. Rows of placebos have NaN, and so has a label that the edit
    cannot estimate, or that is never there at a = 0 of the placebo.

    Five more columns sum up: ``placebo`` names the arm that leaves least of the slope, ``net_slope``, ``net_low`` and
    ``net_high`` are the difference to it, and ``exceeds_placebos`` says whether the interval of every arm's difference
    excludes 0 on the slope's side. The placebo of colour does not count where skin colour belongs to the attribute.

    Args:
        frame: as ``slope_frame`` gives it, of the same sweeps.
        sweeps: the edits' and the placebos'.
        family: columns in which the labels of one family agree, as for ``slope_frame``.
        **options: of ``compare``.

    Raises:
        ValueError: as ``comparison.compare``.
    """
    if frame.empty:
        return frame
    edits = {(each.adapter, each.attribute): each for each in sweeps if each.arm == EDIT_ARM}
    edited = (frame["arm"] == EDIT_ARM).to_numpy(dtype=bool)
    for arm in sorted({each.arm for each in sweeps} - {EDIT_ARM}):
        columns = [f"{arm}_{name}" for name in (*OF_PLACEBO, *OF_DIFFERENCE)]
        own = frame.loc[frame["arm"] == arm, [*KEYS, *OF_PLACEBO]]
        compared = [
            compare(
                edits[pair].of_values(each.values), each, names=(EDIT_ARM, arm), second_still=True, **options
            ).assign(adapter=each.adapter)
            for each in sweeps
            if each.arm == arm and (pair := (each.adapter, each.attribute)) in edits
        ]
        added = own.rename(columns={name: f"{arm}_{name}" for name in OF_PLACEBO})
        if compared:
            names = {name: f"{arm}_{name}" for name in OF_DIFFERENCE} | {"p": f"{arm}_difference_p"}
            differences = pd.concat(compared).rename(columns=names)
            added = added.merge(differences[[*KEYS, *columns[len(OF_PLACEBO) : -1]]], on=KEYS, how="outer")
        frame = frame.merge(added, on=KEYS, how="left").reindex(columns=[*frame.columns, *columns])
        frame.loc[~edited, columns] = np.nan
        q, _ = within(frame[f"{arm}_difference_p"].to_numpy(np.float64), family_names(frame, [*family, "arm"]))
        frame[f"{arm}_difference_q"] = q
    arms = {
        pair: {each.arm for each in sweeps if (each.adapter, each.attribute) == pair} - {EDIT_ARM} for pair in edits
    }
    return _with_net(frame, arms) if any(arms.values()) else frame


def _with_net(frame: pd.DataFrame, arms: Mapping[tuple[str, str], set[str]]) -> pd.DataFrame:
    """The frame with `NET_COLUMNS`, given the placebos of each adapter and attribute."""
    found = []
    for row in frame.to_dict("records"):
        counted = arms.get((row["adapter"], row["attribute"]), set()) if row["arm"] == EDIT_ARM else set()
        if attribute_of(row["attribute"]).moves_colour:
            counted = counted - {COLOUR}
        found.append(_net(row, sorted(counted)))
    return frame.assign(**pd.DataFrame(found, columns=list(NET_COLUMNS), index=frame.index).astype(object))


def _net(row: Mapping[Any, Any], arms: Sequence[str]) -> tuple[Any, ...]:
    if not arms or not row["estimable"]:
        return None, np.nan, np.nan, np.nan, None
    sign = 1.0 if row["slope"] > 0 else -1.0
    # How far the interval's nearer end lies on the slope's side of 0; unknown is least.
    left = {arm: min(sign * row[f"{arm}_difference_low"], sign * row[f"{arm}_difference_high"]) for arm in arms}
    least = min(arms, key=lambda arm: -np.inf if np.isnan(left[arm]) else left[arm])
    numbers = (float(row[f"{least}_{name}"]) for name in OF_DIFFERENCE[:3])
    return least, *numbers, bool(left[least] > 0)
