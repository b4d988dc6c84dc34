"""An image without symmetry, and the bytes of image files."""

import struct
import zlib
from io import BytesIO

import numpy as np
from PIL import Image

WIDTH, HEIGHT = 60, 40


def tricolour(width: int = WIDTH, height: int = HEIGHT) -> Image.Image:
    """A red left half, a green right half and a blue bar at the top: different after any rotation or flip."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[:, : width // 2, 0] = 220
    pixels[:, width // 2 :, 1] = 220
    pixels[: height // 4] = (0, 0, 220)
    return Image.fromarray(pixels)


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    stream = BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def png_claiming(width: int, height: int) -> bytes:
    """A PNG with this size in its header and hardly any data."""

    def chunk(name: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks
