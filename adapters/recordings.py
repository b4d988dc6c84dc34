"""Recorded raw answers, read from a run's ``responses.sqlite``, a folder of JSON files, or a CSV file of captions."""

import csv
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from adapters.base import AdapterError, AnswerError, RawAnswer
from adapters.cloud.watson import image_names

_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class StoredAnswers:
    """The answers of one classifier (its number there) in a ``responses.sqlite``."""

    path: Path
    classifier: int
    model: str
    parameters: Mapping[str, Any]

    @cached_property
    def _keys(self) -> dict[str, tuple[str, str]]:
        """Image sha256 -> the key of its answer, and a fingerprint of the answer."""
        query = "SELECT image, key, time || ' ' || length(body) FROM responses WHERE classifier = ?"
        with _opened(self.path) as connection:
            return {image: (key, fact) for image, key, fact in connection.execute(query, (self.classifier,))}

    @cached_property
    def digest(self) -> str:
        """Digest of all answers."""
        return _digest([[image, *facts] for image, facts in sorted(self._keys.items())])

    def answers(self, images: Sequence[str]) -> dict[str, RawAnswer]:
        """Return the answers to images (sha256), where there are any."""
        keys = {self._keys[image][0]: image for image in images if image in self._keys}
        marks = ", ".join("?" * len(keys))
        with _opened(self.path) as connection:
            columns = {row[1] for row in connection.execute("PRAGMA table_info(responses)")}
            position = "position" if "position" in columns else "0"  # runs of the first schema have none
            query = f"SELECT key, body, status, headers, {position} FROM responses WHERE key IN ({marks})"  # noqa: S608
            rows = connection.execute(query, list(keys)).fetchall()
        return {keys[key]: RawAnswer(bytes(body), status, json.loads(h), place) for key, body, status, h, place in rows}


@dataclass(frozen=True)
class FiledAnswers:
    """Answers in one JSON file each, named by the sha256 of the image or by the image's name.

    Args:
        folder: the folder of ``.json`` files.
        names: for files that are not named by sha256: a CSV file with the columns ``name`` (of the answer's file, with
            or without ``.json``), ``sha256`` (of the image), and ``position`` if one file answers several images; or
            the folder of the images as they were sent.
        zipped: whether one file may answer the images of a whole zip archive, which it names.
    """

    folder: Path
    names: Path | None
    zipped: bool

    @cached_property
    def _places(self) -> dict[str, tuple[Path, int]]:
        """Image sha256 -> the file of its answer, and its position there."""
        files = {path.stem: path for path in sorted(self.folder.rglob("*.json"))}
        if not files:
            raise AdapterError(f"there are no .json files in {self.folder}")
        places = {name: (path, 0) for name, path in files.items()}
        for path in files.values() if self.zipped else ():
            with suppress(AnswerError):  # reported when the answer is parsed
                named = enumerate(image_names(path.read_bytes()))
                places |= {Path(name).stem: (path, place) for place, name in named if name}
        by_image = {name.lower(): place for name, place in places.items() if _SHA256.fullmatch(name.lower())}
        for name, image, position in self._named():
            place = places.get(name.removesuffix(".json"))
            if place is not None:
                by_image[image] = place if position is None else (place[0], position)
        if not by_image:
            raise AdapterError(f"no file in {self.folder} is named by the sha256 of an image: give the option names")
        return by_image

    @cached_property
    def digest(self) -> str:
        """Digest of all answers."""
        content = {path: sha256(path.read_bytes()).hexdigest() for path, _ in self._places.values()}
        return _digest([[image, content[path], place] for image, (path, place) in sorted(self._places.items())])

    def answers(self, images: Sequence[str]) -> dict[str, RawAnswer]:
        """Return the answers to images (sha256), where there are any."""
        found = {image: self._places[image] for image in images if image in self._places}
        return {image: RawAnswer(path.read_bytes(), position=place) for image, (path, place) in found.items()}

    def _named(self) -> Iterator[tuple[str, str, int | None]]:
        """Yield the name of an answer, the sha256 of its image, and its position."""
        if self.names is None:
            return
        if self.names.is_dir():
            for path in sorted(path for path in self.names.rglob("*") if path.is_file()):
                yield path.stem, sha256(path.read_bytes()).hexdigest(), None
            return
        for place, row in _rows(self.names, "list"):
            name, image, position = ((row.get(column) or "").strip() for column in ("name", "sha256", "position"))
            if not name or not _SHA256.fullmatch(image.lower()) or not re.fullmatch(r"\d{0,9}", position):
                raise AdapterError(f"{place}: a name, the sha256 of an image, and a position (or none) are needed")
            yield name, image.lower(), int(position) if position else None


