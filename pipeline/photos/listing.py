"""The photos of a run: files from a folder, a list or a manifest, the check of each, and the opt-out list."""

import codecs
import hashlib
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

from pipeline.config.options import ConfigError, PhotoOptions
from pipeline.photos.decoding import ACCEPTED, PhotoError, Reason, decode, open_photo
from pipeline.run.storage import READERS, Location, RemoteFile, absolute, listed, location
from pipeline.run.tables import PHOTOS, to_table

if TYPE_CHECKING:
    import pyarrow as pa

CHUNK = 64
THREADS = 2  # decoding releases the global interpreter lock
MANIFEST_ENDINGS = (".csv", ".parquet")
# Byte order marks; UTF-32's come first, because they begin with UTF-16's.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SHA256 = re.compile(r"(?:sha256:)?([0-9a-f]{64})", re.IGNORECASE)


class NoUsablePhotos(Exception):  # noqa: N818 - the name states the problem
    """The input holds nothing to audit. The message counts the reasons and says what is accepted."""


@dataclass(frozen=True)
class PhotoList:
    """The files of a run, not opened yet.

    ``names`` are their unique names in the tables. ``paths`` are absolute paths or files of an object store.
    ``columns`` holds the other columns of a manifest, one row per file.
    """

    names: tuple[str, ...]
    paths: tuple[Location, ...]
    columns: "pa.Table | None" = None

    def __len__(self) -> int:
        return len(self.names)

    @property
    def fingerprint(self) -> str:
        """Hex digits that change if a file is added, removed, moved or written, or a manifest's columns change."""
        content = hashlib.sha256()
        for name, path in zip(self.names, self.paths, strict=True):
            content.update(f"{name}\0{path}\0{_state(path)}\0".encode("utf-8", "surrogateescape"))
        if self.columns is not None:
            content.update(repr(self.columns.schema.remove_metadata()).encode())
            for column in self.columns.columns:
                content.update(repr(column.to_pylist()).encode("utf-8", "surrogatepass"))
        return content.hexdigest()


def find_photos(inputs: Sequence[Location]) -> PhotoList:
    """List the photos of one folder, of files, or of one manifest, each on disk or in an object store.

    Folders are searched recursively, without hidden files. All other files are listed, whatever their ending, and only
    once. A photo's name is its path relative to the folder, the manifest's folder, or the files' common folder.

    Raises:
        NoUsablePhotos: nothing is listed, a folder is given with other inputs, or a manifest cannot be used.
    """
    if not inputs:
        raise NoUsablePhotos("no photos were given: name a folder, files, or a CSV or Parquet manifest")
    # Absolute, so that the same run can be continued from another working folder.
    paths = list(dict.fromkeys(map(absolute, inputs)))
    if len(paths) == 1 and paths[0].name.lower().endswith(MANIFEST_ENDINGS) and paths[0].is_file():
        return read_manifest(paths[0])
    folders = [path for path in paths if _is_folder(path)]
    if folders and len(paths) > 1:
        raise NoUsablePhotos(f"{folders[0]} is a folder among other inputs: give one folder, or files only")
    if folders:
        found = tuple(_files(paths[0]))
        if not found:
            raise NoUsablePhotos(f"the folder {paths[0]} holds no file; {_accepted()}")
        return PhotoList(_names(found, paths[0]), found)
    if all(isinstance(path, Path) for path in paths):
        return PhotoList(_names(paths, Path(os.path.commonpath([str(path.parent) for path in paths]))), tuple(paths))
    return PhotoList(_names(paths, paths[0].parent), tuple(listed(paths)))


def read_manifest(path: Location) -> PhotoList:
    """Read a manifest with a column ``photo`` of URLs or paths relative to its folder, and any other columns.

    Raises:
        NoUsablePhotos: the manifest cannot be read, is empty, has no column ``photo``, has an empty or repeated photo,
            or has a column whose name is reserved.
    """
    table = _manifest_table(path)
    names = table.column_names
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise NoUsablePhotos(f"the manifest {path} has more than one column {_quoted(repeated)}: rename all but one")
    if "photo" not in names:
        raise NoUsablePhotos(f"the manifest {path} has no column 'photo'; its columns are {_quoted(names)}")
    clashes = [name for name in names if name in PHOTOS and name != "photo"]
    if clashes:
        raise NoUsablePhotos(
            f"the manifest {path} has the column {_quoted(clashes)}, a name reserved for the table of photos: rename it"
        )
    if table.num_rows == 0:
        raise NoUsablePhotos(f"the manifest {path} lists no photo")
    photos = _located(table.column("photo").to_pylist(), path)
    return PhotoList(_names(photos, path.parent), tuple(listed(photos)), table.drop_columns(["photo"]))


