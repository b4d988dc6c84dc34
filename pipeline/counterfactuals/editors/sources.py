"""External sources of edited images: files, a function, a program, a service.

``outside`` caches and composites the images; they are checked like any other edit.
"""

import base64
import csv
import importlib
import json
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

import cv2
import numpy as np
from numpy.typing import NDArray

from adapters.base import NoAnswer
from adapters.credentials import on_this_machine
from adapters.http_client import Call, HttpClient, Reply, failure_of
from pipeline.config.attributes import Attribute
from pipeline.config.options import ConfigError
from pipeline.config.sweep_options import EXTERNAL_EDITORS
from pipeline.counterfactuals.editors.base import Subject
from pipeline.run.files import digest, digest_of_files

Pixels = NDArray[np.uint8]
UNKNOWN = (
    "there is no editor {spec!r}; name one of this program, or images:MANIFEST, python:MODULE:FUNCTION, "
    "command:PROGRAM or the address of a service"
)
COLUMNS = ("photo", "attribute", "value", "file")


class EditError(Exception):
    """A version cannot be made; the message says why."""


@dataclass(frozen=True)
class Request:
    """A request for one version.

    Attributes:
        subject: the face in its photo.
        attribute: the attribute to change.
        value: the target value, from -1 and below (the lower pole) to +1 and above.
        mask: ``(H, W)`` uint8 of the photo, 0 where nothing may change; changes there are discarded.
    """

    subject: Subject
    attribute: Attribute
    value: float
    mask: Pixels

    @property
    def prompt(self) -> str:
        """The edit as text, for services that take a prompt."""
        pole = self.attribute.poles[int(self.value >= 0)]
        degree = "slightly more" if abs(self.value) < 0.75 else "more" if abs(self.value) < 1.5 else "much more"
        return f"make this person look {degree} {pole}, and change nothing else"


class Source(Protocol):
    """A source of edited images."""

    @property
    def fingerprint(self) -> str:
        """Covers everything on which its images depend, except the request."""
        ...

    def image(self, request: Request) -> Pixels:
        """Return the version ``(H, W, 3)`` RGB with the photo's size or aspect ratio.

        Raises:
            EditError: the version cannot be made.
        """
        ...


def source_of(spec: str, *, timeout: float) -> Source:
    """Return the source for an editor's name.

    Args:
        spec: such as ``images:versions.csv`` or ``python:mine:edit``.
        timeout: seconds for one image of a program or a service.

    Raises:
        ConfigError: there is no such source, or a file or function is missing.
    """
    kind, _, target = spec.partition(":")
    if kind not in EXTERNAL_EDITORS or not target:
        raise ConfigError(UNKNOWN.format(spec=spec))
    match kind:
        case "images":
            return GivenImages(Path(target))
        case "python":
            return Function(target)
        case "command":
            return Program(target, timeout=timeout)
        case _:
            return Service(spec if target.startswith("//") else target, timeout=timeout)


def remote_host(spec: str) -> str | None:
    """Return the host to which an editor sends faces; None for a local editor."""
    kind, _, target = spec.partition(":")
    url = spec if target.startswith("//") else target
    return None if kind not in ("http", "https") or on_this_machine(url) else urlsplit(url).netloc


@dataclass(frozen=True)
class GivenImages:
    """Existing versions: a CSV file with the columns photo, attribute, value and file (relative to it)."""

    manifest: Path

    @cached_property
    def _files(self) -> Mapping[tuple[str, str, float], Path]:
        try:
            with self.manifest.open(newline="", encoding="utf-8-sig") as table:
                rows = list(csv.DictReader(table))
            return {
                (row["photo"], row["attribute"], float(row["value"])): self.manifest.parent / row["file"]
                for row in rows
            }
        except (OSError, UnicodeDecodeError, KeyError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{self.manifest} is no manifest of versions with the columns {', '.join(COLUMNS)} ({error!r})"
            ) from error

    @property
    def fingerprint(self) -> str:
        """See ``Source``: the manifest's and the files' names and bytes."""
        files = sorted(file for file in set(self._files.values()) if file.is_file())
        return digest([digest_of_files(self.manifest), digest_of_files(*files)])

    def image(self, request: Request) -> Pixels:
        """See ``Source``."""
        value = round(request.value, 6)
        for (photo, attribute, given), file in self._files.items():
            if (photo, attribute) == (request.subject.photo, request.attribute.name) and round(given, 6) == value:
                try:
                    return decoded(file.read_bytes())
                except OSError as error:
                    raise EditError(f"{file} cannot be read ({error})") from error
        raise EditError(f"{self.manifest} has no row for {request.attribute.name} = {request.value:+g} of this photo")


