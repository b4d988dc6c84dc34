"""Small images of sweeps for the viewer: their size, the window of the photo that they show, and their encoding.

All versions of a sweep are side by side in one image, its *film*.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from io import BytesIO

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from pipeline.run.storage import File

Pixels = NDArray[np.uint8]

# 20 MB in base64, so that the whole page stays below 25 MB.
ROOM = 15_000_000  # bytes
SIDES = (320, 256, 208, 160, 128)  # pixels of one version
# Typical size of faces at the first quality, and at the third, which is used if not all photos would fit otherwise.
BITS_PER_PIXEL, FEWEST_BITS = 0.9, 0.65
QUALITIES = (82, 68, 52, 36, 20)
TOO_MUCH = 1.03  # separately encoded versions take about this many times the bytes of their film
MARGIN = 1.3  # side of the window in longer sides of the mask, so that some hair and background are visible
GRID = 256  # units of an outline, whatever the film's size
SPECK = 16.0  # square units; smaller islands and holes are not drawn
# JPEGs can be shrunk while they are decoded, which is much faster.
_JPEG = b"\xff\xd8\xff"
_REDUCED = {8: cv2.IMREAD_REDUCED_COLOR_8, 4: cv2.IMREAD_REDUCED_COLOR_4, 2: cv2.IMREAD_REDUCED_COLOR_2}


@dataclass(frozen=True)
class Size:
    """The number of photos with films, the side of a version in pixels, and its largest share of a film in bytes."""

    photos: int
    side: int
    version_bytes: int


@dataclass(frozen=True)
class Window:
    """A square of a photo, in its pixels."""

    top: int
    left: int
    side: int


def affordable(photos: int, *, versions: int, twice: int = 0, room: int = ROOM) -> Size:
    """Return the largest films that fit: versions are shrunk, then compressed more, before photos are omitted.

    Args:
        photos: number of photos.
        versions: number of versions of each photo, in all its sweeps.
        twice: number of photos that are on the page a second time.
        room: bytes for all films.
    """

    def pictures(side: int, bits: float) -> int:
        return room // round(side * side * bits / 8)

    versions = max(1, versions)
    shown = min(photos, max(0, pictures(SIDES[-1], FEWEST_BITS) // versions - twice))
    made = (shown + twice) * versions
    side = next((side for side in SIDES if made <= pictures(side, BITS_PER_PIXEL)), SIDES[-1])
    return Size(shown, side, room // max(1, made))


def window_of(mask: Pixels) -> Window:
    """Return the square around a mask, with a margin, inside the photo.

    A mask that is longer than the photo's shorter side is cut at both ends.

    Raises:
        ValueError: the mask is empty.
    """
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if not len(rows):
        raise ValueError("the mask is empty")
    longer = max(rows[-1] - rows[0], columns[-1] - columns[0]) + 1
    side = min(round(longer * MARGIN), *mask.shape)
    top, left = (
        int(np.clip((places[0] + places[-1] + 1 - side) // 2, 0, length - side))
        for places, length in zip((rows, columns), mask.shape, strict=True)
    )
    return Window(top, left, side)


def outline(mask: Pixels, window: Window) -> str:
    """Return the edge of a mask as an SVG path, with the window as a square of ``GRID`` units."""
    inside = mask[window.top : window.top + window.side, window.left : window.left + window.side] > 0
    drawn = cv2.resize(inside.astype(np.uint8) * 255, (GRID, GRID), interpolation=cv2.INTER_LINEAR)
    contours, _ = cv2.findContours((drawn > 127).astype(np.uint8), cv2.RETR_CCOMP, cv2.CHAIN_APPROX_NONE)
    rings = [cv2.approxPolyDP(ring, 1.0, closed=True)[:, 0] for ring in contours if cv2.contourArea(ring) >= SPECK]
    return "".join("M" + "L".join(f"{x} {y}" for x, y in ring) + "Z" for ring in rings)


def film(files: Sequence[File], window: Window, *, side: int, most_bytes: int) -> bytes:
    """Encode the window of images of the same size, side by side, as one WebP image.

    Each is ``side`` pixels wide, or as wide as the window if that is smaller. Quality, and then size, are lowered until
    the image has at most ``most_bytes``.

    Raises:
        OSError: a file cannot be read, or is not an image.
        ValueError: the smallest image is still too large.
    """
    parts = np.hstack([part_of(path, window, side=side) for path in files])
    frames = cv2.cvtColor(parts, cv2.COLOR_BGR2RGB)
    for scale in (1.0, 0.5, 0.25):
        small = frames if scale == 1.0 else cv2.resize(frames, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
        for quality in QUALITIES:
            # The middle version predicts the size of all, so that few films are encoded twice.
            middle = np.array_split(small, len(files), axis=1)[len(files) // 2]
            if quality != QUALITIES[-1] and len(_webp(middle, quality)) * len(files) > TOO_MUCH * most_bytes:
                continue
            if len(content := _webp(small, quality)) <= most_bytes:
                return content
    raise ValueError(f"{len(files)} versions do not fit into {most_bytes} bytes")


def read_mask(path: File) -> Pixels:
    """Read a mask ``(H, W)`` of a run.

    Raises:
        OSError: the file cannot be read, or is not an image.
    """
    return _decoded(path, path.read_bytes(), cv2.IMREAD_GRAYSCALE)


def part_of(path: File, window: Window, *, side: int) -> Pixels:
    """Read the window of an image as ``(side, side, 3)`` BGR, or smaller if the window is.

    Raises:
        OSError: the file cannot be read, or is not an image.
    """
    content = path.read_bytes()
    shrunk = content.startswith(_JPEG)
    factor = next((factor for factor in _REDUCED if shrunk and window.side >= factor * side), 1)
    pixels = _decoded(path, content, _REDUCED.get(factor, cv2.IMREAD_COLOR))
    top, left, across = window.top // factor, window.left // factor, window.side // factor
    # An even side, because WebP stores colours for blocks of 2 x 2 pixels, which must not span two versions.
    wanted = max(2, min(side, across) // 2 * 2)
    part = pixels[top : top + across, left : left + across]
    return np.asarray(cv2.resize(part, (wanted, wanted), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _webp(pixels: Pixels, quality: int) -> bytes:
    content = BytesIO()
    # Method 2 of 0-6 is twice as fast as OpenCV's 4, for 3 % more bytes.
    Image.fromarray(pixels).save(content, "WEBP", quality=quality, method=2)
    return content.getvalue()


def _decoded(path: File, content: bytes, flags: int) -> Pixels:
    pixels = cv2.imdecode(np.frombuffer(content, np.uint8), flags) if content else None
    if pixels is None:
        raise OSError(f"{path} is not an image that can be read")
    return np.asarray(pixels, dtype=np.uint8)