@dataclass(frozen=True)
class OptOut:
    """The entries of an opt-out list: ``names`` (full names or file names) and sha256 ``hashes`` in lower case."""

    names: frozenset[str] = frozenset()
    hashes: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.names or self.hashes)

    def names_photo(self, photo: str) -> bool:
        """Return whether an entry is this photo's full name or file name."""
        return photo in self.names or PurePosixPath(photo).name in self.names

    def with_hashes_of(self, names: Sequence[str], paths: Sequence[Location]) -> "OptOut":
        """Return the list with the sha256 of all photos added that it names and that can be read."""
        found = set(self.hashes)
        for name, path in zip(names, paths, strict=True):
            if self.names_photo(name) and path.is_file():
                with path.open("rb") as file:
                    found.add(hashlib.file_digest(file, "sha256").hexdigest())
        return OptOut(self.names, frozenset(found))

    def near_misses(self, photos: Iterable[str]) -> dict[str, str]:
        """Return entries -> photos whose names differ from them only in letter case, Unicode form or JPEG ending."""
        photos = list(photos)
        strays = self.names - {*photos, *(PurePosixPath(photo).name for photo in photos)}
        if not strays:
            return {}
        similar = {_folded(name): photo for photo in photos for name in (PurePosixPath(photo).name, photo)}
        return {entry: similar[_folded(entry)] for entry in sorted(strays) if _folded(entry) in similar}

    def unmatched(self, photos: Sequence[str], hashes: Sequence[str | None]) -> list[str]:
        """Return the entries that match no photo's name or sha256 and may be misspelt."""
        known = {*photos, *(PurePosixPath(photo).name for photo in photos)}
        return sorted(self.names - known) + sorted(self.hashes - set(hashes))


NOBODY = OptOut()


def opt_outs(found: PhotoList, *, options: PhotoOptions) -> OptOut:
    """Read the opt-out list of the options and compare it with the photos.

    Raises:
        ConfigError: the list cannot be read, or an entry nearly names a photo and ``opt_out_allow_unmatched`` is off.
    """
    opt_out = read_opt_out(options.opt_out)
    missed = {} if options.opt_out_allow_unmatched else opt_out.near_misses(found.names)
    if missed:
        named = "; ".join(f"{entry!r} (there is {photo!r})" for entry, photo in list(missed.items())[:5])
        raise ConfigError(
            f"entries of the opt-out list {options.opt_out} ({len(missed)}) nearly match a photo: {named}. Correct the "
            "list, or confirm with --opt-out-allow-unmatched that other photos are meant"
        )
    return opt_out


def read_opt_out(path: str | Path | None) -> OptOut:
    """Read an opt-out list: one name or sha256 (64 hex digits) per line; ``#`` starts a comment line.

    Raises:
        ConfigError: the file cannot be read.
    """
    if path is None:
        return NOBODY
    try:
        lines = _text_of(location(path).read_bytes()).splitlines()
    except (OSError, ValueError) as error:
        raise ConfigError(f"the opt-out list {path} cannot be read: {error}") from error
    entries = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    hashes = {entry: found[1].lower() for entry in entries if (found := _SHA256.fullmatch(entry))}
    names = (entry.replace("\\", "/").removeprefix("./") for entry in entries if entry not in hashes)
    return OptOut(frozenset(names), frozenset(hashes.values()))


