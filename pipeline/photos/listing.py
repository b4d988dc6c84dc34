"""The photos of a run: which files there are, whether each can be used, and why not.

How a file becomes pixels is in ``pipeline.photos.decoding``; what a manifest holds, in ``pipeline.photos.manifest``.
"""

import hashlib
import io
import os
import stat
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipeline.config.options import PhotoOptions
from pipeline.photos.decoding import ACCEPTED, Photo, PhotoError, Reason, decode
from pipeline.photos.manifest import ENDINGS, ManifestError, read_manifest
from pipeline.photos.opt_out import NOBODY, OptOut
from pipeline.run.tables import PHOTOS, to_table

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 64
THREADS = 2  # decoding lets go of Python's lock, so they do run at once

__all__ = ["NoUsablePhotos", "PhotoError", "PhotoList", "check_photos", "find_photos", "photo_rows", "read_photo"]


class NoUsablePhotos(Exception):  # noqa: N818 - says what it is
    """The input holds nothing to audit; the message counts why, and says what is accepted."""


@dataclass(frozen=True)
class PhotoList:
    """The candidates of a run, not opened yet.

    ``paths`` are absolute; ``names`` are what the tables call them, unique; ``columns`` holds a manifest's other
    columns, row for row.
    """

    names: tuple[str, ...]
    paths: tuple[Path, ...]
    columns: "pa.Table | None" = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def fingerprint(self) -> str:
        """Hex digits that change when a file is added, removed, moved or written, or a manifest's column is."""
        content = hashlib.sha256()
        for name, path in zip(self.names, self.paths, strict=True):
            try:
                state = path.stat()
                written = f"{state.st_size} {state.st_mtime_ns}"
            except (OSError, ValueError):
                written = "missing"
            content.update(f"{name}\0{path}\0{written}\0".encode("utf-8", "surrogateescape"))
        if self.columns is not None:
            content.update(repr(self.columns.schema.remove_metadata()).encode())
            for column in self.columns.columns:
                content.update(repr(column.to_pylist()).encode("utf-8", "surrogatepass"))
        return content.hexdigest()


def find_photos(inputs: Sequence[Path]) -> PhotoList:
    """List the photos of a folder (with its subfolders; hidden files are left out), of files, or of one manifest.

    A photo is named by its path from the folder, from the manifest's folder, or from the folder that the files share.
    Every file is listed, whatever its name; one that is named twice is listed once.

    Raises:
        NoUsablePhotos: nothing is listed, a folder stands among other inputs, or a manifest cannot be used.
    """
    if not inputs:
        raise NoUsablePhotos("no photos were named: give a folder, files, or a CSV or Parquet manifest")
    # Absolute, so that the same run can be continued from another working folder.
    paths = list(dict.fromkeys(Path(os.path.normpath(path.absolute())) for path in inputs))
    if len(paths) == 1 and paths[0].is_dir():
        found = tuple(_files(paths[0]))
        if not found:
            raise NoUsablePhotos(f"the folder {paths[0]} holds no file; {_accepted()}")
        return PhotoList(_names(found, paths[0]), found)
    if len(paths) == 1 and paths[0].suffix.lower() in ENDINGS and paths[0].is_file():
        try:
            manifest = read_manifest(paths[0])
        except ManifestError as error:
            raise NoUsablePhotos(str(error)) from error
        return PhotoList(_names(manifest.photos, paths[0].parent), manifest.photos, manifest.columns)
    folders = [path for path in paths if path.is_dir()]
    if folders:
        raise NoUsablePhotos(f"{folders[0]} is a folder among other inputs: give one folder, or files only")
    return PhotoList(_names(paths, Path(os.path.commonpath([path.parent for path in paths]))), tuple(paths))


def read_photo(path: Path, *, options: PhotoOptions) -> Photo:
    """One photo, upright RGB, at most ``options.long_side`` pixels long.

    Raises:
        PhotoError: the file cannot be used; its ``reason`` says why.
    """
    with _opened(path, options) as stream:
        return decode(stream, long_side=options.long_side, max_megapixels=options.max_megapixels)


def photo_rows(found: PhotoList, *, options: PhotoOptions, opt_out: OptOut = NOBODY) -> Iterator[dict[str, Any]]:
    """Check every photo by decoding it; rows of ``records.PHOTOS`` in the list's order, as they are done.

    ``width`` and ``height`` are those of the pixels that `read_photo` gives, in which faces are measured. A photo that
    ``opt_out`` lists, or a copy of one, is not decoded.
    """
    opt_out = opt_out.with_hashes_of(found.names, found.paths)

    def check(path: Path) -> dict[str, Any]:
        return _check(path, options, opted_out=opt_out.hashes)

    first: dict[str, str] = {}  # sha256 -> the usable photo that had it first
    with ThreadPoolExecutor(THREADS) as pool:
        for start in range(0, len(found), CHUNK):
            names, paths = found.names[start : start + CHUNK], found.paths[start : start + CHUNK]
            # Chunk by chunk, because a pool takes in all its work at once.
            for name, path, checked in zip(names, paths, pool.map(check, paths), strict=True):
                row = {"photo": name, "path": _utf8(path), **checked}
                if row["status"] == "ok" and first.setdefault(row["sha256"], name) != name:
                    row |= _refusal(PhotoError(Reason.DUPLICATE, first[row["sha256"]]))
                yield row


