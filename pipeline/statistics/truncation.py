"""Largest effect on a slope of labels that an adapter does not return: beyond the top k, or below a score."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from pipeline.statistics.photo_slopes import slope_unit
from pipeline.statistics.sweeps import Sweeps

KEYS = ["adapter", "attribute", "arm", "label"]
COLUMN = "truncation"
NOISE = 1e-12  # rounding noise of a difference of sums that cannot be negative
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
    """Add the column ``truncation`` to the slopes if any label may be hidden.

    A label may be hidden in a version if the adapter returned its maximal number of labels, all of them present (a
    hidden score is at most the lowest one returned), or if it drops scores that would count. With h_k the largest mean
    response hidden at step k and y_c fixed, the slope changes by at most ``sum a_k h_k / (y_c sum a_k^2)`` over the
    steps on one side. A slope that is not larger may be an artefact of the limit.

    Args:
        frame: the result of ``slope_frame`` for the same sweeps.
        sweeps: those of the edits and the placebos.
        labels, answers: the run's tables, as for ``sweeps_of``.
        limits: adapter -> largest number of labels returned, and the score below which none is; None for no limit.
        presence: adapter -> the score from which a label is present.
    """
    changes = []
    for each in sweeps:
        if not (each.photos and each.labels and any(limits.get(each.adapter, ()))):
            continue
        returned, sent = (_rows_of(each, table) for table in (labels, answers))
        steps = sent[["step", "value"]].drop_duplicates().sort_values("value")["step"]
        cells = pd.Index(each.photos).get_indexer(pd.Index(returned["photo"])) * len(steps) + returned["step"].map(
            {step: position for position, step in enumerate(steps)}
        )
        changes.append(
            _largest_changes(each, returned.assign(cell=cells), limits[each.adapter], presence[each.adapter])
        )
    if not any((part[COLUMN] > 0).any() for part in changes):
        return frame
    merged = frame.merge(pd.concat(changes), on=KEYS, how="left", validate="1:1")
    relative = (merged[COLUMN].fillna(0.0) / merged["y_c"]).where(merged["estimable"].astype(bool))
    return merged.assign(**{COLUMN: relative})


def _rows_of(sweeps: Sweeps, table: pd.DataFrame) -> pd.DataFrame:
    """The rows of the sweeps' photos; of labels only those that were returned."""
    own = np.logical_and.reduce([(table[name] == getattr(sweeps, name)).to_numpy(bool) for name in KEYS[:3]])
    own &= table["photo"].isin(sweeps.photos).to_numpy(bool)
    return table[own & table["returned"].to_numpy(bool)] if "returned" in table else table[own]


def _largest_changes(sweeps: Sweeps, rows: pd.DataFrame, limits: Limits, threshold: float) -> pd.DataFrame:
    """Largest change of the slope of y, a row per label, given the labels returned by ``cell`` (photo and step)."""
    steps, reach = len(sweeps.values), len(sweeps.values) // 2
    top_k, cut_off = limits[0] or np.inf, limits[1] or 0.0
    hidden = np.full(len(sweeps.photos) * steps, cut_off if sweeps.confidence else float(cut_off > threshold))
    versions = rows.groupby("cell")["score"].agg(["size", "min"])
    full = versions.loc[versions["size"] >= top_k, "min"]
    hidden[full.index] = np.maximum(hidden[full.index], full if sweeps.confidence else full >= threshold)
    returned = rows.assign(hidden=hidden[rows["cell"]], position=rows["cell"] % steps)
    returned = returned.pivot_table("hidden", "label", "position", aggfunc="sum", fill_value=0.0, observed=True)
    returned = returned.reindex(index=list(sweeps.labels), columns=range(steps), fill_value=0.0)
    mean_hidden = (hidden.reshape(-1, steps).sum(axis=0) - returned.to_numpy(np.float64)) / len(sweeps.photos)
    mean_hidden[mean_hidden < NOISE] = 0.0
    weights = np.arange(-reach, reach + 1) * slope_unit(sweeps.values, reach=reach)
    change = np.maximum(mean_hidden @ np.maximum(weights, 0), mean_hidden @ np.maximum(-weights, 0))
    names = {name: getattr(sweeps, name) for name in KEYS[:3]}
    return pd.DataFrame({**names, "label": sweeps.labels, COLUMN: change})
