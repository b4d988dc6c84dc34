"""One run: its folder, its record (``run.json``), which stages are done, and work in chunks that survives a kill.

What the stages do is in ``pipeline.stages.stages``; nothing here knows a photo or a classifier.
"""

import fcntl
import json
import platform
import resource
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.run.tables import schema, to_table, write_table

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA_VERSION = 1
PACKAGES = (
    "counterslope", "torch", "torchvision", "facenet-pytorch", "opencv-python-headless", "numpy", "scipy",
    "statsmodels", "pandas", "pyarrow", "pillow", "requests", "altair", "vl-convert-python",
)  # fmt: skip


# What a run that was killed before its first record leaves behind.
BEFORE_THE_RECORD = {".lock", "run.json.partial"}


class RunError(Exception):
    """A run's folder cannot be used; the message says why and what to do."""


@dataclass
class Stage:
    """What the record keeps of one stage.

    ``fingerprint`` names everything its result depends on; ``counts`` holds planned, ok, failed, excluded and whatever
    else the stage counts; ``seconds`` adds up over restarts; ``peak_mib`` is the process's peak memory at its end.
    """

    fingerprint: str
    state: str = "running"
    counts: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0
    peak_mib: float = 0.0
    finished: str | None = None


class Run:
    """A run's folder, opened for work by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.record: dict[str, Any] = {"schema": SCHEMA_VERSION, "created": _now(), "stages": {}}
        path = folder / "run.json"
        if path.exists():
            self.record = _read_record(path)
        elif folder.exists() and (not folder.is_dir() or {file.name for file in folder.iterdir()} - BEFORE_THE_RECORD):
            raise RunError(f"{folder} exists and is not a run: name another folder with --out")

    def path(self, name: str) -> Path:
        """A file or folder of the run."""
        return self.folder / name

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes from working on the run.

        Raises:
            RunError: another process does.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.path(".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise RunError(f"another process is working on {self.folder}") from error
            if self.path("run.json").exists():
                # Another process may have finished its work between our opening the folder and taking the lock.
                self.record = _read_record(self.path("run.json"))
            yield

    def busy(self) -> bool:
        """Whether a process is working on the run at this moment."""
        path = self.path(".lock")
        if not path.exists():
            return False
        with path.open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except OSError:
                return True
        return False

    def note(self, **facts: Any) -> None:
        """Add facts to the record and write it."""
        self.record |= facts
        self.record["updated"] = _now()
        self.folder.mkdir(parents=True, exist_ok=True)
        partial = self.path("run.json.partial")
        partial.write_text(json.dumps(self.record, indent=2, default=str) + "\n", encoding="utf-8")
        partial.replace(self.path("run.json"))

    def is_done(self, stage: str, fingerprint: str) -> bool:
        """Whether a stage was finished from exactly these inputs."""
        kept = self.record["stages"].get(stage)
        return kept is not None and kept["state"] == "done" and kept["fingerprint"] == fingerprint

    @contextmanager
    def stage(self, name: str, fingerprint: str, *, try_again: str | None = None) -> Iterator[dict[str, int]]:
        """Record a stage while it runs; the caller fills the yielded counts.

        An exception leaves the stage as "stopped" in the record, so that ``status`` tells where a run ended.

        Args:
            name: of the stage.
            fingerprint: of all that its result depends on.
            try_again: the count of what may succeed another time (a network, a server): with any, the stage ends
                "incomplete", not "done", and the next run of the same command tries again.
        """
        kept = self.record["stages"].get(name)
        again = kept is not None and kept["fingerprint"] == fingerprint
        stage = Stage(fingerprint, seconds=kept["seconds"] if again else 0.0)
        started = time.monotonic()
        self._keep(name, stage)
        try:
            yield stage.counts
        except BaseException:
            stage.state = "stopped"
            raise
        else:
            left = try_again is not None and stage.counts.get(try_again, 0) > 0
            stage.state, stage.finished = "incomplete" if left else "done", _now()
        finally:
            stage.seconds = round(stage.seconds + time.monotonic() - started, 2)
            stage.peak_mib = round(peak_mib(), 1)
            self._keep(name, stage)

    def _keep(self, name: str, stage: Stage) -> None:
        stages = dict(self.record["stages"])
        stages[name] = vars(stage).copy()
        self.note(stages=stages)

    def in_chunks(
        self,
        name: str,
        chunks: Iterable[Sequence[Mapping[str, Any]]],
        *,
        fingerprint: str,
        columns: Mapping[str, str],
        work: Callable[[Sequence[Mapping[str, Any]]], Iterable[Mapping[str, Any]]],
        advance: Callable[[int], None],
    ) -> "pa.Table":
        """Work through chunks of rows as ``parts`` does; the whole result as one table.

        Args:
            work: rows of a chunk -> rows of the result, with ``columns``.
            advance: told how many rows were done.
        """
        import pyarrow as pa
        import pyarrow.parquet as pq

        parts = self.parts(name, chunks, fingerprint=fingerprint, columns=columns, work=work, advance=advance)
        tables = [pq.read_table(part) for part in parts]
        return pa.concat_tables(tables) if tables else schema(columns).empty_table()

    def parts(
        self,
        name: str,
        chunks: Iterable[Sequence[Mapping[str, Any]]],
        *,
        fingerprint: str,
        columns: Mapping[str, str],
        work: Callable[[Sequence[Mapping[str, Any]]], Iterable[Mapping[str, Any]]],
        advance: Callable[[int], None],
    ) -> list[Path]:
        """Work through chunks of rows; each result is kept at once, so a killed run goes on with the next chunk.

        A part's name says what it was made from. The same chunk is never cut differently on a restart, because a
        network's last bits may depend on what else is in its batch.

        Args:
            chunks: may be gone through more than once.
            fingerprint: of all that the work depends on beside the rows.
            work: rows of a chunk -> rows of the result, with ``columns``.
            advance: told how many rows were done.

        Returns:
            The parts' Parquet files, in the order of the chunks.
        """
        made = []
        for chunk in chunks:
            part = self._part(name, fingerprint, chunk)
            if not part.exists():
                write_table(to_table(work(chunk), columns), part)
            made.append(part)
            advance(len(chunk))
        return made

    def keep_only_parts(self, name: str, chunks: Iterable[Sequence[Mapping[str, Any]]], *, fingerprint: str) -> None:
        """Remove the parts of a stage that are not of these chunks: what they tell of files may hold no longer once
        other chunks are worked on."""
        wanted = {self._part(name, fingerprint, chunk).name for chunk in chunks}
        for part in (self.path("parts") / name).glob("*"):
            if part.name not in wanted:
                part.unlink()

    def _part(self, name: str, fingerprint: str, chunk: Sequence[Mapping[str, Any]]) -> Path:
        return self.path("parts") / name / f"{digest([fingerprint, list(chunk)])}.parquet"

    def drop_parts(self, name: str) -> None:
        """Remove the parts of a finished stage; its table holds them all."""
        folder = self.path("parts") / name
        for part in folder.glob("*"):
            part.unlink()
        for empty in (folder, folder.parent):
            if empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()


def _read_record(path: Path) -> dict[str, Any]:
    try:
        record: Any = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read: {error}") from error
    found = record.get("schema") if isinstance(record, dict) else None
    if found != SCHEMA_VERSION:
        raise RunError(
            f"{path.parent} was written in schema {found!r}, this program writes {SCHEMA_VERSION}: "
            "name another folder with --out"
        )
    return dict(record)


def digest(content: Any) -> str:
    """Sixteen hex digits that name a JSON-like value."""
    return sha256(json.dumps(content, sort_keys=True, default=str).encode()).hexdigest()[:16]


def digest_of_files(*paths: Path) -> str:
    """Sixteen hex digits that name the content of files."""
    content = sha256()
    for path in paths:
        with path.open("rb") as file:
            content.update(file_digest(file, "sha256").digest())
    return content.hexdigest()[:16]


def chunks_of(rows: Sequence[Mapping[str, Any]], *, size: int) -> list[list[Mapping[str, Any]]]:
    """Rows in chunks of ``size``."""
    return [list(rows[start : start + size]) for start in range(0, len(rows), size)]


def peak_mib() -> float:
    """The most memory this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def provenance() -> dict[str, Any]:
    """What made the run: versions of the code, Python and packages."""
    versions = {}
    for package in PACKAGES:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {"python": platform.python_version(), "platform": platform.platform(), "packages": versions, **_git_state()}


def _git_state() -> dict[str, Any]:
    source = Path(__file__).resolve().parents[2]

    def git(*arguments: str) -> str | None:
        try:
            done = subprocess.run(  # noqa: S603 - fixed words, no user input
                ["git", "-C", str(source), *arguments],  # noqa: S607 - git is where the user has it
                capture_output=True, text=True, timeout=10, check=True,
            )  # fmt: skip
        except (OSError, subprocess.SubprocessError):
            return None
        return done.stdout.strip()

    if not (source / ".git").exists():
        return {"git_commit": None, "git_dirty": None}
    changes = git("status", "--porcelain")
    return {"git_commit": git("rev-parse", "HEAD"), "git_dirty": None if changes is None else bool(changes)}


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
