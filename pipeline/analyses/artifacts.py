"""Tables that analyses store in a run, with their inputs, so that stale tables are recognised."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.review.answers import FILE as REVIEWS
from pipeline.run.files import digest, digest_of_files
from pipeline.run.folder import Run, settings_of
from pipeline.run.record import Artifact, now

if TYPE_CHECKING:
    import pandas as pd

# A run that nobody has reviewed has no file of reviews.
ANSWERED = ("photos.parquet", "answers.parquet", "labels.parquet", REVIEWS)

CHANGED = "{file} has changed since"
GONE = "{file} no longer exists"
OTHER_OPTION = "the run's option {option} has changed since"


@dataclass(frozen=True)
class Inputs:
    """Inputs of tables."""

    files: Sequence[str] = ANSWERED  # names in the run's folder
    elsewhere: Sequence[Path] = ()  # other files, such as those of another run
    options: Sequence[str] = ()  # options of the run's section ``statistics``


@dataclass(frozen=True, eq=False)
class Artifacts:
    """Tables that analyses have stored in a run.

    Attributes:
        tables: name -> current table.
        about: analysis -> plain values that its section needs, and when it was ``written``.
        stale: analysis -> why its tables are not current.
    """

    tables: "Mapping[str, pd.DataFrame]" = field(default_factory=dict)
    about: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    stale: Mapping[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Digest of everything that is shown."""
        return digest([self.about, self.stale])


def add(
    run: Run,
    name: str,
    tables: "Mapping[str, pd.DataFrame]",
    *,
    inputs: Inputs,
    about: Mapping[str, Any] | None = None,
    by: Sequence[str] = (),
) -> None:
    """Write an analysis's tables into ``tables/`` of a run, and their inputs into its record.

    Args:
        run: a finished run; it is locked while writing.
        name: the analysis; its earlier tables are replaced.
        tables, inputs: file name without its ending -> table, and their inputs.
        about: plain values that the report needs next to them.
        by: key columns of every table; earlier rows with other keys are kept if they are still current.

    Raises:
        RunError: another process is working on the run.
    """
    import pandas as pd

    with run.locked():
        kept = run.record.artifacts.get(name)
        if by and kept is not None and not _why_stale(run, kept):
            older = {each: run.read_csv(each) for each in kept.tables}
            tables = {
                each: pd.concat([_others(older[each], frame, by), frame], ignore_index=True) if each in older else frame
                for each, frame in tables.items()
            }
        for each, frame in tables.items():
            run.write_csv(each, frame)
        own = _statistics(run)
        entry = Artifact(
            tables={each: digest_of_files(run.csv_path(each)) for each in tables},
            files={file: _digest(run.path(file)) for file in inputs.files},
            elsewhere={str(path.resolve()): _digest(path) for path in inputs.elsewhere},
            options={option: own.get(option) for option in inputs.options},
            about=dict(about or {}),
            written=now(),
        )
        run.note(artifacts={**run.record.artifacts, name: entry})


def artifacts_of(run: Run) -> Artifacts:
    """Read the current tables of analyses in a run, and why others are stale."""
    tables: dict[str, pd.DataFrame] = {}
    about, stale = {}, {}
    for name, entry in run.record.artifacts.items():
        if reason := _why_stale(run, entry):
            stale[name] = reason
            continue
        about[name] = {**entry.about, "written": entry.written, "tables": entry.tables}
        tables |= {each: run.read_csv(each) for each in entry.tables}
    return Artifacts(tables, about, stale)


def _why_stale(run: Run, entry: Artifact) -> str:
    """Reason why a result is not current, else empty."""
    files = {run.path(file): sha256 for file, sha256 in entry.files.items()}
    files |= {run.csv_path(each): sha256 for each, sha256 in entry.tables.items()}
    files |= {Path(file): sha256 for file, sha256 in entry.elsewhere.items()}
    for path, sha256 in files.items():
        if (found := _digest(path)) != sha256:
            return (CHANGED if found else GONE).format(file=path.name)
    own = _statistics(run)
    for option, value in entry.options.items():
        if own.get(option) != value:
            return OTHER_OPTION.format(option=option)
    return ""


def _digest(path: Path) -> str:
    """Digest of a file; empty if it does not exist."""
    return digest_of_files(path) if path.is_file() else ""


def _statistics(run: Run) -> dict[str, Any]:
    """The run's section ``statistics``, as in ``run.json``."""
    return settings_of(run).statistics.model_dump(mode="json")


def _others(older: "pd.DataFrame", newer: "pd.DataFrame", by: Sequence[str]) -> "pd.DataFrame":
    """Rows of the older table whose keys are not in the newer one."""
    replaced = set(newer[list(by)].itertuples(index=False, name=None))
    return older[[key not in replaced for key in older[list(by)].itertuples(index=False, name=None)]]
