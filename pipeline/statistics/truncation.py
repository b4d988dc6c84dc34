"""How far a slope could be moved by labels that an adapter does not return: the last of many, or those below a score.

Whether a label was returned, and its score, come from the run's table ``labels``; slopes are in ``slopes``.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.statistics.photo_slopes import slope_unit
from pipeline.statistics.sweeps import Sweeps

KEYS = ["adapter", "attribute", "arm", "label"]
COLUMN = "truncation"
NOISE = 1e-12  # of a difference of sums; what is hidden is not less than 0
Limits = tuple[int | None, float | None]


def with_truncation(
    frame: pd.DataFrame,
    sweeps: Sequence[Sweeps],
    labels: pd.DataFrame,
    answers: pd.DataFrame,
    *,
    limits: Mapping[str, Limits],
    presence: Mapping[str, float],
) -> pd.DataFrame:
    """The slopes frame with the column ``truncation``, if any label of an adapter may be hidden.

    A version hides a label that it lacks where it has as many labels as the adapter returns at most, all of them
    present (a missing score is not above the least that was returned), or where the adapter drops scores that would
    count. With h_k the largest mean response that is hidden at step k, the slope moves by at most
    ``sum a_k h_k / (y_c sum a_k^2)`` over the steps on one side, y_c held. A slope that is not larger may be an
    artefact of the limit.

    Args:
        frame: as ``slope_frame`` gives it, of the same sweeps.
        sweeps: the edits' and the placebos'.
        labels, answers: the run's tables, as for ``sweeps_of``.
        limits: adapter -> labels that it returns at most, and the score below which it returns none; None for no limit.
        presence: adapter -> the score from which a label is present.
    """
    found = []
    for each in sweeps:
        if not (each.photos and each.labels and any(limits.get(each.adapter, ()))):
            continue
        own, sent = (_of(each, table) for table in (labels, answers))
        places = sent[["step", "value"]].drop_duplicates().sort_values("value")["step"]
        cells = pd.Index(each.photos).get_indexer(pd.Index(own["photo"])) * len(places) + own["step"].map(
            {step: place for place, step in enumerate(places)}
        )
        found.append(_moves(each, own.assign(cell=cells), limits[each.adapter], presence[each.adapter]))
    if not any((part[COLUMN] > 0).any() for part in found):
        return frame
    moved = frame.merge(pd.concat(found), on=KEYS, how="left", validate="1:1")
    return moved.assign(**{COLUMN: (moved[COLUMN].fillna(0.0) / moved["y_c"]).where(moved["estimable"].astype(bool))})


def _of(sweeps: Sweeps, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the sweeps' photos; of labels those that were returned."""
    own = np.logical_and.reduce([(table[name] == getattr(sweeps, name)).to_numpy(bool) for name in KEYS[:3]])
    own &= table["photo"].isin(sweeps.photos).to_numpy(bool)
    return table[own & table["returned"].to_numpy(bool)] if "returned" in table else table[own]


def _moves(sweeps: Sweeps, rows: pd.DataFrame, limits: Limits, threshold: float) -> pd.DataFrame:
    """A row a label: the largest change of the slope of y; ``rows``: labels returned, ``cell``: photo and step."""
    steps, reach = len(sweeps.values), len(sweeps.values) // 2
    most, least = limits[0] or np.inf, limits[1] or 0.0
    hidden = np.full(len(sweeps.photos) * steps, least if sweeps.confidence else float(least > threshold))
    versions = rows.groupby("cell")["score"].agg(["size", "min"])
    full = versions.loc[versions["size"] >= most, "min"]
    hidden[full.index] = np.maximum(hidden[full.index], full if sweeps.confidence else full >= threshold)
    seen = rows.assign(hidden=hidden[rows["cell"]], place=rows["cell"] % steps)
    seen = seen.pivot_table("hidden", "label", "place", aggfunc="sum", fill_value=0.0, observed=True)
    seen = seen.reindex(index=list(sweeps.labels), columns=range(steps), fill_value=0.0)
    left = (hidden.reshape(-1, steps).sum(axis=0) - seen.to_numpy(np.float64)) / len(sweeps.photos)
    left[left < NOISE] = 0.0
    weights = np.arange(-reach, reach + 1) * slope_unit(sweeps.values, reach=reach)
    moved = np.maximum(left @ np.maximum(weights, 0), left @ np.maximum(-weights, 0))
    names = {name: getattr(sweeps, name) for name in KEYS[:3]}
    return pd.DataFrame({**names, "label": sweeps.labels, COLUMN: moved})
