"""Decoding of image files to upright RGB pixels of bounded size, or to the reason why a file cannot be used."""

import fcntl
import os
import stat
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from enum import StrEnum
from hashlib import file_digest
from io import BufferedReader, BytesIO
from pathlib import Path
from threading import Condition
from typing import BinaryIO

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image
from PIL.BmpImagePlugin import BmpImageFile
from PIL.GifImagePlugin import GifImageFile
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import jpeg_factory
from PIL.PngImagePlugin import PngImageFile
from PIL.TiffImagePlugin import TiffImageFile
from PIL.WebPImagePlugin import WebPImageFile

from pipeline.config.options import PhotoOptions
from pipeline.run.engine import give_back
from pipeline.run.storage import Fetched, File
from pipeline.run.tables import Status

ACCEPTED = "JPEG, PNG, WebP, BMP, GIF and TIFF"
SMALLEST_SIDE = 32  # pixels; faces in smaller photos cannot be aligned
STRIP = 2**22  # pixels whose colours are converted at once
# Every scan of a progressive JPEG decodes the whole image, so that a small file can take minutes.
USUAL_SCANS = 12
MOST_SCANNED = 1000  # megapixels, all scans together

_ORIENTATION = 0x0112  # the EXIF tag, 1 to 8
_UPRIGHT: dict[int, Callable[[NDArray[np.uint8]], NDArray[np.uint8]]] = {
    2: lambda pixels: pixels[:, ::-1],
    3: lambda pixels: pixels[::-1, ::-1],
    4: lambda pixels: pixels[::-1],
    5: lambda pixels: pixels.swapaxes(0, 1),
    6: lambda pixels: pixels[::-1].swapaxes(0, 1),
    7: lambda pixels: pixels[::-1, ::-1].swapaxes(0, 1),
    8: lambda pixels: pixels[:, ::-1].swapaxes(0, 1),
}
# The readers are called directly, because ``Image.open`` tries every format, some of which start other programs, and
# refuses large photos by its own limit.
_READERS: tuple[tuple[bytes, Callable[[BinaryIO], ImageFile]], ...] = (
    (b"\xff\xd8\xff", jpeg_factory),
    (b"\x89PNG\r\n\x1a\n", PngImageFile),
    (b"GIF8", GifImageFile),
    (b"BM", BmpImageFile),
    (b"II*\0", TiffImageFile),
    (b"MM\0*", TiffImageFile),
)


class Reason(StrEnum):
    """Why a photo is not used; the value is the text in the table of photos."""

    MISSING = "missing: there is no such file"
    NOT_A_FILE = "not a file: only regular files are read"
    NOT_PERMITTED = "not permitted: this user may not read the file"
    BAD_NAME = "bad name: the file's name is not valid UTF-8, rename it"
    EMPTY = "empty: the file has no bytes"
    NOT_AN_IMAGE = f"not an image: the bytes are none of {ACCEPTED}"
    TRUNCATED = "truncated: the file ends before the picture does"
    UNREADABLE = "unreadable: the picture cannot be decoded"
    OVERSIZED = "oversized: more pixels than the option max_megapixels allows"
    TOO_MANY_SCANS = f"too many scans: a progressive JPEG of more than {MOST_SCANNED} megapixels, all scans together"
    CHANGED = "changed: the file is not the one that was listed; run the same command again"
    TOO_SMALL = f"too small: a side has fewer than {SMALLEST_SIDE} pixels"
    DUPLICATE = "duplicate: the same bytes as another photo"
    OPTED_OUT = "opted out: on the list of photos that are never processed"

    @property
    def status(self) -> Status:
        """``excluded`` if the photo is rejected by a rule, ``failed`` if it cannot be read."""
        return "excluded" if self in _UNWANTED else "failed"


_UNWANTED = (Reason.OVERSIZED, Reason.TOO_MANY_SCANS, Reason.TOO_SMALL, Reason.DUPLICATE, Reason.OPTED_OUT)


