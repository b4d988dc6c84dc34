"""A run's folder: its record, its lock, the state of its stages, and chunked work that can be resumed."""

import logging
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from pipeline.config.flags import EVERY
from pipeline.config.options import Settings, StorageOptions
from pipeline.config.sources import overlaid, settings_from
from pipeline.run.checkpoint import RECORD, SCRATCH, RunCopy
from pipeline.run.engine import IN_PROCESS, Engine, Step, for_each, give_back, peak_mib
from pipeline.run.files import PARTIAL, digest, digest_of_files, write_text
from pipeline.run.image_store import ImageStore, Shards
from pipeline.run.locks import check_on_disk, is_locked, locked
from pipeline.run.record import STAGES, RunError, RunRecord, Stage, now, read_record, write_record
from pipeline.run.storage import Location, RemoteFile, StorageError, location
from pipeline.run.tables import column_types, frame_from_csv, frame_to_csv, to_table, write_table

if TYPE_CHECKING:
    import pandas as pd

NO_TABLE = "{folder} has no table {table!r} yet: write its tables with `counterslope report {folder}`"
DAMAGED_TABLE = "{path} is damaged ({error}): rewrite it with `counterslope report {folder}`"
NO_RUN_THERE = "there is no run at {url} (no run.json): make one with `counterslope audit … --out {url}`"
CHECKPOINT = 300.0  # seconds between copies to an object store while a stage runs
COPYING = 0.05  # largest share of the time for these copies
LOG = logging.getLogger("counterslope.run")
SHARDS: dict[str, Shards | None] = {"folder": None, "shards": "tar", "parquet": "parquet"}
# Files of a run that was killed before it wrote its first record.
BEFORE_THE_RECORD = {".lock", f"run.json{PARTIAL}"}