@dataclass(frozen=True)
class FiledCaptions:
    """Captions in a CSV file: the columns ``caption``, and ``sha256`` or ``image`` (relative to the file's folder)."""

    path: Path

    @cached_property
    def _captions(self) -> dict[str, str]:
        """Image sha256 -> its caption."""
        found: dict[str, str] = {}
        for place, row in _rows(self.path, "captions"):
            digest, caption, image = (row.get("sha256") or "").strip().lower(), row.get("caption"), row.get("image")
            if not digest and image:
                try:
                    digest = sha256((self.path.parent / image.strip()).read_bytes()).hexdigest()
                except OSError as error:
                    raise AdapterError(f"{place}: the image cannot be read: {error}") from error
            if not _SHA256.fullmatch(digest) or caption is None:
                raise AdapterError(f"{place}: a caption and sha256 or image are needed")
            found[digest] = caption
        return found

    @cached_property
    def digest(self) -> str:
        """Digest of all captions."""
        return _digest([list(item) for item in sorted(self._captions.items())])

    def answers(self, images: Sequence[str]) -> dict[str, RawAnswer]:
        """Return the captions of images (sha256) as answers, where there are any."""
        known = {image: self._captions[image] for image in images if image in self._captions}
        return {image: RawAnswer(json.dumps({"text": caption}).encode()) for image, caption in known.items()}


def stored_answers(path: Path, adapter: str, *, classifier: int | None) -> StoredAnswers:
    """Open the answers of an adapter in a ``responses.sqlite``; ``classifier`` chooses among several of that name.

    Raises:
        AdapterError: the file is something else, or has no or several classifiers of that name.
    """
    with _opened(path) as connection:
        rows = connection.execute("SELECT id, adapter, model, parameters FROM classifiers ORDER BY id").fetchall()
    matching = [row for row in rows if row[1] == adapter and classifier in (None, row[0])]
    if not matching:
        known = ", ".join(sorted({row[1] for row in rows})) or "nothing"
        raise AdapterError(f"{path} has no answers of {adapter!r}; it has those of: {known}")
    if len(matching) > 1:
        listed = "; ".join(f"{number}: {model}, {parameters[:200]}" for number, _, model, parameters in matching)
        raise AdapterError(
            f"{path} has several classifiers named {adapter!r}; choose one with the option classifier: {listed}"
        )
    number, _, model, parameters = matching[0]
    return StoredAnswers(path, number, model, json.loads(parameters))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    # Without a write-ahead log nobody writes to the file; "immutable" then also reads from read-only folders.
    alone = "" if path.with_name(f"{path.name}-wal").exists() else "&immutable=1"
    connection = None
    try:
        connection = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro{alone}", uri=True, timeout=60)
        yield connection
    except sqlite3.Error as error:
        raise AdapterError(f"{path} is not a file of recorded answers: {error}") from error
    finally:
        if connection is not None:
            connection.close()


def _rows(path: Path, what: str) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Yield the rows of a CSV file with their places, for messages; AdapterError if it cannot be read."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for number, row in enumerate(csv.DictReader(file), start=2):
                yield f"{path}, line {number}", row
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise AdapterError(f"the {what} {path} cannot be read: {error}") from error


def _digest(rows: list[Any]) -> str:
    return sha256(json.dumps(rows).encode()).hexdigest()