class PhotoError(Exception):
    """A photo cannot be used; ``reason`` says why."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value} ({detail})" if detail else reason.value)
        self.reason = reason


@dataclass(frozen=True)
class Photo:
    """An upright photo: ``pixels`` ``(H, W, 3)`` uint8 RGB."""

    pixels: NDArray[np.uint8]

    @property
    def width(self) -> int:
        """Width in pixels."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Height in pixels."""
        return int(self.pixels.shape[0])


def read_photo(path: File | Fetched, *, options: PhotoOptions, sha256: str | None = None) -> Photo:
    """Read a photo, upright and at most ``options.long_side`` pixels long.

    Args:
        path: the file.
        options: the size limits.
        sha256: the expected hash of the file's bytes.

    Raises:
        PhotoError: the file cannot be used, or its hash differs.
    """
    with open_photo(path, options=options) as stream:
        if sha256 is not None:
            if file_digest(stream, "sha256").hexdigest() != sha256:
                raise PhotoError(Reason.CHANGED)
            stream.seek(0)
        return decode(stream, options=options)


def open_photo(path: File | Fetched, *, options: PhotoOptions) -> BufferedReader | BytesIO:
    """Open a regular file that is small enough to hold an image within the size limit.

    Raises:
        PhotoError: the file cannot be used.
        StorageError: an object store cannot be reached.
    """
    # Four uncompressed channels of 16 bits, and a megabyte of metadata.
    most = options.max_megapixels * 8e6 + 1e6
    try:
        if not isinstance(path, Path):
            if path.size is not None and path.size > most:
                raise PhotoError(Reason.OVERSIZED, f"{path.size / 1e6:.0f} MB")
            return path.open("rb")
        str(path).encode("utf-8")
        state = path.stat()
        if not stat.S_ISREG(state.st_mode):  # reading a pipe could block for ever
            if stat.S_ISDIR(state.st_mode) and not os.access(path, os.R_OK | os.X_OK):
                raise PhotoError(Reason.NOT_PERMITTED, "a folder")
            raise PhotoError(Reason.NOT_A_FILE)
        if state.st_size > most:
            raise PhotoError(Reason.OVERSIZED, f"{state.st_size / 1e6:.0f} MB")
        return path.open("rb")
    except FileNotFoundError as error:
        raise PhotoError(Reason.MISSING) from error
    except PermissionError as error:
        raise PhotoError(Reason.NOT_PERMITTED) from error
    except UnicodeEncodeError as error:
        raise PhotoError(Reason.BAD_NAME) from error
    except (OSError, ValueError) as error:  # ValueError: the name holds a null byte
        raise PhotoError(Reason.UNREADABLE, str(error)) from error


def decode(stream: BinaryIO, *, options: PhotoOptions) -> Photo:
    """Decode the first image of a file, upright and of bounded size.

    Transparent parts become white. 16 bits are scaled to 8. CMYK is converted without a colour profile. Threads and
    processes decode large images one after another (see ``PixelBudget``).

    Args:
        stream: the file's bytes, from the start.
        options: images longer than ``long_side`` pixels are shrunk by area averaging. Those of more than
            ``max_megapixels`` are refused by their header, before any pixel is decoded.

    Raises:
        PhotoError: the bytes hold no usable image. No other error is raised.
    """
    _silence_pillow()
    try:
        with _reader(stream)(stream) as image:
            _check_size(image, stream, options.max_megapixels)
            whole = image.width * image.height
            # JPEG can be decoded at a half, a quarter or an eighth of its size. Other formats ignore the call.
            image.draft(None, (options.long_side, options.long_side))
            # The coefficients of a progressive JPEG are held in full all the same.
            with _BUDGET.spent(whole if "progressive" in image.info else image.width * image.height):
                return Photo(_pixels(image, stream, options.long_side))
    except PhotoError:
        raise
    except Image.DecompressionBombError as error:
        raise PhotoError(Reason.OVERSIZED, str(error)) from error
    # Decoders may raise any exception on hostile bytes.
    except Exception as error:
        cut = _ends_early(stream, error)
        raise PhotoError(Reason.TRUNCATED if cut else Reason.UNREADABLE, "" if cut else _words(error)) from error