def check_photos(
    found: PhotoList,
    *,
    options: PhotoOptions,
    opt_out: OptOut = NOBODY,
    advance: Callable[[int], None] = lambda count: None,
) -> "pa.Table":
    """The table of photos: the columns of ``records.PHOTOS``, then those of the manifest.

    Args:
        found: the candidates.
        options: how large a photo may be.
        opt_out: the photos that are not to be opened.
        advance: told how many more were done.

    Raises:
        NoUsablePhotos: not one of them can be used.
    """
    rows = []
    for row in photo_rows(found, options=options, opt_out=opt_out):
        rows.append(row)
        advance(1)
    if not any(row["status"] == "ok" for row in rows):
        raise NoUsablePhotos(f"none of the {len(rows)} files can be used: {_counted(rows)}; {_accepted()}")
    table = to_table(rows, PHOTOS)
    if found.columns is not None:
        for field, values in zip(found.columns.schema, found.columns.columns, strict=True):
            table = table.append_column(field, values)
    return table


def _files(folder: Path) -> list[Path]:
    """Every file below a folder, sorted by name; a subfolder that may not be read stands for its files."""
    closed: list[Path] = []
    found: list[Path] = []
    for inside, folders, files in os.walk(folder, onerror=lambda error: closed.append(Path(error.filename))):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(inside, name) for name in files if not name.startswith(".")]
    return sorted(found + closed, key=lambda path: path.relative_to(folder).as_posix())


def _names(paths: Sequence[Path], folder: Path) -> tuple[str, ...]:
    """The paths from ``folder``; one that lies elsewhere keeps its whole path."""
    return tuple(_utf8(path.relative_to(folder) if path.is_relative_to(folder) else path) for path in paths)


def _utf8(path: Path) -> str:
    """The path as text that can be stored; the bytes of a name that is not UTF-8 are spelt out."""
    return os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")


def _check(path: Path, options: PhotoOptions, *, opted_out: Set[str]) -> dict[str, Any]:
    """What the table says of one file, but for its name."""
    row: dict[str, Any] = {"sha256": None, "width": None, "height": None}
    try:
        with _opened(path, options) as stream:
            row["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
            if row["sha256"] in opted_out:
                return row | _refusal(PhotoError(Reason.OPTED_OUT))
            stream.seek(0)
            photo = decode(stream, long_side=options.long_side, max_megapixels=options.max_megapixels)
    except PhotoError as error:
        return row | _refusal(error)
    return row | {"width": photo.width, "height": photo.height, "status": "ok", "reason": None}


def _refusal(error: PhotoError) -> dict[str, str]:
    return {"status": error.reason.status, "reason": str(error)}


def _opened(path: Path, options: PhotoOptions) -> io.BufferedReader:
    """The file's bytes, if it is one and not too long to hold a picture of the size that is allowed."""
    try:
        str(path).encode("utf-8")
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # reading a pipe would wait for ever
            if stat.S_ISDIR(state.st_mode) and not os.access(path, os.R_OK | os.X_OK):
                raise PhotoError(Reason.NOT_PERMITTED, "a folder")
            raise PhotoError(Reason.NOT_A_FILE)
        # Four channels of 16 bits, uncompressed, and a megabyte of everything else.
        if state.st_size > options.max_megapixels * 8e6 + 1e6:
            raise PhotoError(Reason.OVERSIZED, f"{state.st_size / 1e6:.0f} MB")
        return path.open("rb")
    except FileNotFoundError as error:
        raise PhotoError(Reason.MISSING) from error
    except PermissionError as error:
        raise PhotoError(Reason.NOT_PERMITTED) from error
    except UnicodeEncodeError as error:
        raise PhotoError(Reason.BAD_NAME) from error
    except (OSError, ValueError) as error:  # ValueError: a name with a null in it
        raise PhotoError(Reason.UNREADABLE, str(error)) from error


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    reasons = Counter(str(row["reason"]).partition(":")[0] for row in rows)
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def _accepted() -> str:
    return f"accepted are {ACCEPTED} files, in a folder, one by one, or listed in a CSV or Parquet manifest"
