"""Bias amplification of a run, the attribute intervened on: its sweeps, a mapping label -> task, and a base's signs.

The measure is in ``statistics.counterfactual_amplification``; of a file of predictions, ``amplifying`` does the same.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.analyses.predictions import InputError, indicators, read_predictions
from pipeline.run.folder import settings_of
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame

if TYPE_CHECKING:
    import pandas as pd

NO_POLE = "{group!r} is no end of a sweep of this run; they are called {known}"
NO_LABEL = "no classifier of {folder} returned the label {label!r}"
NO_SWEEP = "{folder} has no complete sweep whose ends are called {known}"


def amplification_of_run(
    folder: Path,
    *,
    shares: Mapping[str, float] | None = None,
    share_group: str | None = None,
    observed: tuple[str, Sequence[str]] | None = None,
    tasks: Mapping[str, str] | None = None,
    values: Sequence[tuple[float, float]] = (),
    cluster: str | None = None,
    response: str | None = None,
    resamples: int = 2000,
    seed: int = 0,
    level: float = 0.95,
) -> "pd.DataFrame":
    """Counterfactual amplification of every adapter, attribute and arm of a run: rows as its ``to_frame`` has them.

    The signs come from a table of shares, or from what is known of the photos: one is needed.

    Args:
        folder: the run's.
        shares: task -> share of ``share_group``, such as women's share in occupations.
        share_group: what one end of the sweep is called, by any of its names in ``config.attributes``.
        observed: manifest columns: of the group each photo is of, and of its tasks.
        tasks: label -> task; every label is its own task unless given.
        values: pairs of values a to compare; the ends of the sweep unless given.
        cluster: manifest column whose photos belong together; the run's own unless given.
        response: "presence" or "confidence", mean scores in place of rates; as the run was made unless given.
        resamples, seed, level: of the intervals.

    Raises:
        RunError: the folder holds no run, or one without labels, or nothing that fits.
        ConfigError: the manifest lacks a column.
        InputError: a group, a label or a column is not what it should be.
        ValueError: values that are no steps, or an option out of range.
    """
    import pandas as pd

    from pipeline.analyses.sweeps import run_sweeps
    from pipeline.statistics import COUNTERFACTUAL_COLUMNS, counterfactual_amplification

    known = run_sweeps(folder, {"cluster": cluster, "response": response})
    swept = settings_of(known.run).sweep.chosen()
    poles = {name: attribute.pole_names for name, attribute in swept.items()}
    returned = {label for each in known.sweeps for label in each.labels}
    for label in tasks or ():
        if label not in returned:
            raise InputError(NO_LABEL.format(folder=folder, label=label))
    photos = read_frame(known.run.path("photos.parquet"))
    frames = []
    for sweeps in known.sweeps:
        if sweeps.attribute not in poles or not sweeps.photos:
            continue
        if shares is not None and share_group is not None:
            signs = _signs_of_shares(shares, share_group, poles[sweeps.attribute])
        elif observed is not None:
            signs = _signs_observed(photos, observed, poles[sweeps.attribute])
        else:
            raise InputError(
                "the sign of each task comes from a base: give a table with --base, "
                "or the manifest's columns of groups and tasks with --attribute and --task"
            )
        if signs is None:
            continue
        own = None if tasks is None else {label: task for label, task in tasks.items() if label in sweeps.labels}
        for ends in values or (None,):
            found = counterfactual_amplification(
                sweeps,
                signs=signs,
                tasks=own,
                values=ends,
                resamples=resamples,
                seed=seed,
                level=level,
                clusters=known.clusters,
            )
            frames.append(found.to_frame())
    if not frames:
        named = share_group if observed is None else f"as in the column {observed[0]!r}"
        raise RunError(NO_SWEEP.format(folder=folder, known=named))
    return pd.concat(frames, ignore_index=True)[list(COUNTERFACTUAL_COLUMNS)]


def read_mapping(path: Path) -> dict[str, str]:
    """Label -> task from a file with the columns ``label`` and ``task``.

    Raises:
        InputError: a column is missing, a cell is empty, or a label is mapped twice.
    """
    frame = read_predictions(path)
    for column in ("label", "task"):
        if column not in frame.columns:
            raise InputError(f"{path} has no column {column!r}; its columns are {', '.join(map(repr, frame.columns))}")
        if frame[column].isna().any():
            row = int(frame[column].isna().to_numpy().argmax()) + 1
            raise InputError(f"column {column!r} of {path} has no value in row {row}")
    labels = frame["label"].astype(str)
    if labels.duplicated().any():
        raise InputError(f"{path} maps the label {labels[labels.duplicated()].iloc[0]!r} twice")
    return dict(zip(labels, frame["task"].astype(str), strict=True))


def _signs_of_shares(
    shares: Mapping[str, float], group: str, poles: tuple[tuple[str, ...], tuple[str, ...]]
) -> dict[str, int] | None:
    """Task -> +1 where the higher pole has more than its mean share; None where the group is of another attribute."""
    from pipeline.statistics import signs_of_shares

    end = _end(group, poles)
    if end is None:
        return None
    signs = signs_of_shares([list(shares.values())])[0]
    return {task: int(sign) if end == 1 else -int(sign) for task, sign in zip(shares, signs, strict=True)}


def _signs_observed(
    photos: "pd.DataFrame", observed: tuple[str, Sequence[str]], poles: tuple[tuple[str, ...], tuple[str, ...]]
) -> dict[str, int] | None:
    """Task -> +1 where photos of the higher pole have it more often than those of the lower; None without both."""
    import numpy as np

    from pipeline.analyses.groups import check_column
    from pipeline.statistics import signs

    column, tasks = observed
    for name in (column, *tasks):
        check_column(photos, name, purpose="find the signs")
    ends = np.array([np.nan if (end := _end(value, poles)) is None else end for value in photos[column]])
    known = photos[~np.isnan(ends)].reset_index(drop=True)
    ends = ends[~np.isnan(ends)].astype(int)
    if len(set(ends.tolist())) < 2:
        return None
    labels = indicators(known, tasks, table="the manifest")
    found = signs(np.eye(2, dtype=np.int8)[ends], labels)[1]
    return {str(task): int(sign) for task, sign in zip(labels.columns, found, strict=True)}


def _end(name: Any, poles: tuple[tuple[str, ...], tuple[str, ...]]) -> int | None:
    """0 for a name of the lower pole, 1 for one of the higher."""
    folded = str(name).casefold()
    return next((end for end, names in enumerate(poles) if folded in {pole.casefold() for pole in names}), None)