class PixelBudget:
    """Bounds the pixels that threads decode at once: an image waits until it fits or no other is being decoded.

    Images of more than half the budget are also decoded by only one process of this machine at a time.
    """

    def __init__(self, most: float) -> None:
        self._most, self._used, self._changed = most, 0, Condition()

    @contextmanager
    def spent(self, pixels: int) -> Iterator[None]:
        """Reserve pixels of the budget within the context."""
        with self._changed:
            self._changed.wait_for(lambda: self._used == 0 or self._used + pixels <= self._most)
            self._used += pixels
        try:
            with _one_process() if 2 * pixels > self._most else nullcontext():
                yield
        finally:
            with self._changed:
                self._used -= pixels
                self._changed.notify_all()


_BUDGET = PixelBudget(40e6)  # decoders take up to 16 bytes per pixel


@contextmanager
def _one_process() -> Iterator[None]:
    """Exclude other processes, if files can be locked here, and return freed memory to the system at the end."""
    with Path(__file__).open("rb") as file:  # closing the file, or dying, releases the lock
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield
        give_back()


def _silence_pillow() -> None:
    """Silence Pillow's warnings for the process. Whatever matters of them is raised as a ``PhotoError``.

    ``warnings.catch_warnings`` is not safe with threads, in which photos are read.
    """
    if not any(entry[3] is not None and entry[3].pattern == r"PIL\." for entry in warnings.filters[:1]):
        warnings.filterwarnings("ignore", module=r"PIL\.")


def _reader(stream: BinaryIO) -> Callable[[BinaryIO], ImageFile]:
    start = stream.read(16)
    stream.seek(0)
    if not start:
        raise PhotoError(Reason.EMPTY)
    if start.startswith(b"RIFF") and start[8:12] == b"WEBP":
        return WebPImageFile
    for signature, reader in _READERS:
        if start.startswith(signature):
            return reader
    raise PhotoError(Reason.NOT_AN_IMAGE)


def _check_size(image: ImageFile, stream: BinaryIO, max_megapixels: float) -> None:
    (width, height), place = image.size, stream.tell()
    if width * height > max_megapixels * 1e6:
        raise PhotoError(Reason.OVERSIZED, f"{width} x {height}")
    if min(width, height) < SMALLEST_SIDE:
        raise PhotoError(Reason.TOO_SMALL, f"{width} x {height}")
    if image.info.get("progressive"):
        stream.seek(0)
        scans = stream.read().count(b"\xff\xda")
        stream.seek(place)
        if scans > USUAL_SCANS and scans * width * height > MOST_SCANNED * 1e6:
            raise PhotoError(Reason.TOO_MANY_SCANS, f"{scans} scans of {width} x {height}")


def _pixels(image: ImageFile, stream: BinaryIO, long_side: int) -> NDArray[np.uint8]:
    """Return ``(H, W, 3)`` uint8 pixels, upright and of bounded size."""
    loaded = _webp(image, stream) or image
    loaded.load()
    turn, pixels = _turn(image), _rgb(loaded)
    loaded.close()  # frees Pillow's copy of the pixels
    return _bounded(np.ascontiguousarray(turn(pixels)), long_side)


def _webp(image: ImageFile, stream: BinaryIO) -> Image.Image | None:
    """Decode a WebP by OpenCV, which takes a third of Pillow's memory for the same pixels.

    Returns None for other formats, damaged files, and animations whose first frame does not cover the canvas.
    """
    if not isinstance(image, WebPImageFile):
        return None
    stream.seek(0)
    content = stream.read()
    if image.is_animated:
        content = _first_frame(content, image.size)
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), cv2.IMREAD_UNCHANGED) if content else None
    if pixels is None:  # Pillow names the damage
        return None
    code = cv2.COLOR_BGRA2RGBA if pixels.shape[2] == 4 else cv2.COLOR_BGR2RGB
    return Image.fromarray(cv2.cvtColor(pixels, code, dst=pixels))


