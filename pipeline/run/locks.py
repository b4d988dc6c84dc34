"""Locks of folders on a local disk, so that one process at a time works on a run."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipeline.run.record import RunError
from pipeline.run.storage import PROTOCOLS

UNWRITABLE = "{folder} cannot be written ({error}): correct this, or name another folder with --out"
NOT_ON_A_DISK = "{protocol}:// is an object store, but this is written to a local disk: name a folder with --out"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against other processes. It is created if it is missing.

    Raises:
        RunError: another process holds the lock, or the folder cannot be written.
    """
    check_on_disk(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        opened = (folder / ".lock").open("w")
    except OSError as error:
        raise RunError(UNWRITABLE.format(folder=folder, error=error)) from error
    with opened as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise RunError(f"another process is working on {folder}") from error
        yield


def is_locked(folder: Path) -> bool:
    """Return whether a process is working on a folder; see ``locked``."""
    path = folder / ".lock"
    if not path.is_file():
        return False
    with path.open() as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def check_on_disk(folder: Path) -> None:
    """Check that a path is not a URL that was turned into one, which would create a folder named ``s3:``.

    Raises:
        RunError: it is one.
    """
    for protocol in PROTOCOLS:
        if f"{protocol}:" in folder.parts:
            raise RunError(NOT_ON_A_DISK.format(protocol=protocol))
