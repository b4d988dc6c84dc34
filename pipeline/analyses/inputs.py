"""Inputs of analyses: files with a row per photo, sweeps of a run, and groups and clusters of photos."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pipeline.config.attributes import EDIT_ARM
from pipeline.config.options import ConfigError, StatisticsOptions
from pipeline.review.answers import excluded_photos, read_faces
from pipeline.run.folder import Run, settings_of
from pipeline.run.record import RunError
from pipeline.run.tables import PHOTOS, read_frame, read_frames

if TYPE_CHECKING:
    import pandas as pd

    from pipeline.statistics import Sweeps

ENDINGS = (".csv", ".tsv", ".parquet")
MAX_GROUPS = 1000
PERCEIVED, FOLDER = "perceived", "folder"

NO_COLUMN = "{table} has no column {column!r}; its columns are {columns}"
NO_VALUE = "column {column!r} of {table} has no value in row {row}"
NO_MANIFEST_COLUMN = "there is no column {column!r} to {purpose} by: the manifest has {columns}"
STREAMED = 2**20  # rows of the table of labels that are read at a time
TEXTS = ("adapter", "attribute", "arm", "photo")  # columns of labels and answers with few distinct values

NO_LABELS = "no classifier has labelled the versions in {folder}: query one with `counterslope query`"


class InputError(ValueError):
    """A file of labels or predictions cannot be used; the message names file and column, and says what to do."""


# Files with a row per photo


def read_predictions(path: Path) -> "pd.DataFrame":
    """Read a file of labels and predictions; only empty cells of CSV and TSV are missing values.

    Raises:
        InputError: another file type, an unreadable or empty file, or two columns with the same name.
    """
    import pandas as pd
    from pandas.errors import EmptyDataError, ParserError
    from pyarrow import ArrowInvalid

    ending = path.suffix.lower()
    if ending not in ENDINGS:
        raise InputError(f"{path} is not a file of predictions: its name must end in {', '.join(ENDINGS)}")
    try:
        if ending == ".parquet":
            frame = pd.read_parquet(path)
            names = frame.columns.to_series()
        else:
            # "NA" and "None" may be names.
            options: dict[str, Any] = {"sep": "\t" if ending == ".tsv" else ",", "keep_default_na": False}
            frame = pd.read_csv(path, na_values=[""], **options)
            names = pd.read_csv(path, header=None, nrows=1, dtype=str, **options).iloc[0]
    except (OSError, UnicodeDecodeError, ParserError, EmptyDataError, ArrowInvalid) as error:
        problem = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"{path} cannot be read: {problem}") from error
    if names.duplicated().any():
        raise InputError(f"{path} has two columns called {names[names.duplicated()].iloc[0]!r}: rename one")
    if frame.empty:
        raise InputError(f"{path} has no rows")
    return frame


def columns_of(frame: "pd.DataFrame", columns: Sequence[str], *, table: str, complete: bool = True) -> "pd.DataFrame":
    """Select columns of a frame; ``table`` is its name in errors.

    Raises:
        InputError: a column is missing, or has missing values although it must be ``complete``.
    """
    for column in columns:
        if column not in frame.columns:
            known = ", ".join(map(repr, frame.columns))
            raise InputError(NO_COLUMN.format(table=table, column=column, columns=known))
        missing = frame[column].isna().to_numpy()
        if complete and missing.any():
            raise InputError(NO_VALUE.format(table=table, column=column, row=int(missing.argmax()) + 1))
    return frame[list(columns)]


def indicators(
    frame: "pd.DataFrame", columns: Sequence[str], *, table: str, names: Sequence[str] | None = None
) -> "pd.DataFrame":
    """Return columns of numbers unchanged, or a column of names as an indicator column per name.

    A row without a name is 0 in all columns: it belongs to no group.

    Args:
        frame, table: the table, and its name in errors.
        columns: a column of names, or one or more columns of numbers.
        names: the allowed names in order (for predictions, those of the labels); default: those that occur, sorted.

    Raises:
        InputError: a missing column or number, text and numbers mixed, or an unknown name.
    """
    import pandas as pd

    known = columns_of(frame, columns, table=table, complete=False)
    text = [column for column in columns if not pd.api.types.is_numeric_dtype(known[column])]
    if text and len(columns) > 1:
        raise InputError(f"column {text[0]!r} of {table} must hold numbers where several columns are named")
    if not text:
        return columns_of(frame, columns, table=table).astype("float64")
    values = known[text[0]]
    found = sorted({str(value) for value in values.dropna()})
    groups = found if names is None else [str(name) for name in names]
    unknown = [name for name in found if name not in groups]
    if unknown:
        raise InputError(f"column {text[0]!r} of {table} has {unknown[0]!r}, which is not one of {', '.join(groups)}")
    if not 1 <= len(groups) <= MAX_GROUPS:
        raise InputError(f"column {text[0]!r} of {table} must name 1 to {MAX_GROUPS} groups, not {len(groups)}")
    texts = values.map(lambda value: None if pd.isna(value) else str(value))
    return pd.DataFrame({name: (texts == name).astype("int8") for name in groups})


def by_name(path: Path, name: str, value: str) -> "pd.Series[Any]":
    """Read a column of a file, indexed by a column of names.

    Raises:
        InputError: a column is missing or incomplete, or a name occurs twice.
    """
    frame = columns_of(read_predictions(path), [name, value], table=str(path))
    names = frame[name].astype(str)
    if names.duplicated().any():
        raise InputError(f"column {name!r} of {path} has {names[names.duplicated()].iloc[0]!r} twice")
    return frame[value].set_axis(names)


def share_table(path: Path, *, task: str, share: str) -> dict[str, float]:
    """Read a group's share in each task, 0-1, from a table such as labour statistics; shares may be in per cent.

    Raises:
        InputError: a column is missing, has values that are not shares, or names a task twice.
    """
    shares = indicators(by_name(path, task, share).to_frame(share), [share], table=str(path))[share]
    scale = 100 if shares.max() > 1 else 1
    wrong = (shares < 0) | (shares > scale)
    if wrong.any():
        raise InputError(f"column {share!r} of {path} must hold shares in 0-1 or 0-100, not {shares[wrong].iloc[0]:g}")
    return {str(name): float(value) / scale for name, value in shares.items()}


def row_clusters(frame: "pd.DataFrame", column: str | None, *, table: str) -> list[Hashable] | None:
    """Cluster of each row by a column; a row without a value is a cluster by itself. InputError without the column."""
    if column is None:
        return None
    return _clusters(columns_of(frame, [column], table=table, complete=False)[column], range(len(frame)))


def _clusters(values: "pd.Series[Any]", names: Iterable[Hashable]) -> list[Hashable]:
    """Clusters by value; an entry without a value is a cluster by itself, called by its name."""
    return [
        ("alone", name) if missing else ("cluster", value)
        for value, name, missing in zip(values, names, values.isna(), strict=True)
    ]


# Groups and clusters of a run's photos


def check_column(photos: "pd.DataFrame", column: str, *, purpose: str, built_in: tuple[str, ...] = ()) -> None:
    """Raise a ConfigError, which names the known columns, if neither the manifest nor ``built_in`` has a column."""
    known = [name for name in photos.columns if name not in PHOTOS]
    if column not in known and column not in built_in:
        columns = ", ".join(map(repr, known)) if known else "no column but photo"
        others = f"; also {', '.join(map(repr, built_in))}" if built_in else ""
        raise ConfigError(NO_MANIFEST_COLUMN.format(column=column, purpose=purpose, columns=columns) + others)


def groups_of(photos: "pd.DataFrame", by: str, *, faces: "pd.DataFrame | None" = None) -> dict[str, str]:
    """Group of each photo; photos without a value in the column are left out.

    Args:
        photos: the run's table of that name.
        by: a manifest column, ``folder`` (the folder of the photo) or, with the run's ``faces``, ``perceived`` (how the
            unchanged face is perceived, such as "feminine, Black"). Several, separated by commas, are combined.

    Raises:
        ConfigError: the column is unknown.
    """
    built_in = (FOLDER,) if faces is None else (PERCEIVED, FOLDER)
    if "," in by and by not in photos.columns:
        named = [groups_of(photos, part.strip(), faces=faces) for part in by.split(",")]
        return {photo: ", ".join(each[photo] for each in named) for photo in named[0] if all(photo in n for n in named)}
    check_column(photos, by, purpose="group", built_in=built_in)
    if by in photos.columns:
        known = photos[photos[by].notna()]
        return {str(photo): str(value) for photo, value in zip(known["photo"], known[by], strict=True)}
    if by == PERCEIVED and faces is not None:
        from pipeline.config.attributes import source_groups

        return source_groups(faces)
    return {str(photo): PurePosixPath(photo).parent.as_posix() for photo in photos["photo"]}


def clusters_of(photos: "pd.DataFrame", column: str | None) -> dict[str, Hashable] | None:
    """Cluster of each photo by a manifest column; a photo without a value is a cluster by itself.

    Raises:
        ConfigError: the column is unknown.
    """
    if column is None:
        return None
    check_column(photos, column, purpose="cluster")
    return dict(zip(photos["photo"].astype(str), _clusters(photos[column], photos["photo"]), strict=True))


# Sweeps of a run


@dataclass(frozen=True, eq=False)
class RunSweeps:
    """Sweeps of a run, of every adapter, attribute and arm, by the given options."""

    run: Run
    options: StatisticsOptions
    photos: "pd.DataFrame"
    sweeps: "tuple[Sweeps, ...]"
    clusters: Mapping[str, Hashable] | None

    @property
    def edits(self) -> "tuple[Sweeps, ...]":
        """The sweeps of the edits, without placebos."""
        return tuple(each for each in self.sweeps if each.arm == EDIT_ARM)

    @property
    def faces(self) -> "pd.DataFrame":
        """The run's table of faces, corrected by its reviewers."""
        return read_faces(self.run)

    @property
    def drawing(self) -> dict[str, Any]:
        """Options of the bootstrap."""
        return {"resamples": self.options.resamples, "seed": self.options.seed}

    @property
    def rules(self) -> dict[str, Any]:
        """Options of every estimate."""
        return {"min_count": self.options.min_count, "clusters": self.clusters}