def _first_frame(content: bytes, size: tuple[int, int]) -> bytes:
    """Return the first frame of an animated WebP as a still WebP; empty if it does not cover the canvas.

    Source: the WebP container specification (chunks ANMF and VP8X), developers.google.com/speed/webp.
    """
    at = 12  # after RIFF, the length and WEBP
    while content[at : at + 4] != b"ANMF":
        if at + 8 > len(content):
            return b""
        length = int.from_bytes(content[at + 4 : at + 8], "little")
        at += 8 + length + length % 2  # chunks are padded to even length
    frame = content[at + 8 : at + 8 + int.from_bytes(content[at + 4 : at + 8], "little")]
    left, top, width, height = (int.from_bytes(frame[first : first + 3], "little") for first in (0, 3, 6, 9))
    if (left, top) != (0, 0) or (width + 1, height + 1) != size:
        return b""
    has_alpha = frame[16:20] in (b"ALPH", b"VP8L")
    header = b"VP8X" + (10).to_bytes(4, "little") + bytes([0x10 * has_alpha, 0, 0, 0]) + frame[6:12]
    body = b"WEBP" + header + frame[16:]
    return b"RIFF" + len(body).to_bytes(4, "little") + body


def _turn(image: Image.Image) -> Callable[[NDArray[np.uint8]], NDArray[np.uint8]]:
    """Return a function that turns the pixels of an image upright."""
    try:
        orientation = image.getexif().get(_ORIENTATION)
    except Exception:  # damaged EXIF data does not make the image unusable
        orientation = None
    return _UPRIGHT.get(orientation if isinstance(orientation, int) else 1, lambda pixels: pixels)


def _rgb(image: Image.Image) -> NDArray[np.uint8]:
    """Convert an image of any mode to ``(H, W, 3)`` uint8, strip by strip to bound memory."""
    rows = max(1, STRIP // image.width)
    strips = [(0, top, image.width, min(top + rows, image.height)) for top in range(0, image.height, rows)]
    deep = image.mode.startswith("I") or image.mode == "F"
    white = _white_level(np.asarray(image.crop(strip)) for strip in strips) if deep else 0.0
    pixels = np.empty((image.height, image.width, 3), dtype=np.uint8)
    for strip in strips:
        part = image.crop(strip)
        if deep:
            levels = _finite(np.asarray(part)) * (255 / white)
            pixels[strip[1] : strip[3]] = levels.round().clip(0, 255)[:, :, None]
            continue
        if part.has_transparency_data:
            with_alpha = part.convert("RGBA")
            part = Image.alpha_composite(Image.new("RGBA", with_alpha.size, "white"), with_alpha)
        pixels[strip[1] : strip[3]] = np.asarray(part.convert("RGB"))
    return pixels


def _white_level(strips: Iterable[NDArray[np.generic]]) -> float:
    """Return the level of a grey image of 16 or 32 bits that becomes 255.

    Pillow does not tell the depth of an ``I`` or ``F`` image, so it is inferred from the brightest pixel.
    """
    brightest, kinds = zip(*((float(_finite(strip).max()), strip.dtype) for strip in strips), strict=True)
    most = max(brightest)
    if kinds[0] == np.uint16:
        return 65535.0
    if kinds[0].kind == "f":
        return next((full for full in (1.0, 255.0, 65535.0) if most <= full), most)
    return 65535.0 if most <= 65535 else 2.0**31 - 1


def _finite(levels: NDArray[np.generic]) -> NDArray[np.float64]:
    return np.nan_to_num(np.asarray(levels, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)


def _bounded(pixels: NDArray[np.uint8], long_side: int) -> NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    scale = long_side / max(height, width)
    if scale >= 1:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _ends_early(stream: BinaryIO, error: Exception) -> bool:
    """Return whether decoding failed because the file is truncated."""
    if "truncated" in str(error).lower() or isinstance(error, EOFError):
        return True
    # WebP's decoder does not report truncation, but the header holds the file's length.
    stream.seek(0)
    start = stream.read(16)
    return start.startswith(b"RIFF") and stream.seek(0, 2) < int.from_bytes(start[4:8], "little") + 8


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
