"""From an image file to upright RGB pixels of bounded size, or to a named reason why not.

Which files are looked at, and the table that is kept of them, are in ``pipeline.photos.listing``.
"""

import os
import stat
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from io import BufferedReader
from pathlib import Path
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
from pipeline.run.tables import Status

ACCEPTED = "JPEG, PNG, WebP, BMP, GIF and TIFF"
SMALLEST_SIDE = 32  # pixels: no face in less can be aligned

_ORIENTATION = 0x0112  # the EXIF tag, 1 to 8
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
# The readers are called directly: ``Image.open`` would try every format there is, some of which start other programs,
# and would refuse large photos by a limit of its own.
_READERS: tuple[tuple[bytes, Callable[[BinaryIO], ImageFile]], ...] = (
    (b"\xff\xd8\xff", jpeg_factory),
    (b"\x89PNG\r\n\x1a\n", PngImageFile),
    (b"GIF8", GifImageFile),
    (b"BM", BmpImageFile),
    (b"II*\0", TiffImageFile),
    (b"MM\0*", TiffImageFile),
)


class Reason(StrEnum):
    """Why a photo is not used; the value is the sentence that the table keeps."""

    MISSING = "missing: there is no such file"
    NOT_A_FILE = "not a file: only regular files are read"
    NOT_PERMITTED = "not permitted: this user may not read the file"
    BAD_NAME = "bad name: the file's name is not valid UTF-8, rename it"
    EMPTY = "empty: the file has no bytes"
    NOT_AN_IMAGE = f"not an image: the bytes are none of {ACCEPTED}"
    TRUNCATED = "truncated: the file ends before the picture does"
    UNREADABLE = "unreadable: the picture cannot be decoded"
    OVERSIZED = "oversized: more pixels than the option max_megapixels allows"
    TOO_SMALL = f"too small: a side has fewer than {SMALLEST_SIDE} pixels"
    DUPLICATE = "duplicate: the same bytes as another photo"
    OPTED_OUT = "opted out: on the list of photos that are never processed"

    @property
    def status(self) -> Status:
        """``excluded`` where the photo could be read but is not wanted, else ``failed``."""
        return "excluded" if self in _UNWANTED else "failed"


_UNWANTED = (Reason.OVERSIZED, Reason.TOO_SMALL, Reason.DUPLICATE, Reason.OPTED_OUT)


class PhotoError(Exception):
    """One photo cannot be used; ``reason`` says why."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.value} ({detail})" if detail else reason.value)
        self.reason = reason


@dataclass(frozen=True)
class Photo:
    """One photo, upright: ``pixels`` ``(H, W, 3)`` uint8 RGB."""

    pixels: NDArray[np.uint8]

    @property
    def width(self) -> int:
        """Pixels across."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Pixels down."""
        return int(self.pixels.shape[0])


def read_photo(path: Path, *, options: PhotoOptions) -> Photo:
    """One photo, upright RGB, at most ``options.long_side`` pixels long.

    Raises:
        PhotoError: the file cannot be used; its ``reason`` says why.
    """
    with open_photo(path, options=options) as stream:
        return decode(stream, options=options)


def open_photo(path: Path, *, options: PhotoOptions) -> BufferedReader:
    """The bytes of a file, if it is a regular one and not too long to hold a picture of the size that is allowed.

    Raises:
        PhotoError: the file cannot be used; its ``reason`` says why.
    """
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


