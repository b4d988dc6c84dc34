"""Files on a local disk or in an object store (fsspec)."""

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import urlsplit

from pipeline.config.options import ConfigError
from pipeline.run.record import RunError

# Protocol of a URL -> the package that it needs; the extra has the protocol's name.
PROTOCOLS = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "memory": None}
READERS = 16  # files of an object store that are read at once
# Names of the mark that changes when a file is written, in different stores.
_MARKS = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "created")

Result = TypeVar("Result")


class StorageError(RunError):
    """An object store cannot be reached. The message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file or a folder of an object store.

    Attributes:
        url: a URL such as ``s3://bucket/folder/photo.jpg``.
        size: size in bytes, if known from a listing.
        mark: a text from the listing that changes when the file is written.
    """

    url: str
    size: int | None = field(default=None, compare=False)
    mark: str = field(default="", compare=False)

    def __str__(self) -> str:
        return self.url

    def __truediv__(self, name: str | PurePosixPath) -> "RemoteFile":
        return RemoteFile(f"{self.url.rstrip('/')}/{name}")

    @property
    def name(self) -> str:
        """The last part of the URL."""
        return self.url.rstrip("/").rpartition("/")[2]

    @property
    def parent(self) -> "RemoteFile":
        """The folder that the file is in."""
        return RemoteFile(self.url.rstrip("/").rpartition("/")[0])

    def as_posix(self) -> str:
        """Return the URL."""
        return self.url

    def exists(self) -> bool:
        """Return whether the file or folder exists."""
        with _system(self.url) as (system, path):
            found: bool = system.exists(path)
        return found

    def is_file(self) -> bool:
        """Return whether the file exists."""
        with _system(self.url) as (system, path):
            found: bool = system.isfile(path)
        return found

    def read_bytes(self, start: int | None = None, end: int | None = None) -> bytes:
        """Read the file, or its bytes from ``start`` to before ``end``.

        Raises:
            OSError: the file does not exist or may not be read.
            StorageError: the store cannot be reached.
        """
        with _system(self.url) as (system, path):
            content: bytes = system.cat_file(path, start=start, end=end)
        return content

    def open(self, mode: str = "rb") -> BytesIO:
        """Return the whole content as a stream; see ``read_bytes``."""
        return BytesIO(self.read_bytes())

    def listed(self) -> "RemoteFile":
        """Return the file with its size and mark if it exists."""
        with _system(self.url) as (system, path):
            try:
                return _listed(self.url, system.info(path))
            except FileNotFoundError:
                return self

    def files(self, *, leave_out: Collection[str] = ()) -> "list[RemoteFile]":
        """Return all files below the folder, or the file itself, with sizes and marks.

        Args:
            leave_out: names of direct children to skip.
        """
        found: dict[str, Any] = {}
        with _system(self.url) as (system, path):
            # One listing of everything, unless something is skipped.
            for top in system.ls(path, detail=False) if leave_out else [path]:
                if top.rstrip("/").rpartition("/")[2] not in leave_out:
                    below = system.find(top, detail=True)
                    # adlfs returns only the name of a single file.
                    found |= below if isinstance(below, dict) else {name: system.info(name) for name in below}
        return [
            _listed(self.url.rstrip("/") + name.removeprefix(path.rstrip("/")), info)
            for name, info in found.items()
            if info.get("type", "file") == "file"
        ]

    def put(self, files: Mapping[str, Path]) -> None:
        """Upload local files (name below the folder -> file), several at once."""
        if files:
            with _system(self.url, reading=False) as (system, path):
                system.put(list(map(str, files.values())), [f"{path.rstrip('/')}/{name}" for name in files])

    def get(self, files: Mapping[str, Path]) -> None:
        """Download files (name below the folder -> local file), several at once. Folders are created."""
        if files:
            with _system(self.url, reading=False) as (system, path):
                system.get([f"{path.rstrip('/')}/{name}" for name in files], list(map(str, files.values())))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files below the folder, if they exist."""
        names = list(names)
        exist = in_parallel(RemoteFile.is_file, [self / name for name in names])
        with _system(self.url, reading=False) as (system, path):
            if gone := [f"{path.rstrip('/')}/{name}" for name, there in zip(names, exist, strict=True) if there]:
                system.rm(gone)


@dataclass(frozen=True, slots=True)
class Slice:
    """A range of bytes of a file: an image in a shard."""

    file: Path | RemoteFile
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.file}#{self.start}+{self.size}"

    @property
    def name(self) -> str:
        """The file's name and the range."""
        return f"{self.file.name}#{self.start}+{self.size}"

    def exists(self) -> bool:
        """Return whether the file exists."""
        return self.file.exists()

    def is_file(self) -> bool:
        """Return whether the file exists."""
        return self.file.is_file()

    def read_bytes(self) -> bytes:
        """Read the image; see ``RemoteFile.read_bytes``."""
        if isinstance(self.file, RemoteFile):
            return self.file.read_bytes(self.start, self.start + self.size)
        with self.file.open("rb") as file:
            file.seek(self.start)
            return file.read(self.size)

    def open(self, mode: str = "rb") -> BytesIO:
        """Return the image as a stream."""
        return BytesIO(self.read_bytes())


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file that has been read: its content, or the error."""

    content: bytes | OSError
    size: None = None

    def open(self, mode: str = "rb") -> BytesIO:
        """Return the content as a stream, or raise the error."""
        if isinstance(self.content, OSError):
            raise self.content
        return BytesIO(self.content)


Location = Path | RemoteFile
File = Path | RemoteFile | Slice


def fetched(files: Sequence[Location]) -> Sequence[Path | Fetched]:
    """Prefetch the files of an object store, several at once; return local files as they are.

    Raises:
        StorageError: a store cannot be reached.
    """

    def read(file: Location) -> Path | Fetched:
        if isinstance(file, Path):
            return file
        try:
            return Fetched(file.read_bytes())
        except OSError as error:
            return Fetched(error)

    return in_parallel(read, files)


def ending(file: File, *, parts: int = 3) -> str:
    """Return the last parts of a file's path, for messages."""
    return "/".join(str(file).split("/")[-parts:])


