"""Preprocessing of images for local networks, as declared by a record."""

from dataclasses import dataclass, replace
from io import BytesIO
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Interpolation = Literal["nearest", "box", "bilinear", "hamming", "bicubic", "lanczos"]
Fit = Literal["crop", "stretch", "pad"]
Triple = tuple[float, float, float]

IMAGENET_MEAN: Triple = (0.485, 0.456, 0.406)
IMAGENET_STD: Triple = (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class Preprocessing:
    """A network's preprocessing; ValueError for invalid sizes and ``std``."""

    size: tuple[int, int]  # (height, width) of the network's input, in pixels
    mean: Triple  # subtracted from each channel, in the order of ``channels`` and in the units of ``values``
    std: Triple  # divides each channel afterwards
    # "crop" scales the shorter side to ``resize`` and crops the centre (missing pixels are black); "stretch" scales to
    # ``size``, ignoring the aspect ratio; "pad" fits the whole image into ``size`` with black borders.
    fit: Fit = "crop"
    resize: int | None = None  # for "crop": the shorter side in pixels; default: the shorter side of ``size``
    interpolation: Interpolation = "bilinear"  # antialiased when shrinking, as in Pillow
    channels: Literal["rgb", "bgr"] = "rgb"
    values: Literal["0-1", "0-255"] = "0-1"  # range before ``mean`` and ``std``

    def __post_init__(self) -> None:
        if min(self.size) < 1 or (self.resize is not None and self.resize < 1):
            raise ValueError(f"the sizes must be positive, not {self.size} and {self.resize}")
        if 0 in self.std:
            raise ValueError("std must not be 0: every channel is divided by it")


def decode_rgb(data: bytes) -> "NDArray[np.uint8]":
    """Decode an image to an ``(H, W, 3)`` uint8 RGB array; ValueError if it is not readable."""
    import numpy as np
    from PIL import Image

    try:
        with Image.open(BytesIO(data)) as image:
            return np.asarray(image.convert("RGB"), dtype=np.uint8)
    except (OSError, SyntaxError, Image.DecompressionBombError) as error:
        raise ValueError(f"not a readable image: {error}") from error


def pixels(data: bytes, preprocessing: Preprocessing) -> "NDArray[np.float32]":
    """Convert an encoded image to a network's input, ``(3, height, width)`` float32; ValueError if not readable."""
    import numpy as np
    from PIL import Image

    fitted = _fitted(Image.fromarray(decode_rgb(data)), preprocessing)
    values = np.asarray(fitted, dtype=np.float32)
    if preprocessing.values == "0-1":
        values = values / np.float32(255)
    if preprocessing.channels == "bgr":
        values = values[..., ::-1]
    normal = (values - np.asarray(preprocessing.mean, np.float32)) / np.asarray(preprocessing.std, np.float32)
    return np.ascontiguousarray(normal.transpose(2, 0, 1), dtype=np.float32)


def map_pixels(regions: "NDArray[np.uint8]", preprocessing: Preprocessing) -> "NDArray[np.uint8]":
    """Transform a map ``(H, W)`` of an image's pixels to the network's input ``(h, w)``; 0 outside of the image."""
    import numpy as np
    from PIL import Image

    fitted = _fitted(Image.fromarray(regions), replace(preprocessing, interpolation="nearest"))
    return np.asarray(fitted, dtype=np.uint8)


def _fitted(image: "Image", preprocessing: Preprocessing) -> "Image":
    """Scale, crop and pad an image to the network's size."""
    from PIL.Image import Resampling

    height, width = preprocessing.size
    if preprocessing.fit == "stretch":
        scaled = (width, height)
    elif preprocessing.fit == "pad":
        ratio = max(image.width / width, image.height / height)
        scaled = (max(1, round(image.width / ratio)), max(1, round(image.height / ratio)))
    else:
        short = preprocessing.resize or min(preprocessing.size)
        # Rounded down, as in torchvision.
        longer = int(short * max(image.size) / min(image.size))
        scaled = (short, longer) if image.width <= image.height else (longer, short)
    if scaled != image.size:
        image = image.resize(scaled, Resampling[preprocessing.interpolation.upper()])
    # Half pixels are rounded to even when cropping and down when padding, as in torchvision.
    left = round((image.width - width) / 2) if image.width >= width else -((width - image.width) // 2)
    top = round((image.height - height) / 2) if image.height >= height else -((height - image.height) // 2)
    return image.crop((left, top, left + width, top + height))