class Run:
    """A run's folder, opened for work by one process at a time.

    Raises:
        RunError: the folder is not a run, its record cannot be used, or it is not on this machine.
    """

    def __init__(self, folder: Path) -> None:
        check_on_disk(folder)
        self.folder = folder
        self.record = RunRecord()
        self._noting = RLock()  # two stages may run at once
        self._copying = RLock()
        self._due = time.monotonic() + CHECKPOINT
        path = folder / RECORD
        if path.exists():
            self.record = read_record(path)
        elif folder.exists() and (not folder.is_dir() or {file.name for file in folder.iterdir()} - BEFORE_THE_RECORD):
            raise RunError(f"{folder} exists and is not a run: name another folder with --out")

    def path(self, name: str) -> Path:
        """Return the path of a file or folder of the run."""
        return self.folder / name

    @property
    def images(self) -> ImageStore:
        """The store of the run's images and masks."""
        options = self.record.settings.storage if self.record.settings else StorageOptions()
        root = self.folder.absolute() if options.images_to is None else location(options.images_to)
        return ImageStore(root, shards=SHARDS[options.images], scratch=self.path(SCRATCH).absolute())

    @property
    def copy(self) -> RunCopy | None:
        """The copy of the run in the object store of its images, if there is one."""
        root = self.images.root
        return RunCopy(self.folder, root) if isinstance(root, RemoteFile) else None

    def checkpoint(self) -> None:
        """Copy the run's files to the object store of its images, if there is one.

        Raises:
            RunError: another folder wrote the copy meanwhile.
            StorageError: the store cannot be reached.
        """
        if (copy := self.copy) is not None:
            with self._copying:
                started = time.monotonic()
                copy.update()
                ended = time.monotonic()
                self._due = ended + max(CHECKPOINT, (ended - started) / COPYING)

    def checkpoint_if_due(self) -> None:
        """Copy the run's files if the last copy is old. A store that cannot be reached does not stop running work,
        because the end of the stage copies, too. Thread-safe.

        Raises:
            RunError: another folder wrote the copy meanwhile.
        """
        if time.monotonic() < self._due or not self._copying.acquire(blocking=False):
            return
        try:
            self.checkpoint()
        except StorageError as error:
            self._due = time.monotonic() + CHECKPOINT
            LOG.info(str(error))
        finally:
            self._copying.release()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the run against other processes; copy its files to its object store at the end.

        Raises:
            RunError: another process holds the lock, the folder cannot be written, or the copy in the object store is
                newer.
        """
        with locked(self.folder):
            if self.path(RECORD).exists():
                # Another process may have changed the run before the lock was taken.
                self.record = read_record(self.path(RECORD))
            if (copy := self.copy) is not None:
                copy.check()
            try:
                yield
            except StorageError:
                raise
            except BaseException:
                with suppress(RunError):
                    self.checkpoint()
                raise
            self.checkpoint()

    def note(self, **facts: Any) -> None:
        """Set fields of the record and write it. Thread-safe."""
        with self._noting:
            for name, value in facts.items():
                setattr(self.record, name, value)
            self.record.updated = now()
            write_record(self.record, self.path(RECORD))

    def csv_path(self, table: str) -> Path:
        """Return the file of a table of results."""
        return self.path("tables") / f"{table}.csv"

    def write_csv(self, table: str, frame: "pd.DataFrame") -> None:
        """Write a table of results, and the types of its columns to the record."""
        write_text(self.csv_path(table), frame_to_csv(frame))
        self.note(tables={**self.record.tables, table: column_types(frame)})

    def read_csv(self, table: str) -> "pd.DataFrame":
        """Read a table of results, such as ``slopes``, ``curves`` or ``validity``.

        Raises:
            RunError: the run has no such table, or the file is damaged.
        """
        path, types = self.csv_path(table), self.record.tables
        if not path.is_file():
            raise RunError(NO_TABLE.format(folder=self.folder, table=table))
        try:
            return frame_from_csv(path.read_text(encoding="utf-8"), types.get(table, types.get("*", {})))
        except ValueError as error:
            raise RunError(DAMAGED_TABLE.format(path=path, error=error, folder=self.folder)) from error

    def is_done(self, stage: str, fingerprint: str) -> bool:
        """Return whether a stage was finished with these inputs, and its files are unchanged."""
        return (
            self.record.is_done(stage)
            and self.record.stages[stage].fingerprint == fingerprint
            and not self.damaged(stage)
        )

    def damaged(self, stage: str) -> list[str]:
        """Return the files of a finished stage that are missing or changed."""
        outputs = self.record.stages[stage].outputs if stage in self.record.stages else {}
        return [name for name, digest in outputs.items() if _digest_of(self.path(name)) != digest]

    @contextmanager
    def stage(
        self,
        name: str,
        fingerprint: str,
        *,
        outputs: Collection[str] = (),
        try_again: str | None = None,
        engine: Engine = IN_PROCESS,
    ) -> Iterator[dict[str, int]]:
        """Record a stage while it runs; the caller fills the yielded counts.

        After an exception the stage is "stopped" in the record.

        Args:
            name: the stage's name in the record.
            fingerprint: a digest of everything that its result depends on.
            outputs: the files of the run that the stage writes; names may be added while it runs.
            try_again: the count of items that may succeed later, such as failures of a network. If it is not 0, the
                stage ends "incomplete", and repeating the command retries them.
            engine: executes the stage's jobs. The memory of its processes is included in the peak.
        """
        before = self.record.stages.get(name)
        counts: dict[str, int] = {}
        stage = Stage(fingerprint=fingerprint)
        if before is not None and before.fingerprint == fingerprint:
            stage.seconds = before.seconds
        started = time.monotonic()
        self._keep(name, stage)
        try:
            yield counts
        except BaseException:
            stage.state = "stopped"
            raise
        else:
            left = try_again is not None and counts.get(try_again, 0) > 0
            stage.state, stage.finished = "incomplete" if left else "done", now()
            stage.outputs = {file: digest_of_files(self.path(file)) for file in outputs}
        finally:
            stage.counts = counts
            stage.seconds = round(stage.seconds + time.monotonic() - started, 2)
            stage.peak_mib = round(peak_mib() + engine.peak_mib, 1)
            self._keep(name, stage)
            give_back()
        self.checkpoint()

    def _keep(self, name: str, stage: Stage) -> None:
        with self._noting:
            stages = {**self.record.stages, name: stage.model_copy()}
            self.note(stages={stage: stages[stage] for stage in sorted(stages, key=_place)})

    def parts(
        self,
        name: str,
        chunks: Iterable[Sequence[Mapping[str, Any]]],
        *,
        fingerprint: str,
        columns: Mapping[str, str],
        work: Callable[[Sequence[Mapping[str, Any]], Step], Iterable[Mapping[str, Any]]],
        advance: Step,
        engine: Engine = IN_PROCESS,
    ) -> list[Path]:
        """Process chunks of rows and write each result to a file, so that a killed run resumes with the next chunk.

        The file is named by a digest of its inputs. Chunks must be the same after a restart, because rounding in a
        network may depend on the rest of the batch.

        Args:
            name: the stage's name.
            chunks: chunks of rows; iterable more than once.
            fingerprint: a digest of everything except the rows that the result depends on.
            columns: the columns of the result.
            work: a function from the rows of a chunk, and a function to report numbers of finished rows, to the rows
                of the result. Rows that it does not report are counted when it returns.
            advance: called with numbers of finished rows.
            engine: its size is the number of chunks that threads process at once.

        Returns:
            The Parquet files, in the order of the chunks.
        """
        made = []

        def missing() -> Iterator[tuple[Sequence[Mapping[str, Any]], Path]]:
            for chunk in chunks:
                made.append(self._part(name, fingerprint, chunk))
                if made[-1].exists():
                    advance(len(chunk))
                else:
                    yield chunk, made[-1]

        def make(item: tuple[Sequence[Mapping[str, Any]], Path]) -> None:
            (chunk, part), counted = item, [0.0]

            def step(count: float) -> None:
                counted.append(count)
                advance(count)

            write_table(to_table(work(chunk, step), columns), part)
            advance(len(chunk) - sum(counted))
            self.checkpoint_if_due()

        for_each(engine, missing(), make)
        return made

    def keep_only_parts(self, name: str, chunks: Iterable[Sequence[Mapping[str, Any]]], *, fingerprint: str) -> None:
        """Remove the parts of other chunks, because the files that they list may be rewritten for these chunks."""
        wanted = {self._part(name, fingerprint, chunk).name for chunk in chunks}
        for part in (self.path("parts") / name).glob("*"):
            if part.name not in wanted:
                part.unlink()

    def _part(self, name: str, fingerprint: str, chunk: Sequence[Mapping[str, Any]]) -> Path:
        return self.path("parts") / name / f"{part_key(fingerprint, chunk)}.parquet"

    def drop_parts(self, name: str) -> None:
        """Remove the parts of a finished stage, which its table contains."""
        folder = self.path("parts") / name
        for part in folder.glob("*"):
            part.unlink()
        for empty in (folder, folder.parent):
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


def _place(stage: str) -> int:
    return STAGES.index(stage) if stage in STAGES else len(STAGES)


def folder_of(url: RemoteFile) -> Path:
    """Return the local folder of a run in an object store: ``runs/PROTOCOL/…``."""
    return Path("runs", url.url.replace("://", "/"))


def local_run(place: Location) -> Path:
    """Return a run's local folder; a run in an object store is fetched, unless a local process is working on it.

    Raises:
        RunError: the store has no run there, or it cannot be fetched; see ``RunCopy.fetch``.
        StorageError: the store cannot be reached.
    """
    if isinstance(place, Path):
        return place
    if not (place / RECORD).is_file():
        raise RunError(NO_RUN_THERE.format(url=place))
    folder = folder_of(place)
    if not is_locked(folder):
        with locked(folder):
            RunCopy(folder, place).fetch()
    return folder


def settings_of(run: Run, changes: Mapping[str, Mapping[str, Any]] | None = None) -> Settings:
    """Return the options of a run with changes. Limits of calls and cost, and engine options, are not inherited.

    Args:
        run: an opened run.
        changes: section -> option -> value; None means no change.

    Raises:
        RunError: the folder holds no run.
        ConfigError: a change is invalid.
    """
    if run.record.settings is None:
        raise RunError(f"{run.folder} holds no run (there is no run.json): make one with `counterslope audit`")
    kept = run.record.settings.model_dump(mode="json")
    kept["query"] |= {"max_calls": None, "max_cost": None}
    kept.pop("engine", None)
    for section, options in (changes or {}).items():
        given = {name: value for name, value in options.items() if value is not None}
        if "adapters" in given:  # options of removed adapters are removed, too
            kept[section] = _only_adapters(given["adapters"], kept[section])
        kept[section] = overlaid(kept.get(section, {}), given)
    return settings_from(kept)


def _only_adapters(adapters: Sequence[str], query: Mapping[str, Any]) -> dict[str, Any]:
    """Return the section ``query`` without the options of other adapters."""
    return {
        name: {adapter: value for adapter, value in table.items() if adapter in (*adapters, EVERY)}
        if isinstance(table, dict)
        else table
        for name, table in query.items()
    }


def part_key(fingerprint: str, chunk: Sequence[Mapping[str, Any]]) -> str:
    """Return the digest that names the result of a chunk; see ``Run.parts``."""
    return digest([fingerprint, list(chunk)])


def _digest_of(path: Path) -> str | None:
    """Return the digest of a file, or None if it cannot be read."""
    try:
        return digest_of_files(path)
    except OSError:
        return None


def chunks_of(rows: Sequence[Mapping[str, Any]], *, size: int) -> list[list[Mapping[str, Any]]]:
    """Split rows into chunks of ``size``."""
    return [list(rows[start : start + size]) for start in range(0, len(rows), size)]