def sizes_of(files: Sequence[File]) -> list[int | None]:
    """Return the size of each file in bytes, or None if it does not exist."""

    def size(file: File) -> int | None:
        if isinstance(file, Path):
            return file.stat().st_size if file.exists() else None
        return file.size if isinstance(file, Slice) or file.size is not None else file.listed().size

    return in_parallel(size, files)


def listed(files: Sequence[Location]) -> list[Location]:
    """Return the files, those of an object store with their size and mark."""
    return in_parallel(lambda file: file if isinstance(file, Path) else file.listed(), files)


def in_parallel(work: Callable[[Any], Result], files: Sequence[File]) -> list[Result]:
    """Map a function over files, in threads if one of them is in an object store."""
    if all(isinstance(file, Path) for file in files):
        return list(map(work, files))
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(work, files))


def absolute(place: Location) -> Location:
    """Return an absolute path without ``..``; URLs are unchanged."""
    return Path(os.path.normpath(place.absolute())) if isinstance(place, Path) else place


def location(text: str | Path | RemoteFile) -> Location:
    """Return the location of a path or URL.

    Raises:
        ConfigError: a URL has an unknown protocol, or contains a password.
    """
    if not isinstance(text, str) or "://" not in text:
        return text if isinstance(text, RemoteFile) else Path(text)
    protocol, _, rest = text.partition("://")
    if protocol == "file":
        return Path(rest)
    if protocol not in PROTOCOLS:
        known = ", ".join(f"{name}://" for name in ("file", *PROTOCOLS))
        raise ConfigError(f"{protocol}:// is not supported; choose from {known}")
    if urlsplit(text).password:
        raise ConfigError(
            f"a {protocol}:// address contains a password: pass credentials by the environment or the store's own files"
        )
    return RemoteFile(text.rstrip("/"))


def _listed(url: str, info: Mapping[str, Any]) -> RemoteFile:
    mark = next((str(info[name]) for name in _MARKS if info.get(name)), "")
    return RemoteFile(url, info.get("size"), mark)


@contextmanager
def _system(url: str, *, reading: bool = True) -> "Iterator[tuple[Any, str]]":
    """Yield the file system of a URL and the path in it.

    Errors become ``StorageError``, except on reading a file that does not exist or may not be read.
    """
    import fsspec

    protocol = url.partition("://")[0]
    try:
        # Without a cache, because other processes may write.
        yield fsspec.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package = PROTOCOLS[protocol]
        todo = f"pip install 'counterslope[{protocol}]'"
        raise ConfigError(f"{protocol}:// needs the package {package}: {todo}") from error
    except Exception as error:
        if reading and isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise StorageError(
            f"{url} cannot be used ({type(error).__name__}: {error}): check the network and the credentials, then "
            "repeat the command to continue"
        ) from error