def photo_rows(found: PhotoList, *, options: PhotoOptions, opt_out: OptOut = NOBODY) -> Iterator[dict[str, Any]]:
    """Check each photo by decoding it; yield rows of ``PHOTOS`` in the list's order.

    ``width`` and ``height`` are those of the image that ``read_photo`` returns. Photos listed in ``opt_out``, and
    copies of them, are not decoded.
    """
    opt_out = opt_out.with_hashes_of(found.names, found.paths)

    def check(path: Location) -> dict[str, Any]:
        return _check(path, options, opted_out=opt_out.hashes)

    first: dict[str, str] = {}  # sha256 -> the usable photo that had it first
    with ThreadPoolExecutor(READERS if any(isinstance(path, RemoteFile) for path in found.paths) else THREADS) as pool:
        for start in range(0, len(found), CHUNK):
            names, paths = found.names[start : start + CHUNK], found.paths[start : start + CHUNK]
            # In chunks, because ``map`` submits all its tasks at once.
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
    """Return the table of photos: the columns of ``PHOTOS``, then those of the manifest. See ``photo_rows``.

    Raises:
        NoUsablePhotos: no photo can be used.
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


def _manifest_table(path: Location) -> "pa.Table":
    import pyarrow as pa
    import pyarrow.csv as csv
    import pyarrow.parquet as pq

    try:
        if path.name.lower().endswith(".csv"):
            content = BytesIO(_text_of(path.read_bytes()).encode())
            # Photos may be named like numbers, such as 007.
            convert = csv.ConvertOptions(column_types={"photo": pa.string()}, strings_can_be_null=True)
            return csv.read_csv(
                content, convert_options=convert, parse_options=csv.ParseOptions(newlines_in_values=True)
            )
        with path.open("rb") as file:
            return pq.ParquetFile(file).read()
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowKeyError, OSError, ValueError) as error:
        raise NoUsablePhotos(f"the manifest {path} cannot be read: {error}") from error


def _text_of(content: bytes) -> str:
    """Decode a text in UTF-8, or in UTF-16 or UTF-32 with a byte order mark.

    Raises:
        ValueError: the text has another encoding. The message names the line.
    """
    encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
    try:
        return content.decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(f"line {line} is not {encoding.upper()} text; save the file as UTF-8") from error


def _located(values: Iterable[object], manifest: Location) -> tuple[Location, ...]:
    """Return the photos' paths, relative ones joined to the manifest's folder."""
    rows: dict[Location, int] = {}
    for row, value in enumerate(values, start=1):
        if not isinstance(value, str) or not value.strip():
            raise NoUsablePhotos(f"row {row} of the manifest {manifest} names no photo")
        photo = _joined(manifest.parent, value.strip())
        if photo in rows:
            raise NoUsablePhotos(
                f"the manifest {manifest} names {value!r} twice, in rows {rows[photo]} and {row}: remove one"
            )
        rows[photo] = row
    return tuple(rows)


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(repr(name) for name in names)


def _files(folder: Location) -> list[Location]:
    """Return all files below a folder, sorted by name; an unreadable subfolder takes the place of its files."""
    if isinstance(folder, RemoteFile):
        below = ((file, file.url[len(folder.url) :]) for file in folder.files())
        return sorted((file for file, name in below if "/." not in name), key=str)
    closed: list[Path] = []
    found: list[Path] = []
    for inside, folders, files in os.walk(folder, onerror=lambda error: closed.append(Path(error.filename))):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(inside, name) for name in files if not name.startswith(".")]
    return sorted(found + closed, key=lambda path: path.as_posix().removeprefix(folder.as_posix()))


def _names(paths: Sequence[Location], folder: Location) -> tuple[str, ...]:
    """Return the paths relative to ``folder``; paths outside it stay absolute."""
    start = f"{folder.as_posix().rstrip('/')}/"
    return tuple(_utf8(path).removeprefix(_utf8(start)) for path in paths)


def _is_folder(path: Location) -> bool:
    if isinstance(path, Path):
        return path.is_dir()
    return not path.is_file() and path.exists()


def _joined(folder: Location, name: str) -> Location:
    """Return the location of a path or URL in a manifest."""
    if "://" in name:
        return location(name)
    if isinstance(folder, RemoteFile):
        return folder / name.removeprefix("./")
    return Path(os.path.normpath(folder / name))


def _state(path: Location) -> str:
    """Return a text that changes when the file is written."""
    if isinstance(path, RemoteFile):
        return f"{path.size} {path.mark}"
    try:
        state = path.stat()
    except (OSError, ValueError):
        return "missing"
    # The change time is included, because a file may be replaced by another of the same size and modification time.
    return f"{state.st_size} {state.st_mtime_ns} {state.st_ctime_ns}"


def _folded(name: str) -> str:
    """Return a name without differences of letter case, Unicode form or JPEG ending."""
    return unicodedata.normalize("NFKC", name).casefold().replace(".jpeg", ".jpg")


def _utf8(path: Location | str) -> str:
    """Return the path as text, with bytes that are not UTF-8 escaped."""
    text = path if isinstance(path, str) else path.as_posix()
    return os.fsencode(text).decode("utf-8", "backslashreplace")


def _check(path: Location, options: PhotoOptions, *, opted_out: Set[str]) -> dict[str, Any]:
    """Return the row of the table of photos for a file, without its name and path."""
    row: dict[str, Any] = {"sha256": None, "width": None, "height": None}
    try:
        with open_photo(path, options=options) as stream:
            row["sha256"] = hashlib.file_digest(stream, "sha256").hexdigest()
            if row["sha256"] in opted_out:
                return row | _refusal(PhotoError(Reason.OPTED_OUT))
            stream.seek(0)
            photo = decode(stream, options=options)
    except PhotoError as error:
        return row | _refusal(error)
    return row | {"width": photo.width, "height": photo.height, "status": "ok", "reason": None}


def _refusal(error: PhotoError) -> dict[str, str]:
    return {"status": error.reason.status, "reason": str(error)}


def _counted(rows: Sequence[Mapping[str, Any]]) -> str:
    reasons = Counter(str(row["reason"]).partition(":")[0] for row in rows)
    return ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))


def _accepted() -> str:
    return f"accepted are {ACCEPTED} files, named individually, in a folder, or in a CSV or Parquet manifest"
