"""Copies of a run in an object store: written at checkpoints, fetched where a run is continued or read.

Every checkpoint of a run has a number. A folder never replaces a copy that another folder wrote after its own.
"""

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from uuid import uuid4

from pipeline.run.files import PARTIAL, write_bytes, write_text
from pipeline.run.record import RunError
from pipeline.run.storage import RemoteFile

RECORD = "run.json"
CHECKPOINT = "checkpoint.json"  # in the store, and in the folder as last written or fetched
IMAGES = ("images", "masks", "masked")
SCRATCH = "scratch"  # folder of a run for temporary files
# Not copied, because it can be recreated or is in the object store already.
LEFT_OUT = (*IMAGES, SCRATCH, "films", "sent", ".lock", CHECKPOINT)
# Files and folders that cannot be recreated: paid answers, answers of reviewers, edits of external editors.
UNIQUE = (".sqlite", ".jsonl", "edits/")
ANOTHER = "{url} holds another run than {folder}: change --images-to, or continue that run with another --out"
NOT_EMPTY = "{url} holds files but no run: name an empty folder with --images-to (or --out)"
CONTINUED = (
    "{url} was continued from another folder after the last copy from {folder}, so nothing is copied there: end the "
    "other process, then repeat the audit's own command, which fetches the newer copy"
)
DIVERGED = (
    "{url} was continued from another folder, and {folder} has answers that are not there ({names}): neither is "
    "changed. To continue the copy in the store, move {folder} to another place and repeat the command"
)

Mark = tuple[int, int]  # size and modification time


@dataclass(frozen=True)
class Checkpoint:
    """The state of a copy: its number, an id in case two folders write the same number, and the marks of its files."""

    number: int = 0
    id: str = ""
    files: Mapping[str, Mark] = field(default_factory=dict)

    def is_newer(self, other: "Checkpoint") -> bool:
        """Return whether this copy is neither the other one nor older."""
        return self.number > other.number or (self.number == other.number and self.id != other.id)


@dataclass(frozen=True)
class RunCopy:
    """The copy of a run's folder in a folder of an object store."""

    folder: Path
    store: RemoteFile

    def check(self) -> None:
        """Check that no other folder wrote the copy since this one did.

        Raises:
            RunError: another folder did.
            StorageError: the store cannot be reached.
        """
        if self._in_store().is_newer(self._known()):
            raise RunError(CONTINUED.format(url=self.store, folder=self.folder))

    def update(self) -> None:
        """Copy what changed: tables, parts, answers, then the record. Databases are copied as consistent snapshots.

        Raises:
            RunError, StorageError: see ``check``.
        """
        self.check()
        known, files = self._known(), self._files()
        marks = {name: _mark(path) for name, path in files.items()}
        changed = {name: path for name, path in files.items() if known.files.get(name) != marks[name]}
        gone = known.files.keys() - marks.keys()
        if not changed and not gone:
            return
        # Written before and after, so that a copy that is fetched in between counts as outdated.
        self._write(Checkpoint(known.number + 1, uuid4().hex, known.files))
        (self.folder / SCRATCH).mkdir(exist_ok=True)
        with TemporaryDirectory(dir=self.folder / SCRATCH) as scratch:
            for number, name in enumerate([name for name in changed if name.endswith(".sqlite")]):
                try:
                    changed[name] = _snapshot(changed[name], Path(scratch, str(number)))
                except sqlite3.DatabaseError:  # damaged, so the store keeps the last copy
                    del changed[name], marks[name]
            self.store.put({name: path for name, path in changed.items() if name != RECORD})
            self.store.put({name: path for name, path in changed.items() if name == RECORD})
        self.store.remove(gone)
        self._write(Checkpoint(known.number + 2, uuid4().hex, marks))

    def fetch(self) -> None:
        """Fetch the copy, unless the folder has the same or a newer state of the run.

        Raises:
            RunError: the store holds another run than the folder, or images without a run, which could be overwritten;
                or the copy is newer, but the folder has answers that it lacks.
            StorageError: the store cannot be reached.
        """
        record, own = self.store / RECORD, self.folder / RECORD
        if not record.exists():
            if any((self.store / name).exists() for name in IMAGES):
                raise RunError(NOT_EMPTY.format(url=self.store))
            return
        copy, known = self._in_store(), self._known()
        if own.exists():
            if json.loads(record.read_bytes())["created"] != json.loads(own.read_bytes())["created"]:
                raise RunError(ANOTHER.format(url=self.store, folder=self.folder))
            if not copy.is_newer(known):
                return
            unique = {name: path for name, path in self._files().items() if _is_unique(name)}
            if lost := [name for name, path in unique.items() if known.files.get(name) != _mark(path)]:
                raise RunError(DIVERGED.format(url=self.store, folder=self.folder, names=", ".join(lost)))
            own.unlink()  # if this is interrupted, the next call fetches everything
        found = {file.url[len(self.store.url) + 1 :] for file in self.store.files(leave_out=LEFT_OUT)}
        names = sorted(name for name in found - {RECORD} if ".." not in name.split("/"))
        self.store.get({name: self.folder / name for name in names})
        for name in self._files().keys() - set(names):
            if name in known.files or name.startswith("parts/"):  # of an earlier state of the run
                (self.folder / name).unlink()
        self._note(Checkpoint(copy.number, copy.id, {name: _mark(self.folder / name) for name in names}))
        write_bytes(own, record.read_bytes())  # the record completes the run

    def _files(self) -> dict[str, Path]:
        """Return name -> path of the files to copy; those of a database that is in use belong to the database."""
        # Without a look into the other folders, where running workers make and remove temporary ones.
        tops = [top for top in sorted(self.folder.glob("*")) if top.name not in LEFT_OUT]
        paths = [path for top in tops for path in (sorted(top.rglob("*")) if top.is_dir() else [top])]
        names = {path.relative_to(self.folder).as_posix(): path for path in paths if path.is_file()}
        return {name: path for name, path in names.items() if not name.endswith((PARTIAL, "-wal", "-shm"))}

    def _known(self) -> Checkpoint:
        path = self.folder / CHECKPOINT
        return _parsed(path.read_bytes()) if path.exists() else Checkpoint()

    def _in_store(self) -> Checkpoint:
        try:
            return _parsed((self.store / CHECKPOINT).read_bytes())
        except FileNotFoundError:
            return Checkpoint()

    def _note(self, checkpoint: Checkpoint) -> None:
        write_text(self.folder / CHECKPOINT, json.dumps(asdict(checkpoint)))

    def _write(self, checkpoint: Checkpoint) -> None:
        # First to the folder, which then recognises the copy as its own if it is killed before the next line.
        self._note(checkpoint)
        self.store.put({CHECKPOINT: self.folder / CHECKPOINT})


def _parsed(content: bytes) -> Checkpoint:
    fields = json.loads(content)
    return Checkpoint(fields["number"], fields["id"], {name: tuple(mark) for name, mark in fields["files"].items()})


def _is_unique(name: str) -> bool:
    return name.endswith(UNIQUE) or name.startswith(UNIQUE)


def _mark(path: Path) -> Mark:
    journal = path.with_name(f"{path.name}-wal")
    states = [path.stat(), *([journal.stat()] if journal.exists() else [])]
    return sum(state.st_size for state in states), max(state.st_mtime_ns for state in states)


def _snapshot(path: Path, copy: Path) -> Path:
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
        if target.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError(f"{path} is damaged")
    return copy