def decode(stream: BinaryIO, *, options: PhotoOptions) -> Photo:
    """The first picture of an image file, upright and of bounded size.

    Transparent parts show white; 16 bits are scaled to 8; CMYK is converted without a colour profile.

    Args:
        stream: the file's bytes, from their start.
        options: pictures longer than ``long_side`` pixels are shrunk by area; those of more than ``max_megapixels`` are
            refused by their header, before any pixel is decoded.

    Raises:
        PhotoError: the bytes hold no picture that can be used; never any other error.
    """
    long_side = options.long_side
    _silence_pillow()
    try:
        with _reader(stream)(stream) as image:
            _check_size(image.size, options.max_megapixels)
            # JPEG can be decoded at a half, a quarter or an eighth of its size; a no-op for the other formats.
            image.draft(None, (long_side, long_side))
            image.load()
            pixels = _rgb(_upright(image))
    except PhotoError:
        raise
    except Image.DecompressionBombError as error:
        raise PhotoError(Reason.OVERSIZED, str(error)) from error
    # A decoder that is fed hostile bytes raises anything at all.
    except Exception as error:
        cut = _ends_early(stream, error)
        raise PhotoError(Reason.TRUNCATED if cut else Reason.UNREADABLE, "" if cut else _words(error)) from error
    return Photo(_bounded(pixels, long_side))


def _silence_pillow() -> None:
    """Silence Pillow's warnings for good: what they warn of either fails with a reason or does not matter here.

    ``warnings.catch_warnings`` cannot be used, as photos are read in threads and it would change their filters too.
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


def _check_size(size: tuple[int, int], max_megapixels: float) -> None:
    width, height = size
    if width * height > max_megapixels * 1e6:
        raise PhotoError(Reason.OVERSIZED, f"{width} x {height}")
    if min(width, height) < SMALLEST_SIDE:
        raise PhotoError(Reason.TOO_SMALL, f"{width} x {height}")


def _upright(image: Image.Image) -> Image.Image:
    try:
        orientation = image.getexif().get(_ORIENTATION)
    except Exception:  # damaged EXIF data does not make the picture unusable
        return image
    transpose = _UPRIGHT.get(orientation) if isinstance(orientation, int) else None
    return image if transpose is None else image.transpose(transpose)


def _rgb(image: Image.Image) -> NDArray[np.uint8]:
    """``(H, W, 3)`` uint8, from any of Pillow's modes."""
    if image.mode.startswith("I") or image.mode == "F":
        grey = _eight_bits(np.asarray(image))
        return np.repeat(grey[:, :, None], 3, axis=2)
    if image.has_transparency_data:
        with_alpha = image.convert("RGBA")
        white = Image.new("RGBA", with_alpha.size, "white")
        image = Image.alpha_composite(white, with_alpha)
    return np.asarray(image.convert("RGB"), dtype=np.uint8)


def _eight_bits(grey: NDArray[np.generic]) -> NDArray[np.uint8]:
    """Grey levels of 16 or 32 bits scaled to 8.

    Pillow does not say how deep an ``I`` or ``F`` picture really is, so its brightest pixel decides.
    """
    levels = np.nan_to_num(np.asarray(grey, dtype=np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    brightest = levels.max()
    if grey.dtype == np.uint16:
        white = 65535.0
    elif grey.dtype.kind == "f":
        white = next((full for full in (1.0, 255.0, 65535.0) if brightest <= full), brightest)
    else:
        white = 65535.0 if brightest <= 65535 else 2.0**31 - 1
    return np.asarray((levels * (255 / white)).round().clip(0, 255), dtype=np.uint8)


def _bounded(pixels: NDArray[np.uint8], long_side: int) -> NDArray[np.uint8]:
    height, width = pixels.shape[:2]
    scale = long_side / max(height, width)
    if scale >= 1:
        return pixels
    size = (max(1, round(width * scale)), max(1, round(height * scale)))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _ends_early(stream: BinaryIO, error: Exception) -> bool:
    """Whether a picture that could not be decoded is one whose file was cut off."""
    if "truncated" in str(error).lower() or isinstance(error, EOFError):
        return True
    # WebP's decoder does not say so, but the header holds the file's length.
    stream.seek(0)
    start = stream.read(16)
    return start.startswith(b"RIFF") and stream.seek(0, 2) < int.from_bytes(start[4:8], "little") + 8


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:200]
