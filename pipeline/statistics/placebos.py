"""What the placebos show next to each slope of an edit: their own slopes, and edit less placebo on the same photos.

A finding that a placebo also shows is not a finding; how that is printed is the report's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from pipeline.config.attributes import EDIT_ARM
from pipeline.statistics.comparison import compare
from pipeline.statistics.multiplicity import family_names, within
from pipeline.statistics.sweeps import Sweeps

KEYS = ["adapter", "attribute", "label"]
OF_PLACEBO = ("slope", "q")
OF_DIFFERENCE = ("difference", "difference_low", "difference_high", "difference_p", "difference_q")


def with_placebos(
    frame: pd.DataFrame,
    sweeps: Sequence[Sweeps],
    *,
    family: Sequence[str] = (),
    **options: Any,
) -> pd.DataFrame:
    """The slopes frame with seven columns more for every placebo arm, e.g. ``random_slope``, ``random_difference_q``.

    ``ARM_slope`` and ``ARM_q`` are the placebo's own (q within its own family, on its own photos). ``ARM_difference``
    is the edit's slope less the placebo's, both on the photos that have both, with a paired t interval, its p, and q
    over the family of the edits. Rows of placebos have NaN, and so has a label that either arm cannot estimate.

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
            compare(edits[pair], each, names=(EDIT_ARM, arm), **options).to_frame().assign(adapter=each.adapter)
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
    return frame
