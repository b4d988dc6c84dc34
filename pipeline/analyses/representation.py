"""Representation of a set of photos: its faces found and estimated, then counted by group, into ``tables``.

The shares and their correction are in ``pipeline.statistics.representation``.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import ATTRIBUTES
from pipeline.config.options import Settings, StatisticsOptions
from pipeline.run.folder import Run
from pipeline.run.progress import Watch, unwatched
from pipeline.run.record import RunError
from pipeline.run.tables import read_frame
from pipeline.stages.audit import find_faces

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.statistics import ShareMethod

CLASSES = {name: attribute.classes for name, attribute in ATTRIBUTES.items()}


@dataclass(frozen=True, eq=False)
class Represented:
    """The table ``tables/representation.csv``, and what to say about photos and corrections that are not in it."""

    frame: "pd.DataFrame"
    notes: tuple[str, ...]


def represent(
    photos: Sequence[Path],
    out: Path,
    *,
    by: str,
    method: "ShareMethod" = "wilson",
    settings: Settings,
    given: Mapping[str, Any],
    watch: Watch = unwatched,
) -> Represented:
    """Shares of perceived gender and race of the photos' central faces, by group.

    Args:
        photos: a folder, files, or one manifest.
        out: the run's folder; the same call again finds no face a second time.
        by: a manifest's column, or ``folder``.
        method: of the raw shares' intervals, "wilson" or "exact"; with the option ``cluster`` it is the bootstrap's.
        settings: all options.
        given: the options as the user gave them.
        watch: is told how far each stage is.

    Raises:
        NoUsablePhotos, RunError, ConfigError: with what to do about it.
    """

    run = find_faces(photos, out, settings=settings, given=given, watch=watch)
    found = represented(run, by=by, method=method, options=settings.statistics)
    run.write_csv("representation", found.frame)
    return found


def represented(run: Run, *, by: str, method: "ShareMethod" = "wilson", options: StatisticsOptions) -> Represented:
    """The same of a run whose faces are found; nothing in its folder is changed.

    Args:
        run: any run that has got as far as its faces.
        by: a manifest's column, or ``folder``.
        method: of the raw shares' intervals.
        options: for ``cluster``, ``resamples`` and ``seed``.

    Raises:
        RunError: its faces are not found yet.
        ConfigError: the manifest lacks a column.
    """
    from pipeline.analyses.groups import clusters_of, groups_of
    from pipeline.statistics import representation_frame, shares_by_group

    if not run.path("faces.parquet").is_file():
        raise RunError(f"the faces of {run.folder} are not found yet: finish the run, or name photos")
    table, faces = read_frame(run.path("photos.parquet")), read_frame(run.path("faces.parquet"))
    groups, clusters = groups_of(table, by), clusters_of(table, options.cluster)
    shown = faces[(faces["status"] == "ok") & faces["photo"].isin(list(groups))]
    confusion, notes = _confusion()
    parts = shares_by_group(
        {name: attribute.classes_of(shown) for name, attribute in ATTRIBUTES.items()},
        CLASSES,
        [groups[photo] for photo in shown["photo"]],
        confusion=confusion,
        method=method,
        clusters=None if clusters is None else [clusters[photo] for photo in shown["photo"]],
        resamples=options.resamples,
        seed=options.seed,
    )
    frame = representation_frame(parts)
    if len(table) > len(shown):
        notes += (f"{len(table) - len(shown)} of {len(table)} photos are not counted: no usable face, or no group.",)
    return Represented(frame, notes)


def _confusion() -> tuple[dict[str, list[list[int]]] | None, tuple[str, ...]]:
    """The estimator's errors on held-out faces by attribute; without them a note says so."""
    from models.confusion import ConfusionError, read_confusion
    from models.weights import record

    try:
        matrix = read_confusion("estimator", weights=record("estimator").sha256)
    except ConfusionError as error:
        return None, (f"Shares are not corrected: {error}.",)
    return {attribute: matrix.of(names) for attribute, names in CLASSES.items()}, ()
