"""Which photos belong together, by what a run knows of them: a manifest's column, their folder, how they are perceived.

The statistics of groups and clusters are in ``pipeline.statistics``.
"""

from collections.abc import Hashable
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from pipeline.config.options import ConfigError
from pipeline.run.tables import PHOTOS

if TYPE_CHECKING:
    import pandas as pd

PERCEIVED = "perceived"
FOLDER = "folder"
NO_COLUMN = "there is no column {column!r} to {purpose} by: the manifest has {columns}"


def check_column(photos: "pd.DataFrame", column: str, *, purpose: str, built_in: tuple[str, ...] = ()) -> None:
    """Refuse a column that neither the manifest nor ``built_in`` has.

    Raises:
        ConfigError: it is unknown; the message names those that there are.
    """
    known = [name for name in photos.columns if name not in PHOTOS]
    if column not in known and column not in built_in:
        columns = ", ".join(map(repr, known)) if known else "no column but photo"
        others = f"; also {', '.join(map(repr, built_in))}" if built_in else ""
        raise ConfigError(NO_COLUMN.format(column=column, purpose=purpose, columns=columns) + others)


def groups_of(photos: "pd.DataFrame", by: str, *, faces: "pd.DataFrame | None" = None) -> dict[str, str]:
    """Photo -> the group it belongs to; a photo of which the column tells nothing has none.

    Args:
        photos: the run's table of that name.
        by: a manifest's column; else ``folder`` (where the photo lies) or, with ``faces``, ``perceived`` (gender and
            race of the unchanged face as the estimator sees them, such as "feminine, Black").
        faces: the run's table of that name.

    Raises:
        ConfigError: the column is unknown.
    """
    built_in = (FOLDER,) if faces is None else (PERCEIVED, FOLDER)
    check_column(photos, by, purpose="group", built_in=built_in)
    if by in photos.columns:
        known = photos[photos[by].notna()]
        return {str(photo): str(value) for photo, value in zip(known["photo"], known[by], strict=True)}
    if by == PERCEIVED and faces is not None:
        from pipeline.config.attributes import source_groups

        return source_groups(faces)
    return {str(photo): PurePosixPath(photo).parent.as_posix() for photo in photos["photo"]}


def clusters_of(photos: "pd.DataFrame", column: str | None) -> dict[str, Hashable] | None:
    """Photo -> its cluster by a manifest's column; a photo of which it tells nothing is a cluster of its own.

    Raises:
        ConfigError: the column is unknown.
    """
    if column is None:
        return None
    check_column(photos, column, purpose="cluster")
    missing = photos[column].isna()
    return {
        str(photo): ("photo", photo) if alone else ("cluster", value)
        for photo, value, alone in zip(photos["photo"], photos[column], missing, strict=True)
    }