@dataclass(frozen=True)
class Function:
    """A Python function ``MODULE:FUNCTION`` from a photo ``(H, W, 3)`` RGB and the request to the version.

    It is called as ``function(pixels, attribute=…, value=…, poles=(low, high), mask=…, prompt=…)``.
    """

    target: str

    @cached_property
    def _function(self) -> Callable[..., Any]:
        module, _, name = self.target.partition(":")
        sys.path.insert(0, str(Path.cwd()))  # as `python -m` finds a user's own module
        try:
            return getattr(importlib.import_module(module), name)  # type: ignore[no-any-return]
        except (ImportError, AttributeError, ValueError) as error:
            raise ConfigError(f"the editor python:{self.target} cannot be loaded: {error}") from error
        finally:
            sys.path.pop(0)

    @property
    def fingerprint(self) -> str:
        """See ``Source``: the module's file."""
        file = getattr(sys.modules[self._function.__module__], "__file__", None)
        return digest([self.target, digest_of_files(Path(file)) if file else ""])

    def image(self, request: Request) -> Pixels:
        """See ``Source``."""
        function = self._function
        try:
            found = function(
                request.subject.pixels.copy(),
                attribute=request.attribute.name,
                value=request.value,
                poles=request.attribute.poles,
                mask=request.mask,
                prompt=request.prompt,
            )
        except Exception as error:
            raise EditError(f"python:{self.target} failed: {type(error).__name__}: {error}") from error
        pixels = np.asarray(found)
        if pixels.dtype != np.uint8 or pixels.ndim != 3 or pixels.shape[2] != 3:
            raise EditError(f"python:{self.target} gave {pixels.dtype} {pixels.shape}, not (H, W, 3) uint8")
        return pixels


@dataclass(frozen=True)
class Program:
    """A program, called once per version: ``PROGRAM PHOTO.png MASK.png REQUEST.json OUT.png``."""

    words: str
    timeout: float

    @property
    def fingerprint(self) -> str:
        """See ``Source``: the command line; changes of the program itself are not detected."""
        return digest(["command", self.words])

    def image(self, request: Request) -> Pixels:
        """See ``Source``."""
        inputs = {
            "photo.png": encoded(request.subject.pixels),
            "mask.png": encoded(request.mask),
            "request.json": json.dumps(described(request)).encode(),
        }
        with tempfile.TemporaryDirectory() as folder:
            out = Path(folder, "out.png")
            for name, content in inputs.items():
                Path(folder, name).write_bytes(content)
            words = [*shlex.split(self.words), *(str(Path(folder, name)) for name in inputs), str(out)]
            try:
                done = subprocess.run(words, capture_output=True, timeout=self.timeout, check=False)  # noqa: S603
                if done.returncode:
                    message = done.stderr.decode("utf-8", "replace").strip()[-300:]
                    raise EditError(f"{words[0]} ended with {done.returncode}: {message}")
                return decoded(out.read_bytes())
            except subprocess.TimeoutExpired as error:
                raise EditError(f"{words[0]} took more than {self.timeout:g} s") from error
            except OSError as error:
                raise EditError(f"{words[0]} made no image ({error})") from error


@dataclass(frozen=True)
class Service:
    """An image-editing service: POST of JSON (image and mask as base64 PNG, prompt, attribute, value) -> an image.

    The reply is an image, or JSON with the key ``image`` in base64.
    """

    url: str
    timeout: float
    _client: HttpClient = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "_client", HttpClient(timeout=(10.0, self.timeout), longest=self.timeout, most_bytes=2**26)
        )

    @property
    def fingerprint(self) -> str:
        """See ``Source``: the address; changes of the service are not detected."""
        return digest(["http", self.url])

    def image(self, request: Request) -> Pixels:
        """See ``Source``."""
        pictures = {"image": request.subject.pixels, "mask": request.mask}
        content = described(request) | {
            name: base64.b64encode(encoded(pixels)).decode() for name, pixels in pictures.items()
        }
        reply = self._client(
            Call(self.url, body=json.dumps(content).encode(), headers={"Content-Type": "application/json"})
        )
        failure = failure_of(reply) if isinstance(reply, Reply) else reply
        if isinstance(failure, NoAnswer) or not isinstance(reply, Reply):
            raise EditError(f"{urlsplit(self.url).netloc}: {failure.reason if failure else 'no reply'}")
        if reply.headers.get("content-type", "").startswith("application/json"):
            try:
                return decoded(base64.b64decode(json.loads(reply.body)["image"], validate=True))
            except (ValueError, KeyError, TypeError) as error:
                raise EditError(f"{urlsplit(self.url).netloc} gave no image ({error!r})") from error
        return decoded(reply.body)


def described(request: Request) -> dict[str, Any]:
    """Return a request in plain values."""
    return {
        "photo": request.subject.photo,
        "attribute": request.attribute.name,
        "value": request.value,
        "poles": list(request.attribute.poles),
        "prompt": request.prompt,
    }


def encoded(pixels: Pixels) -> bytes:
    """Encode RGB or grey pixels as PNG."""
    _, content = cv2.imencode(".png", pixels[..., ::-1] if pixels.ndim == 3 else pixels)
    return content.tobytes()


def decoded(content: bytes) -> Pixels:
    """Decode an image file to RGB pixels.

    Raises:
        EditError: the file is no image, or too large.
    """
    from io import BytesIO

    from pipeline.config.options import PhotoOptions
    from pipeline.photos.decoding import PhotoError, decode

    try:
        return decode(BytesIO(content), options=PhotoOptions()).pixels
    except PhotoError as error:
        raise EditError(f"the version is {error}") from error
