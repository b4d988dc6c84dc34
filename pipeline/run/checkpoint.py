"""Copies of a run's files to the object store with its images, and back to another machine."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

from pipeline.run.files import PARTIAL
from pipeline.run.record import RunError
from pipeline.run.storage import RemoteFile

RECORD = "run.json"
IMAGES = ("images", "masks", "masked")
SCRATCH = "scratch"  # folder of a run for temporary files
# Not copied, because it can be recreated or is in the object store already.
LEFT_OUT = (*IMAGES, SCRATCH, "films", "parts", "sent", ".lock")
ANOTHER = "{url} holds another run than {folder}: change --images-to, or continue that run with another --out"
NOT_EMPTY = "{url} holds files but no run: name an empty folder with --images-to (or --out)"

Marks = dict[str, tuple[int, int]]  # name -> size and modification time


def copy_run(folder: Path, to: RemoteFile, *, copied: Marks) -> Marks:
    """Copy a run's tables, answers and, last, its record. Databases are copied as consistent snapshots.

    Args:
        folder: the run's folder.
        to: the folder of the object store.
        copied: the result of an earlier call. Files unchanged since then are skipped.

    Raises:
        StorageError: the store cannot be reached.
    """
    paths = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
    wanted = {
        name: path
        for name, path in paths.items()
        if name.partition("/")[0] not in LEFT_OUT and not name.endswith((PARTIAL, "-wal", "-shm"))
    }
    marks = {name: _mark(path, paths.get(f"{name}-wal")) for name, path in wanted.items()}
    changed = {name: path for name, path in wanted.items() if copied.get(name) != marks[name]}
    (folder / SCRATCH).mkdir(exist_ok=True)
    with TemporaryDirectory(dir=folder / SCRATCH) as scratch:
        for number, name in enumerate(name for name in changed if name.endswith(".sqlite")):
            changed[name] = _snapshot(changed[name], Path(scratch, str(number)))
        to.put({name: path for name, path in changed.items() if name != RECORD})
        to.put({name: path for name, path in changed.items() if name == RECORD})
    return marks


def fetch_run(folder: Path, source: RemoteFile) -> None:
    """Fetch a run that another machine began, unless this machine has it.

    Raises:
        RunError: the store holds another run than the folder, or images without a run, which could be overwritten.
        StorageError: the store cannot be reached.
    """
    kept, own = source / RECORD, folder / RECORD
    if not kept.exists():
        if any((source / name).exists() for name in IMAGES):
            raise RunError(NOT_EMPTY.format(url=source))
        return
    if own.exists():
        if json.loads(kept.read_bytes())["created"] != json.loads(own.read_bytes())["created"]:
            raise RunError(ANOTHER.format(url=source, folder=folder))
        return
    files = {file.url[len(source.url) + 1 :]: file for file in source.files(leave_out=LEFT_OUT)}
    for name in sorted(files, key=lambda name: name == RECORD):  # the record completes the run
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name].read_bytes())


def _mark(path: Path, journal: Path | None) -> tuple[int, int]:
    states = [path.stat(), *([journal.stat()] if journal else [])]
    return sum(state.st_size for state in states), max(state.st_mtime_ns for state in states)


def _snapshot(path: Path, copy: Path) -> Path:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    return copy
