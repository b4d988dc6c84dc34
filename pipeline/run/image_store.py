"""The images and masks of a run, or the files of a dataset: single files or shards, on a disk or in an object store.

A shard is a WebDataset tar file or a Parquet file with the images, masks or both of several photos.
"""

import json
import os
import re
import tarfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from io import BytesIO
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from pipeline.run.files import atomic_write, sha256_of
from pipeline.run.storage import File, Location, RemoteFile, Slice, in_parallel

SHARD = "{folder}/{key}.{kind}"
# Tells Hugging Face's datasets library that a column holds images.
IMAGE_COLUMN = {"huggingface": json.dumps({"info": {"features": {"image": {"_type": "Image"}}}})}
_SLICE = re.compile(r"(.+)#(\d+)\+(\d+)", re.DOTALL)

Shards = Literal["tar", "parquet"]
Facts = dict[str, Mapping[str, Any]]  # file -> column -> value


@dataclass(frozen=True)
class ImageStore:
    """Images and masks, or all files of a dataset, by their names below a local folder or one of an object store.

    Attributes:
        root: the folder.
        shards: the kind of shards to write, if any.
        scratch: a local folder for temporary files.
    """

    root: Location
    shards: Shards | None = None
    scratch: Path | None = None

    def file(self, name: str) -> File:
        """Return the file of a name; ``images/KEY.tar#START+SIZE`` (or ``.parquet``) is an image in a shard."""
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
        sums = in_parallel(sum_of, [self.file(name) for name in names])
        return {name: found for name, found in zip(names, sums, strict=True) if found is not None}

    @contextmanager
    def writing(self, key: str) -> "Iterator[Writing]":
        """Yield a local folder to write files into; store them at the end.

        Args:
            key: a digest of everything that the files depend on; the name of their shards, one in each folder of files.
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
                for folder, names in groupby(files, key=lambda name: name.partition("/")[0]):
                    shard = SHARD.format(folder=folder, key=key, kind=self.shards)
                    members = {name: files[name] for name in names}
                    writing.names.update(self._pack(members, writing.facts, shard, Path(scratch) / "shard"))

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, if they exist."""
        if isinstance(self.root, RemoteFile):
            self.root.remove(names)
        else:
            for name in names:
                (self.root / name).unlink(missing_ok=True)

    def prune(self, folders: Iterable[str], *, keep: Callable[[str], bool]) -> int:
        """Remove the files in folders that ``keep`` rejects, and empty folders; return the number of removed files."""
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

    def _pack(self, files: Mapping[str, Path], facts: Facts, name: str, scratch: Path) -> dict[str, str]:
        def pack(path: Path) -> dict[str, str]:
            return _write_tar(files, name, path) if self.shards == "tar" else _write_parquet(files, facts, name, path)

        if isinstance(self.root, Path):
            with atomic_write(self.root / name) as partial:
                return pack(partial)
        names = pack(scratch)
        self.root.put({name: scratch})
        return names


@dataclass(frozen=True)
class Writing:
    """Files that are written into ``folder``; afterwards ``names`` maps them to their names in shards. Parquet shards
    have columns of the ``facts`` about them."""

    folder: Path
    names: dict[str, str] = field(default_factory=dict)
    facts: Facts = field(default_factory=dict)


def _member(file: str) -> str:
    """Return the name of a file in its shard, which is in the file's folder."""
    return file.partition("/")[2]


def _write_tar(files: Mapping[str, Path], name: str, path: Path) -> dict[str, str]:
    """Write a reproducible tar file; return file -> name of its slice."""
    places = {}
    with path.open("wb") as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for file, source in files.items():
            content = source.read_bytes()
            info = tarfile.TarInfo(_member(file))
            info.size = len(content)
            tar.addfile(info, BytesIO(content))
            blocks = -(-info.size // tarfile.BLOCKSIZE)
            places[file] = f"{name}#{stream.tell() - blocks * tarfile.BLOCKSIZE}+{info.size}"
    return places


def _write_parquet(files: Mapping[str, Path], facts: Facts, name: str, path: Path) -> dict[str, str]:
    """Write a Parquet file whose column ``image`` has the files' bytes and names; see ``_write_tar``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    contents = [source.read_bytes() for source in files.values()]
    paths = pa.array(list(map(_member, files)))
    columns = {"image": pa.StructArray.from_arrays([pa.array(contents, pa.binary()), paths], ["bytes", "path"])}
    for column in dict.fromkeys(column for file in files for column in facts.get(file, ())):
        columns[column] = pa.array([facts.get(file, {}).get(column) for file in files])
    table = pa.table(columns).replace_schema_metadata(IMAGE_COLUMN)
    # Without compression, so that every image is a slice of the file.
    pq.write_table(table, path, compression="none", use_dictionary=False, write_statistics=False)
    whole, place, places = path.read_bytes(), 0, {}
    for file, content in zip(files, contents, strict=True):
        place = whole.index(content, place)
        places[file] = f"{name}#{place}+{len(content)}"
        place += len(content)
    return places
