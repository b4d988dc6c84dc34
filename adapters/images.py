"""Decoding what an adapter is sent. Nothing is resized here: that is each local model's own preprocessing."""

from io import BytesIO
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def decode_rgb(data: bytes) -> "NDArray[np.uint8]":
    """Encoded bytes as an ``(H, W, 3)`` uint8 RGB array.

    Raises:
        ValueError: the bytes are not a readable image.
    """
    import numpy as np
    from PIL import Image

    try:
        with Image.open(BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"not a readable image: {error}") from error


def media_type(data: bytes) -> str:
    """``image/png`` or ``image/jpeg``, by the bytes' own signature.

    Raises:
        ValueError: neither.
    """
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    raise ValueError("not a PNG or JPEG image")
