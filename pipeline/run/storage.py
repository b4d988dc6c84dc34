"""Files on this machine's disk or in an object store (fsspec), and the images of a run: single files, or shards.

A shard holds the images and masks of some photos: a WebDataset tar, or a Parquet file with their bytes. What is in the
files is decided elsewhere.
"""

import json
import os
import re
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from pipeline.config.options import ConfigError
from pipeline.run.files import atomic_write, sha256_of
from pipeline.run.record import RunError

# Protocol of a URL -> the package that it needs; the extra has the protocol's name.
PROTOCOLS = {"s3": "s3fs", "gs": "gcsfs", "abfs": "adlfs", "memory": None}
READERS = 16  # files of an object store that are read at once: each waits most of the time
SHARD = "images/{key}.{kind}"
# By which datasets of Hugging Face know that a column holds images.
IMAGE_COLUMN = {"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}}}})}
_SLICE = re.compile(r"(.+)#(\d+)\+(\d+)", re.DOTALL)
# What stores call the mark that changes when a file is written.
_MARKS = ("ETag", "etag", "md5Hash", "LastModified", "last_modified", "mtime", "created")

Result = TypeVar("Result")


class StorageError(RunError):
    """An object store cannot be reached; the message says which, and what to do."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file or a folder of an object store.

    Attributes:
        url: such as ``s3://bucket/folder/photo.jpg``.
        size: in bytes, as far as a listing told it.
        mark: of the listing: changes when the file is written.
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
        """The URL."""
        return self.url

    def exists(self) -> bool:
        """Whether there is such a file or folder."""
        with _system(self.url) as (system, path):
            found: bool = system.exists(path)
        return found

    def is_file(self) -> bool:
        """Whether there is such a file."""
        with _system(self.url) as (system, path):
            found: bool = system.isfile(path)
        return found

    def read_bytes(self, start: int | None = None, end: int | None = None) -> bytes:
        """The file's content, or its bytes from ``start`` to before ``end``.

        Raises:
            OSError: there is no such file, or it may not be read.
            StorageError: the store cannot be reached.
        """
        with _system(self.url) as (system, path):
            content: bytes = system.cat_file(path, start=start, end=end)
        return content

    def open(self, mode: str = "rb") -> BytesIO:
        """The whole content as a stream; see ``read_bytes``."""
        return BytesIO(self.read_bytes())

    def listed(self) -> "RemoteFile":
        """The same file with its size and mark; without them where there is none."""
        with _system(self.url) as (system, path):
            try:
                return _listed(self.url, system.info(path))
            except FileNotFoundError:
                return self

    def files(self, *, leave_out: Collection[str] = ()) -> "list[RemoteFile]":
        """Every file below the folder, with its size and mark; the file itself where it is one.

        Args:
            leave_out: names of files and folders in this one that are not looked at.
        """
        found: dict[str, Any] = {}
        with _system(self.url) as (system, path):
            # One listing of all, unless something is left out.
            for top in system.ls(path, detail=False) if leave_out else [path]:
                if top.rstrip("/").rpartition("/")[2] not in leave_out:
                    below = system.find(top, detail=True)
                    # Of a single file adlfs gives the name alone.
                    found |= below if isinstance(below, dict) else {name: system.info(name) for name in below}
        return [
            _listed(self.url.rstrip("/") + name.removeprefix(path.rstrip("/")), info)
            for name, info in found.items()
            if info.get("type", "file") == "file"
        ]

    def put(self, files: Mapping[str, Path]) -> None:
        """Write files of this machine below the folder, several at once: name below the folder -> file."""
        if files:
            with _system(self.url, reading=False) as (system, path):
                system.put(list(map(str, files.values())), [f"{path.rstrip('/')}/{name}" for name in files])

    def remove(self, names: Iterable[str]) -> None:
        """Remove files below the folder."""
        with _system(self.url, reading=False) as (system, path):
            if gone := [f"{path.rstrip('/')}/{name}" for name in names]:
                system.rm(gone)


@dataclass(frozen=True, slots=True)
class Slice:
    """Some bytes of a file: an image in a shard."""

    file: Path | RemoteFile
    start: int
    size: int

    def __str__(self) -> str:
        return f"{self.file}#{self.start}+{self.size}"

    @property
    def name(self) -> str:
        """The file's name, and the place in it."""
        return f"{self.file.name}#{self.start}+{self.size}"

    def exists(self) -> bool:
        """Whether the file is there."""
        return self.file.exists()

    def is_file(self) -> bool:
        """Whether the file is there."""
        return self.file.is_file()

    def read_bytes(self) -> bytes:
        """The image; see ``RemoteFile.read_bytes``."""
        if isinstance(self.file, RemoteFile):
            return self.file.read_bytes(self.start, self.start + self.size)
        with self.file.open("rb") as file:
            file.seek(self.start)
            return file.read(self.size)

    def open(self, mode: str = "rb") -> BytesIO:
        """The image as a stream."""
        return BytesIO(self.read_bytes())


@dataclass(frozen=True, slots=True)
class Fetched:
    """A file whose content, or the error of reading it, is here already."""

    content: bytes | OSError
    size: None = None

    def open(self, mode: str = "rb") -> BytesIO:
        """The content as a stream, or the error."""
        if isinstance(self.content, OSError):
            raise self.content
        return BytesIO(self.content)


Location = Path | RemoteFile
File = Path | RemoteFile | Slice
Shards = Literal["tar", "parquet"]


def fetched(files: Sequence[Location]) -> Sequence[Path | Fetched]:
    """Files as they are best read one after the other: those of an object store are read here, several at once.

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

    return _mapped(read, files)


def ending(file: File, *, parts: int = 3) -> str:
    """The last parts of a file's path, for messages."""
    return "/".join(str(file).split("/")[-parts:])


def sizes_of(files: Sequence[File]) -> list[int | None]:
    """How many bytes each file has; None where it is not there."""

    def size(file: File) -> int | None:
        if isinstance(file, Path):
            return file.stat().st_size if file.exists() else None
        return file.size if isinstance(file, Slice) or file.size is not None else file.listed().size

    return _mapped(size, files)


def listed(files: Sequence[Location]) -> list[Location]:
    """The same files, those of an object store with their size and mark."""
    return _mapped(lambda file: file if isinstance(file, Path) else file.listed(), files)


def _mapped(work: Callable[[Any], Result], files: Sequence[File]) -> list[Result]:
    """The results of some work, which waits for an object store if one of the files is in one."""
    if all(isinstance(file, Path) for file in files):
        return list(map(work, files))
    with ThreadPoolExecutor(READERS) as pool:
        return list(pool.map(work, files))


def location(text: str | Path | RemoteFile) -> Location:
    """What a path or a URL names.

    Raises:
        ConfigError: a URL has an unknown protocol, or a password in it.
    """
    if not isinstance(text, str) or "://" not in text:
        return text if isinstance(text, RemoteFile) else Path(text)
    protocol, _, rest = text.partition("://")
    if protocol == "file":
        return Path(rest)
    if protocol not in PROTOCOLS:
        known = ", ".join(f"{name}://" for name in ("file", *PROTOCOLS))
        raise ConfigError(f"{protocol}:// cannot be read or written: there are {known}")
    if urlsplit(text).password:
        raise ConfigError(f"a {protocol}:// address has a password in it: give credentials as that store's tools do")
    return RemoteFile(text.rstrip("/"))


@dataclass(frozen=True)
class ImageStore:
    """Where images and masks, or all files of a dataset, lie: by names below a folder of this machine or of an object
    store.

    Attributes:
        root: the folder.
        shards: write them into files of this kind, whose names are the keys of what they were made from.
        scratch: a folder of this machine for files on their way.
    """

    root: Location
    shards: Shards | None = None
    scratch: Path | None = None

    def file(self, name: str) -> File:
        """The file of a name; ``images/KEY.tar#START+SIZE`` (or ``.parquet``) is a part of a shard."""
        found = _SLICE.fullmatch(name)
        return self.root / name if found is None else Slice(self.root / found[1], int(found[2]), int(found[3]))

    def sums(self, names: Iterable[str]) -> dict[str, str]:
        """Name -> the file's sha256, in hex digits, of those that are there."""

        def sum_of(file: File) -> str | None:
            try:
                return sha256_of(file) if isinstance(file, Path) else sha256(file.read_bytes()).hexdigest()
            except FileNotFoundError:
                return None

        names = list(names)
        sums = _mapped(sum_of, [self.file(name) for name in names])
        return {name: found for name, found in zip(names, sums, strict=True) if found is not None}

    @contextmanager
    def writing(self, key: str) -> "Iterator[Writing]":
        """Give a folder of this machine to write files into; at the end they are where they belong.

        Args:
            key: names all that the files are made from: the same files are written again under the same names.
        """
        if isinstance(self.root, Path) and not self.shards:
            yield Writing(self.root)
            return
        if self.scratch is not None:
            self.scratch.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=self.scratch) as scratch:
            writing = Writing(Path(scratch))
            yield writing
            paths = sorted(path for path in Path(scratch).rglob("*") if path.is_file())
            files = {path.relative_to(scratch).as_posix(): path for path in paths}
            if self.shards is None and isinstance(self.root, RemoteFile):
                self.root.put(files)
            elif files:
                name = SHARD.format(key=key, kind=self.shards)
                writing.names.update(self._pack(files, name, Path(scratch) / "shard"))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, as far as they are there."""
        if isinstance(self.root, RemoteFile):
            self.root.remove([name for name in names if (self.root / name).is_file()])
        else:
            for name in names:
                (self.root / name).unlink(missing_ok=True)

    def prune(self, folders: Iterable[str], *, keep: Callable[[str], bool]) -> int:
        """Remove the files of some folders that are not kept, and folders that are left empty; how many files."""
        if isinstance(self.root, RemoteFile):
            start = len(self.root.url.rstrip("/")) + 1
            names = [file.url[start:] for folder in folders for file in (self.root / folder).files()]
            stale = [name for name in names if not keep(name)]
            self.root.remove(stale)
            return len(stale)
        removed = 0
        for folder in folders:
            for inside, _, files in os.walk(self.root / folder, topdown=False):
                for name in files:
                    path = Path(inside, name)
                    if not keep(path.relative_to(self.root).as_posix()):
                        path.unlink()
                        removed += 1
                if not any(Path(inside).iterdir()):
                    Path(inside).rmdir()
        return removed

    def _pack(self, files: Mapping[str, Path], name: str, scratch: Path) -> dict[str, str]:
        pack = _write_tar if self.shards == "tar" else _write_parquet
        if isinstance(self.root, Path):
            with atomic_write(self.root / name) as partial:
                return pack(files, name, partial)
        names = pack(files, name, scratch)
        self.root.put({name: scratch})
        return names


@dataclass(frozen=True)
class Writing:
    """Files being written into ``folder``; afterwards, ``names`` says under which names they are read, where these are
    not their own."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)


def _write_tar(files: Mapping[str, Path], name: str, path: Path) -> dict[str, str]:
    """Write a tar; the same files give the same bytes. File -> the name of its slice."""
    places = {}
    with path.open("wb") as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for member, file in files.items():
            content = file.read_bytes()
            info = tarfile.TarInfo(member)
            info.size = len(content)
            tar.addfile(info, BytesIO(content))
            blocks = -(-info.size // tarfile.BLOCKSIZE)
            places[member] = f"{name}#{stream.tell() - blocks * tarfile.BLOCKSIZE}+{info.size}"
    return places


def _write_parquet(files: Mapping[str, Path], name: str, path: Path) -> dict[str, str]:
    """Write a Parquet file whose column ``image`` has the files' bytes and names; see ``_write_tar``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    contents = [file.read_bytes() for file in files.values()]
    images = pa.StructArray.from_arrays([pa.array(contents, pa.binary()), pa.array(list(files))], ["bytes", "path"])
    table = pa.table({"image": images}).replace_schema_metadata(IMAGE_COLUMN)
    # As they are, so that every image is a slice of the file.
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    whole, place, places = path.read_bytes(), 0, {}
    for member, content in zip(files, contents, strict=True):
        place = whole.index(content, place)
        places[member] = f"{name}#{place}+{len(content)}"
        place += len(content)
    return places


def _listed(url: str, info: Mapping[str, Any]) -> RemoteFile:
    mark = next((str(info[name]) for name in _MARKS if info.get(name)), "")
    return RemoteFile(url, info.get("size"), mark)


@contextmanager
def _system(url: str, *, reading: bool = True) -> "Iterator[tuple[Any, str]]":
    """The file system of a URL and the path in it; errors become ``StorageError`` but for those of reading a file that
    is not there or may not be read."""
    import fsspec

    protocol = url.partition("://")[0]
    try:
        # Other processes write, too: what was listed once may have changed.
        yield fsspec.url_to_fs(url, use_listings_cache=False)
    except ImportError as error:
        package = PROTOCOLS[protocol]
        todo = f"pip install 'counterslope[{protocol}]'"
        raise ConfigError(f"{protocol}:// needs the package {package}: {todo}") from error
    except Exception as error:
        if reading and isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise StorageError(
            f"{url} cannot be used ({type(error).__name__}: {error}): see to the network and the credentials; the same "
            "command continues"
        ) from error
