"""What the classifiers said of some sweeps, read from a run's tables for the report's viewer."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pipeline.report.album import Said
from pipeline.run.folder import Run

if TYPE_CHECKING:
    import pandas as pd

SweepKey = tuple[str, str, str]  # photo, attribute, arm

LIKELIEST = 6
NO_REASON = "no reason is recorded"

_SWEEP = ["photo", "attribute", "arm", "adapter"]


def said_of(
    run: Run, steps: Mapping[SweepKey, int], steepest: Mapping[tuple[str, str], Sequence[str] | Mapping[str, Any]]
) -> dict[SweepKey, dict[str, Said]]:
    """Sweep -> adapter -> its labels along the sweep: the steepest of the run, and those scored highest.

    Args:
        run: with its answers and labels.
        steps: sweep -> how many versions it has.
        steepest: (attribute, adapter) -> labels that are kept wherever they were returned.
    """
    photos = sorted({photo for photo, _, _ in steps})
    answers = _rows(run.path("answers.parquet"), [*_SWEEP, "step", "status", "reason"], photos=photos)
    labels = _rows(run.path("labels.parquet"), [*_SWEEP, "step", "label", "score"], photos=photos)
    names = np.asarray(labels["label"].cat.categories, dtype=object)
    codes, step, score = labels["label"].cat.codes.to_numpy(), labels["step"].to_numpy(), labels["score"].to_numpy()
    places = labels.groupby(_SWEEP, observed=True, sort=False).indices
    said: dict[SweepKey, dict[str, Said]] = {key: {} for key in steps}
    for found, rows in answers.groupby(_SWEEP, observed=True, sort=True):
        photo, attribute, arm, adapter = map(str, found)
        key = photo, attribute, arm
        if key not in steps:
            continue
        own = places.get(found, np.array([], dtype=np.int64))
        present, row = np.unique(codes[own], return_inverse=True)
        table = np.full((len(present), steps[key]), np.nan)
        table[row, step[own] - 1] = score[own]
        kept = _kept(names[present], table, first=list(steepest.get((attribute, adapter), ())))
        silent = rows[rows["status"] != "ok"]
        said[key][adapter] = Said(
            labels=[str(name) for name in names[present][kept]],
            scores=table[kept],
            silent={
                int(number) - 1: why if isinstance(why, str) else NO_REASON
                for number, why in zip(silent["step"], silent["reason"], strict=True)
            },
        )
    return said


def _kept(names: NDArray[np.object_], scores: NDArray[np.float64], *, first: Sequence[str]) -> list[int]:
    """Rows of the labels ``first``, as far as they are there, and of those with the highest scores besides."""
    if not len(names):
        return []
    place = {str(name): number for number, name in enumerate(names)}
    steep = [place[label] for label in first if label in place]
    highest = np.nan_to_num(scores, nan=-1.0).max(axis=1)
    others = [number for number in np.argsort(-highest, kind="stable").tolist() if number not in set(steep)]
    return steep + others[:LIKELIEST]


def _rows(path: Path, columns: Sequence[str], *, photos: Sequence[str]) -> "pd.DataFrame":
    """Rows of some photos; names as categories, of which there are far fewer than rows."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    wanted = pc.field("photo").isin(pa.array(photos, pa.string()))
    table = pq.read_table(path, columns=list(columns), filters=wanted)
    frame: pd.DataFrame = table.to_pandas(strings_to_categorical=True)
    return frame