def presence_thresholds(run: Run, options: StatisticsOptions) -> dict[str, float]:
    """Adapter -> the score from which a label is present; RunError if no classifier has labelled the run."""
    if not run.record.presence_thresholds:
        raise RunError(NO_LABELS.format(folder=run.folder))
    return options.thresholds(run.record.presence_thresholds)


def run_sweeps(
    folder: Path, changes: Mapping[str, Any] | None = None, *, options: StatisticsOptions | None = None
) -> RunSweeps:
    """Read the sweeps of a run, without the photos that its reviewers exclude.

    Args:
        folder: of a run with labels.
        changes: options that override the run's section ``statistics``.
        options: replaces the whole section, such as by that of another run.

    Raises:
        RunError: the folder holds no run, or one without labels.
        ConfigError: an invalid option, or a column that the manifest lacks.
    """
    from pipeline.statistics.sweep_tables import ANSWER_COLUMNS, LABEL_COLUMNS, sweeps_of

    run = Run(folder)
    own = settings_of(run, {"statistics": changes or {}}).statistics
    options = own if options is None else options
    thresholds = presence_thresholds(run, options)
    excluded = excluded_photos(folder)

    def kept(table: "pd.DataFrame") -> "pd.DataFrame":
        return table[~table["photo"].isin(excluded)] if excluded else table

    photos = kept(read_frame(run.path("photos.parquet")))
    answers = kept(read_frame(run.path("answers.parquet"), columns=list(ANSWER_COLUMNS), categories=(*TEXTS, "status")))
    # The table of labels may be larger than memory.
    labels = read_frames(
        run.path("labels.parquet"), columns=list(LABEL_COLUMNS), rows=STREAMED, categories=(*TEXTS, "label")
    )
    return RunSweeps(
        run=run,
        options=options,
        photos=photos,
        sweeps=tuple(sweeps_of(map(kept, labels), answers, presence=thresholds, confidence=options.confidence)),
        clusters=clusters_of(photos, options.cluster),
    )
